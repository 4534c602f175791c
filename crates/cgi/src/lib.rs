//! The Common Gateway Interface (RFC 3875): what an application is told of a request, and how it answers.
//!
//! [`environment`] makes the meta-variables of a request, [`response`] reads the head of a script's response,
//! [`fastcgi`] frames both as the records of FastCGI. Nothing here opens a socket or starts a process.

pub mod environment;
pub mod fastcgi;
pub mod response;

pub use environment::{Application, Client, Script};
pub use response::{HeadError, http_head};
