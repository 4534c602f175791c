//! An application that does what SPECweb99 describes as dynamic: pages around files, advertisements for visitors, a log of
//! forms. What a request means is in `sojourn_workload::web99`; here are its files, its log and its connections.
//!
//! It is quick enough to measure the server in front of it. Its name is a trademark, and results are none of its results.

mod application;
mod post_log;
mod responder;

pub use application::{Application, Response};
pub use post_log::PostLog;
pub use responder::serve;
