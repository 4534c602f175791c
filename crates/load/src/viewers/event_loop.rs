//! The event loop of viewers: waits for sockets or the next due time, and handles what is due.
//!
//! Packets carry the kernel's timestamps, so at high rates loop iterations may be delayed a little to read many packets
//! at once.

use std::{
    mem::MaybeUninit,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{event::epoll::Event, io::Errno};
use sojourn_measure::{Nanos, clock};

use crate::{
    runtime::{RunError, epoll as readiness},
    viewers::{
        Run,
        progress::StreamProgress,
        wakeups::{CONNECTION_SLOT, EventSource},
    },
};

const EVENTS_MAX: usize = 256;
/// How often a viewer's timeouts are checked.
pub(crate) const CHECK_EVERY: Nanos = Nanos(250_000_000);
/// Timers handled before sockets are handled again.
const WAKES_MAX: usize = 64;
/// The time for responses to TEARDOWN at the end.
const DRAIN: Nanos = Nanos(2_000_000_000);

impl Run {
    /// Runs until the plan is done; returns true if it was interrupted.
    pub(crate) fn run_until_over(
        &mut self,
        interrupted: &AtomicBool,
        mut progress: Option<&mut dyn FnMut(&StreamProgress)>,
    ) -> Result<bool, RunError> {
        let measured_from = self.origin + self.ramp();
        let end = measured_from + self.plan.duration;
        let mut next_row = self.origin + self.plan.interval;
        let mut drained_by = Nanos::MAX;
        let mut was_interrupted = false;
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        loop {
            let now = clock::now();
            if self.measurements.snapshots.is_empty() && now >= measured_from {
                self.take_snapshot();
            }
            let is_asked = interrupted.load(Ordering::Relaxed);
            if !self.draining && (now >= end || is_asked) {
                was_interrupted = is_asked && now < end;
                self.add_row(now);
                self.draining = true;
                self.end_all(now);
                drained_by = now + DRAIN;
            }
            if self.draining && (now >= drained_by || self.is_drained()) {
                return Ok(was_interrupted);
            }
            if !self.draining && now >= next_row {
                let row = self.add_row(now);
                if let Some(progress) = &mut progress {
                    let fraction = (now - self.origin).seconds() / (end - self.origin).seconds();
                    progress(&row.with_fraction(fraction));
                }
                // After a late row, the next one is a full interval later.
                next_row = (next_row + self.plan.interval).max(now);
            }
            let due = self.wake_due(now);
            let is_ramp = self.measurements.snapshots.is_empty();
            let snapshot = if is_ramp { measured_from } else { Nanos::MAX };
            let last = if self.draining { drained_by } else { end.min(next_row) };
            self.wait(due.min(snapshot).min(last), &mut events)?;
        }
    }

    /// Returns true if every session has ended.
    fn is_drained(&self) -> bool {
        self.table.viewers.iter().all(|(_, viewer)| viewer.is_vanished())
    }

    /// Starts viewers and handles due timers; returns when the next is due.
    fn wake_due(&mut self, now: Nanos) -> Nanos {
        for _ in 0..WAKES_MAX {
            let start = self.next_start();
            let check = self.wakeups.checks.next().unwrap_or(Nanos::MAX);
            let slow_read = self.wakeups.slow_reads.next().unwrap_or(Nanos::MAX);
            let request = self.wakeups.requests.next().unwrap_or(Nanos::MAX);
            let first = start.min(check).min(slow_read).min(request);
            if first > now {
                return first;
            }
            if start == first {
                self.begin_viewer(now);
            } else if check == first {
                let Some((key, serial)) = self.wakeups.checks.take_due(now) else { continue };
                if self.table.is_live(key, serial) {
                    self.check(key, now);
                    self.wakeups.checks.set(now + CHECK_EVERY, key, serial);
                }
            } else if request == first {
                let Some((key, serial)) = self.wakeups.requests.take_due(now) else { continue };
                if self.table.is_live(key, serial) {
                    self.advance(key, now);
                }
            } else if let Some((key, serial)) = self.wakeups.slow_reads.take_due(now)
                && self.table.is_live(key, serial)
            {
                self.read(key, now);
            }
        }
        now
    }

    fn wait(&mut self, until: Nanos, events: &mut [MaybeUninit<Event>]) -> Result<(), RunError> {
        let mut now = clock::now();
        if until > now {
            now = self.wakeups.batching.sleep(now);
        }
        let ready = match readiness::wait(self.wakeups.epoll(), events, until - now) {
            Ok(ready) => ready,
            // A signal: the loop checks whether it was interrupted.
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let woken_at = clock::now();
        self.wakeups.arrivals.wake(woken_at);
        self.wakeups.iterations += 1;
        for event in ready {
            let EventSource { viewer, serial, slot } = EventSource::of(event.data.u64());
            if !self.table.is_live(viewer, serial) {
                continue;
            }
            match slot {
                CONNECTION_SLOT => self.on_connection(viewer, serial, event.flags),
                slot if slot % 2 == 1 => self.receive_media(viewer, (slot - 1) / 2),
                slot => self.receive_reports(viewer, (slot - 1) / 2),
            }
        }
        self.wakeups.batching.begin(woken_at);
        Ok(())
    }
}
