//! Accepts connections and serves each before accepting the next.
//!
//! Several workers wait in `accept` on the same socket: the kernel wakes the one that has waited longest, so work is
//! shared evenly and none wakes in vain. `accept` cannot wait for several sockets; in that case each worker has its own
//! epoll, and the kernel wakes one of them (`EPOLLEXCLUSIVE`), though not in order. If all workers are busy,
//! connections wait in the socket's backlog, and idle clients [give way](crate::runtime::contention).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use super::Worker;
use crate::counters::Counter;
use crate::counters::scoreboard::Permit;
use crate::runtime::contention::Backlog;
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::accept::{Accepted, Acceptor, shed};
use crate::site::Site;
use crate::stop::Stop;

/// How long a worker waits for a connection before it checks for a stop.
const ACCEPT_TIMEOUT: Duration = Duration::from_millis(250);

pub struct SharedListeners {
    acceptors: Vec<Acceptor>,
}

impl SharedListeners {
    pub fn new(listeners: Vec<Listener>) -> io::Result<SharedListeners> {
        let is_alone = listeners.len() == 1;
        // Where a worker takes one connection at a time, waiting for one is no sign of overload.
        let acceptor = |listener| match is_alone {
            true => Acceptor::waiting(listener, ACCEPT_TIMEOUT),
            false => Acceptor::new(listener, Duration::ZERO),
        };
        Ok(SharedListeners { acceptors: listeners.into_iter().map(acceptor).collect::<io::Result<_>>()? })
    }

    /// The acceptor of one worker.
    ///
    /// # Errors
    /// If there is no descriptor for its epoll.
    pub fn acceptor(&self) -> io::Result<WorkerAcceptor<'_>> {
        let acceptors = &self.acceptors;
        if acceptors.len() == 1 {
            return Ok(WorkerAcceptor { acceptors, poll: None });
        }
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (acceptor, index) in acceptors.iter().zip(0..) {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
            epoll::add(&poll, acceptor.fd(), epoll::EventData::new_u64(index), flags)?;
        }
        Ok(WorkerAcceptor { acceptors, poll: Some(poll) })
    }
}

/// Where one worker waits for connections.
pub struct WorkerAcceptor<'a> {
    acceptors: &'a [Acceptor],
    /// `None` if it can wait in `accept`.
    poll: Option<OwnedFd>,
}

impl WorkerAcceptor<'_> {
    /// Waits for a connection, with a timeout.
    fn accept(&self) -> Accepted {
        let Some(poll) = &self.poll else { return self.acceptors[0].accept() };
        let mut events = Vec::with_capacity(1);
        let timeout = Timespec::try_from(ACCEPT_TIMEOUT).ok();
        // If it fails, it is tried again later.
        let _ = epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
        events.first().map_or(Accepted::Nobody, |event| self.acceptors[event.data.u64() as usize].accept())
    }

    /// How many connections wait to be accepted now.
    fn queued(&self) -> usize {
        self.acceptors.iter().map(Acceptor::queued).sum()
    }

    /// Readable while connections wait to be accepted.
    fn listeners(&self) -> Vec<BorrowedFd<'_>> {
        self.acceptors.iter().map(Acceptor::fd).collect()
    }
}

/// Lets `worker` serve accepted connections until `stop`, and then, like the others, some of those in the backlog.
pub fn accept_and_serve(worker: &mut dyn Worker, acceptor: &WorkerAcceptor<'_>, site: &Site, stop: &Stop) {
    let workers = site.workers.min(site.limits.connections_max);
    let backlog = Backlog::new(acceptor.listeners(), &site.scoreboard, workers);
    while !worker.is_overdue() {
        // After a stop, only connections in the backlog are served, and a few that come meanwhile. Under overload these come
        // without end.
        let is_waited_for =
            || backlog.has_waiting() && site.scoreboard.take_after_stop(|| acceptor.queued() + workers);
        if stop.is_requested() && !is_waited_for() {
            return;
        }
        match acceptor.accept() {
            Accepted::Connection(arrival) => match site.scoreboard.acquire(arrival.peer, &site.limits) {
                Ok(permit) => {
                    worker.permit(permit);
                    worker.serve(arrival, Some(&backlog));
                    worker.permit(Permit::default());
                    site.scoreboard.release(permit);
                }
                Err(limit) => {
                    shed(&arrival);
                    worker.count(Counter::ConnectionsShed);
                    worker.count(limit);
                }
            },
            Accepted::Shed => worker.count(Counter::ConnectionsShed),
            Accepted::Failed => worker.count(Counter::AcceptErrors),
            Accepted::Nobody => {}
            Accepted::Exhausted => {
                worker.count(Counter::AcceptErrors);
                // Retrying immediately would fail again.
                std::thread::sleep(ACCEPT_TIMEOUT);
            }
        }
        worker.rest();
    }
}
