//! A client of a loop: a connection with its socket, and how long it is waited for.

use std::os::fd::OwnedFd;

use crate::connection::Connection;
use crate::counters::scoreboard::Permit;
use crate::runtime::timers::Patience;

/// A connection and its socket; `P` is what the loop's way of waiting knows of their progress.
pub struct Client<P> {
    pub socket: OwnedFd,
    pub connection: Connection,
    pub patience: Patience,
    /// Nobody sits on that of an upstream.
    pub seat: Permit,
    pub progress: P,
}

impl<P> Client<P> {
    /// A client that has not been waited for yet.
    pub fn new(socket: OwnedFd, connection: Connection, seat: Permit, progress: P) -> Client<P> {
        Client { socket, connection, patience: Patience::new(), seat, progress }
    }
}
