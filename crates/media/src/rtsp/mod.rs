//! RTSP 1.0 (RFC 2326): bytes to messages and back, what is asked, and what a session is in.
//!
//! Pure: no sockets, no clock, no films. [`Parser`] reads both directions, so a server and a load generator share it;
//! [`Ask`] is what a request comes to, or the status by which it is refused; [`Session`] is the machine that a
//! client's SETUP, PLAY, PAUSE and TEARDOWN move. Version 2.0 (RFC 7826) is another protocol: 505.

mod ask;
pub mod digest;
mod fields;
pub mod limits;
mod message;
mod method;
mod parser;
mod range;
mod rtp_info;
mod session;
mod status;
mod transport;
pub mod write;

pub use ask::{Ask, Refusal, Target};
pub use fields::Fields;
pub use message::{Interleaved, Message, Request, Response, Version};
pub use method::Method;
pub use parser::{ParseError, Parsed, Parser};
pub use range::{NptRange, RangeError, Start};
pub use rtp_info::{TrackInfo, track_infos};
pub use session::{Length, Playing, Session, SessionId, State, Track};
pub use status::Status;
pub use transport::{Lower, Transport, TransportError};
