//! The event loop: waits for sockets or the next due time, and handles what is due.
//!
//! The thread sleeps when there is nothing to do, or polls on a core of its own. Time spent polling for nothing is
//! counted separately, so in both modes CPU time is the cost of generating the load.

use std::{
    mem::{self, MaybeUninit},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{event::epoll::Event, io::Errno};
use sojourn_measure::{Nanos, clock};

use crate::{
    clients::{
        Run,
        progress::{Progress, Ticker},
    },
    plan::{StopRule, Waiting},
    runtime::{RunError, epoll as readiness, timestamps},
    statistics::outcome::Stopped,
};

/// Events per wait: enough to save waits under load, few enough not to delay due requests.
const EVENTS_MAX: usize = 128;
/// New clients and due requests handled before sockets are handled again.
const WAKES_MAX: usize = 64;
/// A poll that finds nothing is shorter than this; if it took longer, the thread did not have its core, so that time is
/// not idle.
const POLL_MAX: Nanos = Nanos(20_000);
/// A poll this long was interrupted by more than an interrupt.
const GAP_MIN: Nanos = Nanos(100_000);

impl Run<'_> {
    /// Runs until the plan is done; returns why it ended.
    pub(crate) fn run_until_stopped(
        &mut self,
        interrupted: &AtomicBool,
        progress: Option<&mut dyn FnMut(&Progress)>,
    ) -> Result<Stopped, RunError> {
        let mut ticker = Ticker::new(self.settings.origin, progress);
        let end = self.settings.origin + self.settings.schedule.end();
        let mut stopped = None;
        let mut drain_until = Nanos::MAX;
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        loop {
            let now = clock::now();
            if interrupted.load(Ordering::Relaxed) {
                return Ok(Stopped::Interrupted);
            }
            if let Some(failing) = self.take_snapshots(now) {
                stopped.get_or_insert(Stopped::Failing(failing));
            }
            if now >= ticker.next_tick
                && let Some(gone) = self.tick(now, &mut ticker)
            {
                return Ok(Stopped::ServerGone(gone));
            }
            if stopped.is_none() && (now >= end || self.is_exhausted()) {
                stopped = Some(Stopped::Completed);
            }
            if stopped.is_some() && self.draining.is_none() {
                self.draining = Some(now);
                drain_until = now + self.settings.limits.drain;
            }
            if self.draining.is_some() && (now >= drain_until || self.recorder.totals.in_flight.count == 0) {
                return Ok(stopped.unwrap_or(Stopped::Completed));
            }
            self.read_unread(now);
            let next = self
                .wake_due(now)
                .min(self.wakeups.next_read())
                .min(ticker.next_tick)
                .min(drain_until)
                .min(self.next_snapshot());
            self.wait(next, &mut events)?;
        }
    }

    /// Starts due clients and wakes those whose timers expired; returns the next such time.
    fn wake_due(&mut self, now: Nanos) -> Nanos {
        if self.draining.is_some() {
            return Nanos::MAX;
        }
        for _ in 0..WAKES_MAX {
            let start = self.workload.next_start().unwrap_or(Nanos::MAX);
            let timer = self.wakeups.timers.next().unwrap_or(Nanos::MAX);
            if start.min(timer) > now {
                return start.min(timer);
            }
            if start <= timer {
                self.start_client(start, now);
            } else if let Some((client, serial)) = self.wakeups.timers.take_due(now) {
                self.wake(client, serial);
            }
        }
        now
    }

    /// Continues to read connections that had more data than one iteration reads, or were held back by their read rate.
    fn read_unread(&mut self, now: Nanos) {
        for (key, serial) in mem::take(&mut self.wakeups.unread) {
            self.read_unread_connection(key, serial, now);
        }
        while let Some((key, serial)) = self.wakeups.slow_reads.take_due(now) {
            self.read_unread_connection(key, serial, now);
        }
    }

    fn read_unread_connection(&mut self, key: usize, serial: u32, now: Nanos) {
        let Some(connection) = self.table.live_connection(key, serial) else {
            return self.read_on_shared(key, serial, now);
        };
        if let Some(reader) = &mut connection.http.read_rate {
            reader.waiting = false;
        }
        if connection.http.is_busy() {
            self.receive(key, serial, now);
        }
    }

    fn wait(&mut self, until: Nanos, events: &mut [MaybeUninit<Event>]) -> Result<(), RunError> {
        let mut before = clock::now();
        if until > before {
            before = self.wakeups.batching.sleep(before);
        }
        loop {
            let timeout = match self.settings.waiting {
                Waiting::Sleep { .. } => until - before,
                Waiting::Spin => Nanos::ZERO,
            };
            let ready = match readiness::wait(&self.wakeups.epoll, &mut *events, timeout) {
                Ok(ready) => ready,
                // A signal: the loop checks whether it was interrupted.
                Err(Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let at = clock::now();
            if self.settings.transport.timestamps {
                self.wakeups.wall_ahead = timestamps::wall_clock_offset(at);
            }
            let is_idle = ready.is_empty();
            if timeout == Nanos::ZERO && at - before > GAP_MIN {
                self.recorder.gap(at - before);
            }
            for event in ready {
                let data = event.data.u64();
                self.on_event((data & u64::from(u32::MAX)) as usize, (data >> 32) as u32, event.flags, at);
            }
            self.wakeups.batching.begin(at);
            self.recorder.totals.iterations += u64::from(!is_idle || at >= until);
            if self.settings.waiting != Waiting::Spin || !is_idle || at >= until {
                return Ok(());
            }
            let totals = &mut self.recorder.totals;
            totals.idle = totals.idle + (at - before).min(POLL_MAX);
            before = at;
        }
    }

    /// Returns true if every visit has ended and no more will start, and that ends the run.
    fn is_exhausted(&mut self) -> bool {
        let may_end = self.settings.closed_clients.is_some()
            || self.settings.stop == StopRule::Answered
            || self.workload.is_quota_used();
        may_end && self.table.clients.is_empty() && self.workload.next_start().is_none()
    }
}
