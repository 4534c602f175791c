//! Accepting connections and serving each before the next is accepted.
//!
//! Several workers wait in `accept` on one socket: the kernel wakes the one that has waited longest, so all have
//! their share and none wakes in vain. Nobody can wait in `accept` on several sockets; there each worker has a poll of
//! its own, and the kernel wakes one of them (`EPOLLEXCLUSIVE`), though not in turn. Whoever finds all workers busy
//! waits in the socket's backlog.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::Attendant;
use crate::counters::Counter;
use crate::counters::scoreboard::Permit;
use crate::runtime::sockets::accept::{Accepted, Acceptor, shed};
use crate::runtime::sockets::listener::Listener;
use crate::site::Site;
use crate::stop::Stop;

/// How long a worker waits for a connection before it looks whether it is to stop.
const ACCEPT_PATIENCE: Duration = Duration::from_millis(250);

/// Where workers accept.
pub struct Door {
    acceptors: Vec<Acceptor>,
}

impl Door {
    /// A door for those who come to `listeners`.
    pub fn new(listeners: Vec<Listener>) -> io::Result<Door> {
        let is_alone = listeners.len() == 1;
        let acceptor = |listener| {
            if is_alone { Acceptor::waiting(listener, ACCEPT_PATIENCE) } else { Acceptor::new(listener) }
        };
        Ok(Door { acceptors: listeners.into_iter().map(acceptor).collect::<io::Result<_>>()? })
    }

    /// A place for one worker.
    ///
    /// # Errors
    /// If there is no descriptor for its poll.
    pub fn place(&self) -> io::Result<DoorPlace<'_>> {
        let acceptors = &self.acceptors;
        if acceptors.len() == 1 {
            return Ok(DoorPlace { acceptors, poll: None });
        }
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (acceptor, index) in acceptors.iter().zip(0..) {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
            epoll::add(&poll, acceptor.fd(), epoll::EventData::new_u64(index), flags)?;
        }
        Ok(DoorPlace { acceptors, poll: Some(poll) })
    }
}

/// Where one worker waits for connections.
pub struct DoorPlace<'a> {
    acceptors: &'a [Acceptor],
    /// None where it can wait in `accept`.
    poll: Option<OwnedFd>,
}

impl DoorPlace<'_> {
    /// Waits for somebody, though not for ever.
    fn accept(&self) -> Accepted {
        let Some(poll) = &self.poll else { return self.acceptors[0].accept() };
        let mut events = Vec::with_capacity(1);
        let timeout = Timespec::try_from(ACCEPT_PATIENCE).ok();
        // If it fails, it is tried again after a look at what else there is to do.
        let _ = epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
        events.first().map_or(Accepted::Nobody, |event| self.acceptors[event.data.u64() as usize].accept())
    }

    fn somebody_waits(&self) -> bool {
        let listeners: Vec<_> = self.acceptors.iter().map(Acceptor::fd).collect();
        let mut waits: Vec<_> = listeners.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut waits, Some(&now)).is_ok_and(|count| count > 0)
    }
}

/// Has `attendant` serve who comes to `door` until `stop`; then those who have come.
pub fn accept_and_serve(attendant: &mut dyn Attendant, door: &DoorPlace<'_>, site: &Site, stop: &Stop) {
    while !attendant.is_overdue() {
        // Those who have connected already are served; nobody is waited for any more.
        if stop.is_requested() && !door.somebody_waits() {
            return;
        }
        match door.accept() {
            Accepted::Connection(arrival) => match site.board.enter(arrival.peer, &site.limits) {
                Ok(seat) => {
                    attendant.seat(seat);
                    attendant.serve(arrival);
                    attendant.seat(Permit::default());
                    site.board.leave(seat);
                }
                Err(limit) => {
                    shed(&arrival);
                    attendant.count(Counter::ConnectionsShed);
                    attendant.count(limit);
                }
            },
            Accepted::Shed => attendant.count(Counter::ConnectionsShed),
            Accepted::Failed => attendant.count(Counter::AcceptErrors),
            Accepted::Nobody => {}
            Accepted::Exhausted => {
                attendant.count(Counter::AcceptErrors);
                // Trying again at once would find the same.
                std::thread::sleep(ACCEPT_PATIENCE);
            }
        }
        attendant.rest();
    }
}
