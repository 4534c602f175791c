//! What wakes the event loop: sockets, client timers, and connections with unread data.

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags};
use sojourn_measure::Nanos;

use crate::runtime::{RunError, batching::Batching, timers::Timers, timestamps};

pub(crate) struct Wakeups {
    pub(crate) epoll: OwnedFd,
    /// When clients send their next requests.
    pub(crate) timers: Timers,
    /// When connections with a limited read rate may be read again.
    pub(crate) slow_reads: Timers,
    /// Connections with more data than one loop iteration reads, with their serials.
    pub(crate) unread: Vec<(usize, u32)>,
    pub(crate) batching: Batching,
    /// The offset of the wall clock, which the kernel's timestamps use, from the monotonic clock.
    pub(crate) wall_ahead: Nanos,
}

impl Wakeups {
    pub(crate) fn new(batching: Batching, origin: Nanos) -> Result<Wakeups, RunError> {
        Ok(Wakeups {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            timers: Timers::default(),
            slow_reads: Timers::default(),
            unread: Vec::new(),
            batching,
            wall_ahead: timestamps::wall_clock_offset(origin),
        })
    }

    /// When a connection may be read again without an event.
    pub(crate) fn next_read(&self) -> Nanos {
        if self.unread.is_empty() { self.slow_reads.next().unwrap_or(Nanos::MAX) } else { Nanos::ZERO }
    }
}
