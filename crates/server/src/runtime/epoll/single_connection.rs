//! A loop without listeners that serves one given connection at a time, with its connections to upstreams, while the
//! caller waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::{Client, Disk, Loop};
use crate::access_log::{AccessLog, CLOSING_MAX};
use crate::connection::{Event, Reason, Wait};
use crate::counters::Counter;
use crate::counters::scoreboard::{Permit, Slot};
use crate::runtime::contention::{Backlog, Contention};
use crate::runtime::event_loop::{EventLoop, LoopState};
use crate::runtime::sockets::accept::Arrival;
use crate::runtime::timers::wheel;
use crate::site::{Site, origin_counts};
use crate::stop::Stop;

/// Events per wait; there are few connections.
const EVENTS_MAX: usize = 16;

impl<'a, D: Disk> Loop<'a, D> {
    /// For a thread of the process that serves `site`.
    pub fn of_thread(site: &'a Site, stop: &'a Stop, disk: D) -> io::Result<Self> {
        Loop::new(site, Vec::new(), stop, disk)
    }

    /// For a child process, which counts in `slot` and writes its own log lines to `log`.
    pub fn of_child(
        site: &'a Site,
        slot: Slot,
        log: Option<AccessLog>,
        stop: &'a Stop,
        disk: D,
    ) -> io::Result<Self> {
        let child = Loop::with(LoopState::new(site, slot, log)?, Vec::new(), stop, disk)?;
        Ok(Loop { is_child: true, ..child })
    }

    /// Serves one connection until it has ended, and so have the exchanges that it started for coalesced requests.
    /// A client that keeps the loop waiting gives way to those in the backlog.
    pub fn serve(&mut self, arrival: Arrival, backlog: Option<&Backlog<'_>>) {
        // Upstreams may have closed connections meanwhile, and the server may be stopping.
        self.rest();
        let token = self.state.clients.vacant();
        let mut contention = Contention::new(backlog, self.answers(), self.state.clock.now);
        self.add_client(arrival, Permit::default());
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while self.is_busy() {
            let (look, _) = contention.next(self.state.clock.now, self.state.clients.find(token).is_some());
            let look = look.map(|look| look.saturating_sub(self.state.clock.now));
            let timeout = self.timeout().into_iter().chain(look).min();
            if self.wait(&mut events, timeout).is_err() {
                // Out of memory for the wait itself: connections end, as with any failure.
                for token in self.state.clients.tokens() {
                    self.close(token, Reason::Failed);
                }
            }
            self.handle_events(&events);
            self.give_way(token, &mut contention);
            self.flush_log();
        }
        self.publish();
    }

    /// Ends the connection with `token` if its client keeps the loop waiting and others wait for it.
    fn give_way(&mut self, token: u64, contention: &mut Contention<'_>) {
        let (now, answers) = (self.state.clock.now, self.answers());
        let Some(client) = self.state.clients.find(token) else { return };
        let wait = client.connection.waits_for();
        contention.observe(wait, answers, now);
        contention.look_if_due(now);
        let ends = contention.ends(now);
        client.is_contended = contention.is_certain();
        if !ends {
            return;
        }
        if wait != Wait::Request {
            self.state.served.count(Counter::LimitWorkers);
            client.progress.parked = None;
            return self.dispatch(token, Event::Expired);
        }
        // A request may just have arrived.
        client.progress.is_readable = true;
        self.drive_parked(token);
        let is_idle = |client: &mut Client| client.connection.waits_for() == Wait::Request;
        if self.state.clients.find(token).is_some_and(is_idle) && self.answers() == answers {
            self.state.served.count(Counter::LimitWorkers);
            self.close(token, Reason::Finished);
        }
    }

    /// The number of requests answered.
    fn answers(&self) -> u64 {
        self.state.served.value(Counter::Requests)
    }

    /// Handles events that arrived between two connections.
    pub fn rest(&mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        // If it fails, it is tried again with the next connection.
        if self.wait(&mut events, Some(Duration::ZERO)).is_ok() {
            self.handle_events(&events);
            // A tick may have found that an idle connection to an upstream is wanted elsewhere.
            self.empty_outbox();
        }
        self.flush_log();
    }

    /// How long it needs no attention.
    pub fn next_timeout(&self) -> Option<Duration> {
        let tick = (!self.state.clients.is_empty()).then(|| wheel::until_next(self.state.clock.now));
        let lines = self.state.log.as_ref().and_then(AccessLog::due_in);
        tick.into_iter().chain(lines).min()
    }

    /// Counts and publishes.
    pub fn count(&mut self, counter: Counter) {
        self.state.served.count(counter);
        self.publish();
    }

    /// Records the permit of the next connection; if the process dies, its parent releases it.
    pub fn permit(&self, permit: Permit) {
        if self.is_child {
            self.state.slot.serve(permit);
        }
    }

    /// Returns true if a stop was requested and the drain timeout has passed.
    pub fn is_overdue(&self) -> bool {
        self.state.drain.is_some_and(|drain| drain.is_over(self.state.clock.now))
    }

    /// In a child: writes the last log lines and publishes the counters.
    pub fn end(&mut self) {
        if let Some(log) = self.state.log.as_ref().filter(|_| self.is_child) {
            log.close(CLOSING_MAX);
        }
        self.publish();
    }

    /// Adds counters that every separate process has to report itself.
    pub(super) fn count_process(&mut self) {
        self.state.site.content.report_own(&mut self.state.served);
        origin_counts(&*self.state.site.origin)
            .for_each(|(counter, count)| self.state.served.set(counter, count));
        if let Some(log) = &self.state.log {
            self.state.served.set(Counter::LogLinesDropped, log.dropped());
        }
    }

    fn is_busy(&mut self) -> bool {
        let has_work = self.state.handler.outbox().is_some_and(|outbox| outbox.has_work());
        has_work || self.state.clients.len() > self.state.launched() || self.state.handler.is_busy()
    }

    fn flush_log(&self) {
        if let Some(log) = &self.state.log
            && log.due_in() == Some(Duration::ZERO)
        {
            log.write_out();
        }
    }
}

impl<D> AsFd for Loop<'_, D> {
    /// Readable when there are events.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
