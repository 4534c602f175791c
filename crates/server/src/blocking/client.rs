//! The connection that a worker serves, its socket, and how long the worker has patience with it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::connection::{Connection, Wait};
use crate::site::Limits;
use crate::sockets::accept::Arrival;

pub struct Client {
    pub socket: OwnedFd,
    pub connection: Connection,
    /// Whether there may be something to receive: a short read has emptied the socket.
    pub is_readable: bool,
    wait: Option<Wait>,
    deadline: Duration,
}

impl Client {
    pub fn new(Arrival { socket, peer, transport }: Arrival) -> Client {
        let connection = Connection::new(peer, transport);
        Client { socket, connection, is_readable: false, wait: None, deadline: Duration::MAX }
    }

    /// When patience ends with a client for whom the worker begins to wait at `now`.
    pub fn deadline(&mut self, now: Duration, limits: &Limits) -> Duration {
        let wait = self.connection.waits_for();
        // Trickling bytes do not move these deadlines.
        let stays = matches!(wait, Wait::Head(_) | Wait::End) && self.wait == Some(wait);
        if !stays {
            self.wait = Some(wait);
            self.deadline =
                limits.patience(wait).map_or(Duration::MAX, |patience| now.saturating_add(patience));
        }
        self.deadline
    }
}
