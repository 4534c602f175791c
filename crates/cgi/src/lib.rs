//! The Common Gateway Interface (RFC 3875): how a web server passes a request to an application and reads its response.
//!
//! [`environment`] makes the meta-variables of a request, [`response`] reads the head of a script's response,
//! [`fastcgi`] frames both as the records of FastCGI, and [`responder`] is an application's side of it. Nothing here
//! opens a socket or starts a process.

#![forbid(unsafe_code)]

pub mod environment;
pub mod fastcgi;
pub mod responder;
pub mod response;

pub use environment::{Application, Client, Ends, Script, Variables};
pub use response::{HeadError, ScriptHead, read_head};
