//! RTSP 1.0 (RFC 2326): parses and writes messages, interprets requests, and keeps the state of a session.
//!
//! Pure: no sockets, no clock, no films. [`Parser`] reads both directions, so server and load generator share it.
//! [`Command`] is what a request asks for, or the status that refuses it. [`Session`] is the state machine that SETUP,
//! PLAY, PAUSE and TEARDOWN move. Version 2.0 (RFC 7826) is a different protocol and gets 505.

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
