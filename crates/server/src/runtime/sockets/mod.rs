//! Socket calls that all drivers share: accept, receive, send. None waits unless it says so.

pub mod accept;
pub mod accept_queue;
pub mod options;
pub mod registry;
pub mod rounds;
pub mod send_rate;
pub mod transfer;
