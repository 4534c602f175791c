//! What every driver of connections does with sockets: accept, receive, send. None of it waits unless it says so.

pub mod accept;
pub mod options;
pub mod registry;
pub mod send_rate;
pub mod transfer;
