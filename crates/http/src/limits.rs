//! Every limit of the parsers, by name. Over one of them: a clear refusal, never unbounded memory.

/// The longest request or response head, from its first byte to the empty line.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The longest request line. Longer ones are answered 414.
pub const REQUEST_LINE_BYTES_MAX: usize = TARGET_BYTES_MAX + 64;

/// The longest request target. Longer ones are answered 414.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;

/// The most header fields in a head. More are answered 431.
pub const FIELDS_MAX: usize = 100;

/// Empty lines tolerated before a request line (RFC 9112, 2.2 asks for at least one).
pub const EMPTY_LINES_MAX: usize = 4;

/// The largest request body that is read and thrown away to keep a connection; larger ones close it.
pub const DRAINED_BODY_BYTES_MAX: u64 = 64 * 1024;
