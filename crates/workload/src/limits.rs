//! Limits that imported logs and stored traces share.

/// The longest line. A longer one counts as malformed, and at most this many of its bytes are held.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The longest host name with port: 253 bytes (RFC 1035), a colon and five digits.
pub const HOST_BYTES_MAX: usize = 259;

/// The longest `OLD=NEW` mapping.
pub const MAP_BYTES_MAX: usize = 256;

/// The most distinct names of documents, and likewise of clients.
pub const NAMES_MAX: usize = 1 << 24;

/// The most requests of a trace.
pub const REQUESTS_MAX: usize = u32::MAX as usize;

/// The most documents, distinct in name or size.
pub const DOCUMENTS_MAX: usize = NAMES_MAX;
