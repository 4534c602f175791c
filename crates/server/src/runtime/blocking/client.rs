//! The connection that a worker serves, with its socket and deadlines.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::connection::{Connection, Wait};
use crate::limits::Limits;
use crate::runtime::contention::Contention;
use crate::runtime::sockets::accept::Arrival;
use crate::runtime::sockets::send_rate::SendRate;
use crate::site::Site;

pub struct Client<'a> {
    pub socket: OwnedFd,
    pub connection: Connection,
    /// True if there may be something to receive; a short read means that the socket is empty.
    pub is_readable: bool,
    /// The number of its requests that were answered.
    pub answers: u64,
    pub contention: Contention<'a>,
    wait: Option<Wait>,
    deadline: Duration,
    send_rate: SendRate,
}

impl<'a> Client<'a> {
    pub fn new(
        Arrival { socket, peer, transport, .. }: Arrival,
        site: &Site,
        contention: Contention<'a>,
    ) -> Client<'a> {
        let connection = Connection::new(peer, site.tls_session(transport));
        let (deadline, send_rate) = (Duration::MAX, SendRate::default());
        Client {
            socket,
            connection,
            is_readable: false,
            answers: 0,
            contention,
            wait: None,
            deadline,
            send_rate,
        }
    }

    /// The deadline of a wait that starts at `now`.
    pub fn deadline(&mut self, now: Duration, limits: &Limits) -> Duration {
        let wait = self.connection.waits_for();
        if !self.wait.replace(wait).is_some_and(|before| wait.continues(before)) {
            self.deadline = limits.timeout(wait).map_or(Duration::MAX, |timeout| now.saturating_add(timeout));
        }
        self.deadline
    }

    /// Called when the deadline has passed: extends it and returns true if the client reads the response fast enough.
    pub fn try_extend(&mut self, now: Duration, limits: &Limits) -> bool {
        let bytes_min = limits.sent_bytes_min(self.connection.body_fraction());
        let is_fast_enough =
            self.wait.is_some_and(Wait::is_for_sending) && self.send_rate.is_kept(&self.socket, bytes_min);
        if is_fast_enough {
            self.deadline = now.saturating_add(limits.send);
        }
        is_fast_enough
    }
}
