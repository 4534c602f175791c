//! What the workers of a process share: caches and counters behind one lock.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sojourn_cgi::Ends;
use sojourn_http::http2::HeadCache;

use crate::access_log::{AccessLog, CLOSING_MAX};
use crate::clock::Clock;
use crate::connection::{Connection, Context, Event, Handler, Pool, Reason, Shared, Want};
use crate::counters::scoreboard::{Permit, Slot};
use crate::counters::{Counter, Served};
use crate::site::{Site, origin_counts};

/// The lock is held while a connection handles an event, which never waits.
pub struct Service<'a> {
    pub(super) site: &'a Site,
    pub(super) log: Option<AccessLog>,
    /// True for a child process with one worker: it counts the log lines it loses and what it asks of a remote origin,
    /// and its parent releases its permit.
    is_child: bool,
    state: Mutex<State>,
}

struct State {
    handler: Box<dyn Handler>,
    heads: HeadCache,
    served: Served,
    slot: Slot,
}

/// Bytes transferred since the last event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub received: usize,
    pub sent: usize,
}

impl<'a> Service<'a> {
    /// For the threads of the process that serves `site`; counts in `slot`.
    pub fn of_threads(site: &'a Site, slot: Slot) -> io::Result<Service<'a>> {
        Service::new(site, slot, site.log.clone(), false)
    }

    /// For a child process with one worker, which writes its own log lines to `log`.
    pub fn of_child(site: &'a Site, slot: Slot, log: Option<AccessLog>) -> io::Result<Service<'a>> {
        Service::new(site, slot, log, true)
    }

    fn new(site: &'a Site, slot: Slot, log: Option<AccessLog>, is_child: bool) -> io::Result<Service<'a>> {
        let state =
            State { handler: site.handler()?, heads: HeadCache::default(), served: Served::default(), slot };
        Ok(Service { site, log, is_child, state: Mutex::new(state) })
    }

    /// Counts and publishes.
    pub fn count(&self, counter: Counter) {
        let mut state = self.lock();
        state.served.count(counter);
        state.publish();
    }

    /// Records the permit of the next connection; if the process dies, its parent releases it.
    pub fn permit(&self, permit: Permit) {
        if self.is_child {
            self.lock().slot.serve(permit);
        }
    }

    pub(super) fn begin(&self) {
        let mut state = self.lock();
        state.served.count(Counter::ConnectionsAccepted);
        state.served.count(Counter::ConnectionsOpen);
        state.publish();
    }

    /// Passes an event to `connection`. Returns its next want, and how many requests it has answered.
    pub(super) fn handle(
        &self,
        connection: &mut Connection,
        event: Event,
        pool: &mut Pool,
        clock: &Clock,
        is_draining: bool,
        traffic: Traffic,
    ) -> (Want, u64) {
        let mut state = self.lock();
        let before = state.served.value(Counter::Requests);
        let want = connection.handle(event, &mut self.context(&mut state, pool, clock, is_draining));
        state.served.add(Counter::ReceivedBytes, traffic.received as u64);
        state.served.add(Counter::SentBytes, traffic.sent as u64);
        let State { handler, served, .. } = &mut *state;
        handler.report(clock.now, served);
        state.publish();
        (want, state.served.value(Counter::Requests) - before)
    }

    pub(super) fn end(&self, mut connection: Connection, reason: Reason, pool: &mut Pool, clock: &Clock) {
        let mut state = self.lock();
        if let Some(counter) = reason.counter() {
            state.served.count(counter);
        }
        connection.finish(&mut self.context(&mut state, pool, clock, false));
        let open = state.served.value(Counter::ConnectionsOpen);
        state.served.set(Counter::ConnectionsOpen, open - 1);
        self.count_process(&mut state);
        state.publish();
    }

    fn count_process(&self, state: &mut State) {
        if !self.is_child {
            return;
        }
        if let Some(log) = &self.log {
            state.served.set(Counter::LogLinesDropped, log.dropped());
        }
        origin_counts(&*self.site.origin).for_each(|(counter, count)| state.served.set(counter, count));
    }

    fn context<'b>(
        &'b self,
        state: &'b mut State,
        pool: &'b mut Pool,
        clock: &'b Clock,
        is_draining: bool,
    ) -> Context<'b> {
        let shared = Shared {
            pool,
            heads: &mut state.heads,
            served: &mut state.served,
            clock,
            send_path: &self.site.send_path,
            log: self.log.as_ref(),
            limits: &self.site.limits,
            is_draining,
            stops_receiving: false,
            token: 0,
            // Applications are served by event loops.
            ends: Ends::default(),
        };
        Context { handler: &mut *state.handler, shared }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Service<'_> {
    /// The last log lines of a process may be lost like any others.
    fn drop(&mut self) {
        if let Some(log) = self.log.as_ref().filter(|_| self.is_child) {
            log.close(CLOSING_MAX);
        }
        let mut state = self.lock();
        self.count_process(&mut state);
        state.publish();
    }
}

impl State {
    fn publish(&mut self) {
        self.slot.publish_changes(&mut self.served);
    }
}
