//! Parses HTTP/1.x requests and responses, and writes response heads.
//!
//! Pure: no sockets, no files, no clock, no threads. A server parses requests with [`request::Parser`] and writes heads
//! with [`head`]. A load generator parses responses with [`response::parse`], a proxy with [`upstream::Parser`].
//! [`chunked`] decodes chunked bodies for all of them. [`http2`] is either side of a connection of HTTP/2, whose heads
//! take the same form. Where RFC 9112 leaves a choice, the strict one is taken:
//! whatever two implementations could read differently is refused.

#![forbid(unsafe_code)]

pub mod address;
pub mod chunked;
pub mod condition;
pub mod date;
pub mod head;
pub mod host;
pub mod http2;
pub mod limits;
pub mod media;
pub mod negotiation;
pub mod path;
pub mod range;
pub mod request;
pub mod response;
pub mod status;
pub mod token;
pub mod upstream;

pub use date::HttpDate;
pub use negotiation::Coding;
pub use path::SitePath;
pub use status::Status;
