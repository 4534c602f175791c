//! What wakes the event loop of a run of viewers: sockets and timers; and the clock of packet arrivals.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use sojourn_measure::Nanos;

use crate::runtime::{RunError, batching::Batching, timers::Timers, timestamps};

/// How long loop iterations may be delayed at high rates: far less than what makes a sample void.
const TURN_SLACK: Nanos = Nanos(1_000_000);
/// The slot of a viewer's connection; each track has two more slots, for packets and reports.
pub(crate) const CONNECTION_SLOT: usize = 0;

const KEY_BITS: u32 = 24;
const SLOT_BITS: u32 = 8;

pub(crate) struct Wakeups {
    epoll: OwnedFd,
    /// When viewers' timeouts are checked.
    pub(crate) checks: Timers,
    /// When connections with a limited read rate may be read again.
    pub(crate) slow_reads: Timers,
    /// When HLS players have room for the next segment.
    pub(crate) requests: Timers,
    pub(crate) batching: Batching,
    pub(crate) arrivals: ArrivalClock,
    pub(crate) iterations: u64,
}

/// One of a viewer's sockets, as identified in epoll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventSource {
    pub(crate) viewer: usize,
    /// Distinguishes the viewer from an earlier one with the same key, for late events.
    pub(crate) serial: u32,
    pub(crate) slot: usize,
}

/// When packets arrived: the kernel's timestamp, or else when the wait that reported them returned.
#[derive(Debug)]
pub(crate) struct ArrivalClock {
    /// The offset of the wall clock, which the kernel's timestamps use, from the monotonic clock.
    wall_ahead: Nanos,
    woken_at: Nanos,
    pub(crate) stamped: u64,
    pub(crate) unstamped: u64,
}

impl Wakeups {
    pub(crate) fn new(origin: Nanos) -> Result<Wakeups, RunError> {
        Ok(Wakeups {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            checks: Timers::default(),
            slow_reads: Timers::default(),
            requests: Timers::default(),
            batching: Batching::new(TURN_SLACK),
            arrivals: ArrivalClock::new(origin),
            iterations: 0,
        })
    }

    pub(crate) fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Registers a socket, level-triggered.
    pub(crate) fn watch(
        &self,
        socket: impl AsFd,
        source: EventSource,
        flags: EventFlags,
    ) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, socket, source.data(), flags)
    }

    /// Changes the events of a registered socket. An unregistered one is left alone.
    pub(crate) fn watch_for(&self, socket: impl AsFd, source: EventSource, flags: EventFlags) {
        let _ = epoll::modify(&self.epoll, socket, source.data(), flags);
    }

    /// Unregisters a socket, if it is registered.
    pub(crate) fn ignore(&self, socket: impl AsFd) {
        let _ = epoll::delete(&self.epoll, socket);
    }
}

impl EventSource {
    fn data(self) -> EventData {
        let EventSource { viewer, serial, slot } = self;
        let serial = u64::from(serial) << (KEY_BITS + SLOT_BITS);
        EventData::new_u64(serial | ((slot as u64) << KEY_BITS) | viewer as u64)
    }

    pub(crate) fn of(data: u64) -> EventSource {
        let key = data & ((1 << KEY_BITS) - 1);
        let slot = (data >> KEY_BITS) & ((1 << SLOT_BITS) - 1);
        let serial = (data >> (KEY_BITS + SLOT_BITS)) as u32;
        EventSource { viewer: key as usize, serial, slot: slot as usize }
    }
}

impl ArrivalClock {
    fn new(origin: Nanos) -> ArrivalClock {
        let wall_ahead = timestamps::wall_clock_offset(origin);
        ArrivalClock { wall_ahead, woken_at: origin, stamped: 0, unstamped: 0 }
    }

    /// Records that a wait for sockets has returned.
    pub(crate) fn wake(&mut self, now: Nanos) {
        self.woken_at = now;
        self.wall_ahead = timestamps::wall_clock_offset(now);
    }

    /// The arrival time of data received with or without a timestamp.
    pub(crate) fn arrival(&mut self, stamp: Option<Nanos>) -> Nanos {
        match stamp {
            Some(wall) => {
                self.stamped += 1;
                wall - self.wall_ahead
            }
            None => {
                self.unstamped += 1;
                self.woken_at
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_data_names_viewer_serial_and_slot() {
        let source = EventSource { viewer: (1 << KEY_BITS) - 1, serial: u32::MAX, slot: 255 };
        assert_eq!(EventSource::of(source.data().u64()), source);
        let first = EventSource { viewer: 0, serial: 1, slot: CONNECTION_SLOT };
        assert_eq!(EventSource::of(first.data().u64()), first);
    }
}
