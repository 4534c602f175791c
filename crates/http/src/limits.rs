//! Every limit of the parsers, by name. Over one of them: a clear refusal, never unbounded memory.

/// The longest request or response head, from its first byte to the empty line.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The longest request line. Longer ones are answered 414.
pub const REQUEST_LINE_BYTES_MAX: usize = TARGET_BYTES_MAX + 64;

/// The longest request target. Longer ones are answered 414.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;

/// The most header fields in a head. More are answered 431.
pub const FIELDS_MAX: usize = 100;

/// The longest method. A longer one is answered 400 instead of 501.
pub const METHOD_BYTES_MAX: usize = 64;

/// Empty lines ignored before a request line. RFC 9112, 2.2 asks for at least one, which old clients send after a body.
pub const EMPTY_LINES_MAX: usize = 1;

/// The largest request body, its coding included, that is read and thrown away to keep a connection; larger ones close
/// it.
pub const DRAINED_BODY_BYTES_MAX: u64 = 64 * 1024;

/// The longest line with the size of a chunk, its extensions included.
pub const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;

/// The longest trailers of a chunked body, all together.
pub const TRAILERS_BYTES_MAX: usize = 8 * 1024;
