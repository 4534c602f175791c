//! The client side of RTSP, without sockets and clock: the session, its description, authentication.

pub mod authentication;
pub mod client;
pub(crate) mod description;
