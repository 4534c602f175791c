//! RTSP 1.0 (RFC 2326): bytes to messages and back, what is asked, and what a session is in.
//!
//! Pure: no sockets, no clock, no films. [`Parser`] reads both directions, so a server and a load generator share it;
//! [`Command`] is what a request comes to, or the status by which it is refused; [`Session`] is the machine that a
//! client's SETUP, PLAY, PAUSE and TEARDOWN move. Version 2.0 (RFC 7826) is another protocol: 505.

pub mod digest;
mod message;
mod parser;
mod range;
mod request;
mod session;
mod transport;
pub mod write;

pub use message::{
    BODY_BYTES_MAX, Fields, HEAD_BYTES_MAX, Interleaved, Message, Method, Request, Response, Status, Version,
};
pub use parser::{ParseError, Parsed, Parser};
pub use range::{NptRange, RangeError, Start, TrackInfo, track_infos};
pub use request::{Command, Refusal, Target};
pub use session::{Playing, Session, SessionId, State, Timeline, Track};
pub use transport::{LowerTransport, Transport, TransportError};
