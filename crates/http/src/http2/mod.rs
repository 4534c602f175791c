//! HTTP/2 (RFC 9113) without I/O: bytes in, events out, bytes to send.
//!
//! A [`Connection`] is either side. It validates what the peer sends, decompresses heads, keeps the states and windows
//! of streams, and answers SETTINGS and PING by itself. Each error gets the code that the RFC demands: malformed
//! messages end their stream, everything else the connection. Heads come out, and go in, as the text of HTTP/1, so
//! that the same parsers and writers serve both versions.
//!
//! It does not queue bodies. Whoever has some asks how much the windows allow ([`Connection::room`]), and writes DATA
//! frames of that; it chooses the order of streams, too ([`Priority`]).

mod connection;
mod fields;
pub mod frame;
mod head_cache;
pub mod hpack;
mod huffman;
mod priority;
mod sending;
mod streams;
#[cfg(test)]
mod tests;

pub use connection::{Connection, Event, Limits};
pub use fields::Section;
pub use head_cache::HeadCache;
pub use priority::Priority;
pub use sending::SentHead;

/// The client's first bytes (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest frame that either side receives unless it allows more (RFC 9113, 6.5.2).
pub const FRAME_BYTES_MAX: usize = 16 * 1024;

/// The windows at the start of a connection and of its streams (RFC 9113, 6.9.2).
pub const WINDOW_BYTES: u32 = 65_535;

/// The largest window (RFC 9113, 6.9.1).
pub const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// The reason for which a stream or a connection ends (RFC 9113, 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    pub const NO_ERROR: ErrorCode = ErrorCode(0);
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(2);
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(5);
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    pub const CANCEL: ErrorCode = ErrorCode(8);
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);
}
