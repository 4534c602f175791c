//! Every limit of the parsers, by name. Input over a limit is refused with a clear error and never takes unbounded
//! memory.

/// The longest request or response head in bytes, from its first byte to the empty line.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The longest request line. Longer ones are answered 414.
pub const REQUEST_LINE_BYTES_MAX: usize = TARGET_BYTES_MAX + 64;

/// The longest request target. Longer ones are answered 414.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;

/// The most header fields in a head. More are answered 431.
pub const FIELDS_MAX: usize = 100;

/// The longest method. A longer one is answered 400 instead of 501.
pub const METHOD_BYTES_MAX: usize = 64;

/// Empty lines ignored before a request line. RFC 9112, 2.2 asks for at least one, because old clients send one after a
/// body.
pub const EMPTY_LINES_MAX: usize = 1;

/// The largest unwanted request body, its coding included, that is read and discarded to keep the connection. A larger
/// one closes it.
pub const DRAINED_BODY_BYTES_MAX: u64 = 64 * 1024;

/// The longest chunk-size line, extensions included.
pub const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;

/// The longest trailers of a chunked body, in total.
pub const TRAILERS_BYTES_MAX: usize = 8 * 1024;
