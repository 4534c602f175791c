//! Every limit on messages, by name. Over one of them: a clear refusal, never unbounded memory.

/// The longest head, from its first byte to the empty line.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The longest target of a request.
pub const TARGET_BYTES_MAX: usize = 4 * 1024;

/// The most fields in a head.
pub const FIELDS_MAX: usize = 64;

/// The longest body.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Line ends that are skipped before a message; some clients send them to keep a connection.
pub const LINE_ENDS_MAX: usize = 8;

/// The alternatives in a Transport field that are looked at.
pub const TRANSPORTS_MAX: usize = 8;
