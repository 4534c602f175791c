//! Limits that imported logs and stored traces share.

/// A longer line is malformed; of its bytes no more than this many are ever held.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The longest host that is one: 253 bytes (RFC 1035), a colon and a port.
pub const HOST_BYTES_MAX: usize = 259;

/// The longest `OLD=NEW`.
pub const MAP_BYTES_MAX: usize = 256;

/// The most names of one kind: 16 Mi documents' or clients'.
pub const NAMES_MAX: usize = 1 << 24;

/// The most requests of a trace: 4 Gi, less one.
pub const REQUESTS_MAX: usize = u32::MAX as usize;

/// The most documents, distinct in name or in size.
pub const DOCUMENTS_MAX: usize = NAMES_MAX;
