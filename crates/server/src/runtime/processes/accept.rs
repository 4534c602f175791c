//! Accepting on behalf of other processes: admission, load shedding, pauses.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::counters::{Counter, Served};
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::accept::{Accepted, Acceptor, Arrival, shed};
use crate::site::Site;

/// The pause after descriptors have run out.
const PAUSE: Duration = Duration::from_millis(250);

/// Attempts to accept before other work is done.
const ATTEMPTS_MAX: usize = 64;

/// Listening sockets with the limit on open connections.
pub struct LimitedAcceptor<'a> {
    site: &'a Site,
    acceptors: Vec<Acceptor>,
    /// The listener to try next.
    turn: usize,
    paused_until: Option<Instant>,
}

impl<'a> LimitedAcceptor<'a> {
    /// Accepts connections to `listeners` within the limits of `site`.
    pub fn new(site: &'a Site, listeners: Vec<Listener>) -> std::io::Result<LimitedAcceptor<'a>> {
        // Connections are accepted at once: they wait here, not in the kernel.
        let acceptors = listeners.into_iter().map(|listener| Acceptor::new(listener, Duration::ZERO));
        let acceptors = acceptors.collect::<std::io::Result<_>>()?;
        Ok(LimitedAcceptor { site, acceptors, turn: 0, paused_until: None })
    }

    /// The next accepted connection. It counts as open until its permit is [released](crate::Scoreboard::release).
    pub fn next(&mut self, served: &mut Served) -> Option<Arrival> {
        if self.pause().is_some() {
            return None;
        }
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt() {
                Accepted::Connection(mut arrival) => {
                    match self.site.scoreboard.acquire(arrival.peer, &self.site.limits) {
                        Ok(permit) => arrival.permit = permit,
                        Err(limit) => {
                            refuse_overload(&arrival, served);
                            served.count(limit);
                            continue;
                        }
                    }
                    return Some(arrival);
                }
                Accepted::Shed => served.count(Counter::ConnectionsShed),
                Accepted::Failed => served.count(Counter::AcceptErrors),
                Accepted::Nobody => return None,
                Accepted::Exhausted => {
                    served.count(Counter::AcceptErrors);
                    self.paused_until = Some(Instant::now() + PAUSE);
                    return None;
                }
            }
        }
        None
    }

    /// Accepts from one of the listeners, in rotation.
    fn attempt(&mut self) -> Accepted {
        for _ in &self.acceptors {
            self.turn = (self.turn + 1) % self.acceptors.len();
            match self.acceptors[self.turn].accept() {
                Accepted::Nobody => {}
                accepted => return accepted,
            }
        }
        Accepted::Nobody
    }

    pub fn pause(&self) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// How many connections wait to be accepted now.
    pub fn waiting(&self) -> usize {
        self.acceptors.iter().map(Acceptor::queued).sum()
    }

    /// One of them is readable when a connection waits.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.acceptors.iter().map(Acceptor::fd)
    }
}

/// Refuses a connection above the limit.
pub fn refuse_overload(arrival: &Arrival, served: &mut Served) {
    shed(arrival);
    served.count(Counter::ConnectionsShed);
}
