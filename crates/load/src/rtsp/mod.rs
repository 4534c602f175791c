//! A viewer's side of RTSP, without sockets or a clock: the dialogue, the session description, authentication.

pub mod authentication;
pub(crate) mod description;
pub mod dialogue;
