//! The loop: wait for sockets or for the next due time, whichever comes first.
//!
//! One thread, one epoll descriptor. The thread sleeps when there is nothing to do, or polls on a core of its
//! own; what it spends polling for nothing is counted apart, so its CPU time is the cost of the load it
//! makes either way. What clients and connections do is in `client` and `exchange`.

use std::{
    mem::MaybeUninit,
    num::NonZeroU64,
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
    time::SystemTime,
};

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, Event},
    },
    io::Errno,
    thread::set_current_timer_slack,
};
use slab::Slab;
use sojourn_measure::{Nanos, Reading, clock, limits};
use thiserror::Error;

use crate::{
    Arrivals, Catalogue, Connections, Limits, Plan, Schedule, StopRule, Waiting,
    agenda::Agenda,
    client::Client,
    connection::Connection,
    connector::Connector,
    intervals::Intervals,
    ledger::Ledger,
    mark::StepMarks,
    observer::Observer,
    outcome::Outcome,
    rhythm::{Progress, Rhythm},
    timers::Timers,
};

/// Descriptors asked for: a quarter of a million connections and some room.
const DESCRIPTORS_WANTED: u64 = 262_144;
/// Events taken at once: enough to save waits under load, few enough that due requests are not held up.
const EVENTS_MAX: usize = 128;
/// New clients and due requests served before sockets are looked at again.
const WAKES_MAX: usize = 64;
/// Clients of a closed loop do not come faster than this, lest the server's accept queue overflow.
const CONNECTS_PER_SECOND_MAX: f64 = 20_000.0;
/// A poll that finds nothing takes less; one that took longer was kept from its core, which is not idling.
const POLL_MAX: Nanos = Nanos(20_000);
/// What is read at once: the head and the whole of a small body.
const BUFFER_BYTES: usize = 16 * 1024;

/// Why a run could not begin.
#[derive(Debug, Error)]
pub enum RunError {
    /// The kernel refuses what the loop needs.
    #[error("cannot wait for sockets: {0}")]
    Epoll(#[from] Errno),
}

/// Does what the plan says until it ends, `interrupted` is set, or the server is gone.
pub fn run(
    plan: Plan<'_>,
    interrupted: &AtomicBool,
    progress: Option<&mut dyn FnMut(&Progress)>,
) -> Result<Outcome, RunError> {
    let descriptors = limits::raise_descriptors(DESCRIPTORS_WANTED);
    // Sleep to the nanosecond; not granted in some sandboxes, where the default of 50 µs stays.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut run = Run::new(plan, descriptors, progress.is_some())?;
    let stopped_because = run.until_stopped(interrupted, progress)?;
    Ok(run.outcome(stopped_because))
}

/// A run under way.
pub(crate) struct Run<'a> {
    pub(crate) agenda: Agenda<'a>,
    pub(crate) catalogue: Catalogue,
    pub(crate) plan_connections: Connections,
    pub(crate) clients: Slab<Client>,
    pub(crate) connections: Slab<Connection>,
    pub(crate) connector: Connector,
    pub(crate) epoll: OwnedFd,
    pub(crate) timers: Timers,
    pub(crate) ledger: Ledger,
    pub(crate) buffer: Box<[u8; BUFFER_BYTES]>,
    /// Numbers clients and connections, so that late timers and events are known as such.
    pub(crate) serial: u32,
    /// Since when there are no new requests, and what is under way may end.
    pub(crate) draining: Option<Nanos>,
    /// Since when the server refused every connection.
    pub(crate) refused_since: Option<Nanos>,
    /// Where the search for connections that have waited too long goes on.
    pub(crate) scan_from: usize,
    pub(crate) origin: Nanos,
    started_at: SystemTime,
    closed_clients: Option<u32>,
    pub(crate) schedule: Schedule,
    pub(crate) stop: StopRule,
    pub(crate) limits: Limits,
    waiting: Waiting,
    pub(crate) observer: Observer,
    pub(crate) intervals: Option<Intervals>,
    pub(crate) marks: Vec<StepMarks>,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The schedule, or the last session, came to its end.
    Completed,
    /// The server failed a step, and the plan says to stop then.
    Failing(String),
    /// Someone asked.
    Interrupted,
    /// The server went away.
    ServerGone(String),
}

impl<'a> Run<'a> {
    fn new(plan: Plan<'a>, descriptors: u64, has_progress: bool) -> Result<Run<'a>, RunError> {
        let closed_clients = match plan.arrivals {
            Arrivals::Closed { clients, .. } => Some(clients),
            Arrivals::Sessions { .. } => None,
        };
        let settle = plan.schedule.steps().first().map_or(Nanos::ZERO, |step| step.settle);
        let at_least = Nanos::from_seconds(f64::from(closed_clients.unwrap_or(0)) / CONNECTS_PER_SECOND_MAX);
        let ramp = Nanos(settle.0 / 2).max(at_least);
        let origin = clock::now();
        let steps = plan.schedule.steps().len();
        Ok(Run {
            agenda: Agenda::new(plan.arrivals, origin, ramp, plan.seed),
            catalogue: plan.catalogue,
            plan_connections: plan.connections,
            clients: Slab::new(),
            connections: Slab::new(),
            connector: Connector::new(
                plan.target.address,
                plan.connections != Connections::Close,
                descriptors,
            ),
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            timers: Timers::default(),
            ledger: Ledger::new(steps, has_progress || plan.observe.timeline),
            buffer: Box::new([0; BUFFER_BYTES]),
            serial: 0,
            draining: None,
            refused_since: None,
            scan_from: 0,
            origin,
            started_at: SystemTime::now(),
            closed_clients,
            schedule: plan.schedule,
            stop: plan.stop,
            limits: plan.limits,
            waiting: plan.waiting,
            observer: Observer::new(&plan.observe, origin),
            intervals: plan.observe.interval.map(|length| Intervals::new(steps, length)),
            marks: vec![StepMarks::default(); steps],
        })
    }

    /// The step whose measured part a time falls into.
    pub(crate) fn step_of(&self, time: Nanos) -> Option<usize> {
        if time < self.origin { None } else { self.schedule.measured_step_at(time - self.origin) }
    }

    fn until_stopped(
        &mut self,
        interrupted: &AtomicBool,
        progress: Option<&mut dyn FnMut(&Progress)>,
    ) -> Result<Stopped, RunError> {
        let mut rhythm = Rhythm::new(self.origin, progress);
        let end = self.origin + self.schedule.end();
        let mut stopped = None;
        let mut drain_until = Nanos::MAX;
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        loop {
            let now = clock::now();
            if interrupted.load(Ordering::Relaxed) {
                return Ok(Stopped::Interrupted);
            }
            if let Some(failing) = self.take_marks(now) {
                stopped.get_or_insert(Stopped::Failing(failing));
            }
            if now >= rhythm.next_tick
                && let Some(gone) = self.tick(now, &mut rhythm)
            {
                return Ok(Stopped::ServerGone(gone));
            }
            if stopped.is_none() && (now >= end || self.is_exhausted()) {
                stopped = Some(Stopped::Completed);
            }
            if stopped.is_some() && self.draining.is_none() {
                self.draining = Some(now);
                drain_until = now + self.limits.drain;
            }
            if self.draining.is_some() && (now >= drain_until || self.ledger.totals.in_flight.count == 0) {
                return Ok(stopped.unwrap_or(Stopped::Completed));
            }
            let next = self.wake_due(now).min(rhythm.next_tick).min(drain_until).min(self.next_mark());
            self.wait(next, &mut events)?;
        }
    }

    /// Lets in the clients and wakes those whose time has come; answers the next such time.
    fn wake_due(&mut self, now: Nanos) -> Nanos {
        if self.draining.is_some() {
            return Nanos::MAX;
        }
        for _ in 0..WAKES_MAX {
            let start = self.agenda.next_start().unwrap_or(Nanos::MAX);
            let timer = self.timers.next().unwrap_or(Nanos::MAX);
            if start.min(timer) > now {
                return start.min(timer);
            }
            if start <= timer {
                self.start_client(now);
            } else if let Some((client, serial)) = self.timers.take_due(now) {
                self.wake(client, serial);
            }
        }
        now
    }

    fn wait(&mut self, until: Nanos, events: &mut [MaybeUninit<Event>]) -> Result<(), RunError> {
        let mut before = clock::now();
        loop {
            let timeout = match self.waiting {
                Waiting::Sleep => until - before,
                Waiting::Spin => Nanos::ZERO,
            };
            let timeout = Timespec {
                tv_sec: (timeout.0 / 1_000_000_000) as i64,
                tv_nsec: (timeout.0 % 1_000_000_000) as i64,
            };
            let (ready, _) = match epoll::wait(&self.epoll, &mut *events, Some(&timeout)) {
                Ok(ready) => ready,
                // A signal: the loop looks at what it asks for.
                Err(Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let at = clock::now();
            let is_idle = ready.is_empty();
            for event in ready {
                let data = event.data.u64();
                self.on_event((data & u64::from(u32::MAX)) as usize, (data >> 32) as u32, event.flags, at);
            }
            if self.waiting == Waiting::Sleep || !is_idle || at >= until {
                return Ok(());
            }
            let totals = &mut self.ledger.totals;
            totals.idle = totals.idle + (at - before).min(POLL_MAX);
            before = at;
        }
    }

    /// Whether every session is over and no more will come.
    fn is_exhausted(&mut self) -> bool {
        self.clients.is_empty() && self.agenda.next_start().is_none()
    }

    /// Counts what was left unanswered, and hands everything over.
    fn outcome(mut self, stopped: Stopped) -> Outcome {
        let end = self.draining.unwrap_or_else(clock::now);
        let unanswered: Vec<usize> = self.clients.iter().map(|(key, _)| key).collect();
        for key in unanswered {
            let errand = self.clients[key].errand.filter(|errand| errand.intended < end);
            if let Some(step) = errand.and_then(|errand| errand.step) {
                self.ledger.steps[step].unfinished += 1;
            }
            self.count_held_up(key, end);
        }
        let totals = self.ledger.totals;
        if let Some(marks) = self.marks.iter_mut().find(|marks| marks.from.is_some() && marks.end.is_none()) {
            marks.end = Some(self.observer.mark(&totals));
        }
        if let Some(intervals) = &mut self.intervals {
            for (step, (record, marks)) in self.ledger.steps.iter().zip(&self.marks).enumerate() {
                let end = marks.end.as_ref().map_or(Nanos::ZERO, |end| end.time - self.origin);
                intervals.finish(end, step, record);
            }
        }
        Outcome {
            stopped,
            started_at: self.started_at,
            closed_clients: self.closed_clients,
            mean_think: self.agenda.mean_think(),
            origin: self.origin,
            schedule: self.schedule,
            ledger: self.ledger,
            marks: self.marks,
            timeline: self.observer.into_timeline(),
            timestamps: Reading::unavailable("kernel timestamps were not asked for"),
            intervals: self.intervals,
        }
    }
}
