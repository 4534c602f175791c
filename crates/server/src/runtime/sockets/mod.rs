//! What every driver of connections does with sockets: accept, receive, send. None of it waits unless it says so.

pub mod accept;
pub mod connect;
pub mod deferral;
pub mod kernel_tls;
pub mod listener;
pub mod pace;
pub mod registry;
pub mod transfer;
