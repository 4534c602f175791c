//! A listening socket, and what lies between the connections that it accepts and what is spoken on them.

use std::net::TcpListener;

use crate::connection::Transport;

/// Listening sockets that one server may have.
pub const LISTENERS_MAX: usize = 64;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// What its connections have for a transport.
    pub transport: Transport,
}

impl Listener {
    /// The same socket once more.
    pub fn try_clone(&self) -> std::io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, transport: self.transport })
    }
}
