//! The loop: wait for sockets or for the next due time, whichever comes first, and never spin.
//!
//! One thread, one epoll descriptor. The thread sleeps when there is nothing to do, so its CPU time is the
//! cost of the load it makes. What clients and connections do is in `client` and `exchange`.

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
use sojourn_measure::{Histogram, Nanos, clock, limits};
use thiserror::Error;

use crate::{
    Arrivals, Catalogue, Cause, Connections, Limits, Plan, Schedule, StopRule,
    agenda::Agenda,
    check,
    client::Client,
    connection::{Connection, State},
    connector::Connector,
    ledger::Ledger,
    mark::StepMarks,
    observer::{Observer, TICK},
    outcome::Outcome,
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
/// How long a server that said it closes is given to do so.
const LINGER_MAX: Nanos = Nanos(1_000_000_000);
/// A server that only refuses connections for this long is taken to be gone.
const REFUSED_MAX: Nanos = Nanos(1_000_000_000);
/// Connections looked at in one tick for having waited too long.
const EXPIRED_SCAN_MAX: usize = 2_000;
/// What is read at once: the head and the whole of a small body.
const BUFFER_BYTES: usize = 16 * 1024;

/// Why a run could not begin.
#[derive(Debug, Error)]
pub enum RunError {
    /// The kernel refuses what the loop needs.
    #[error("cannot wait for sockets: {0}")]
    Epoll(#[from] Errno),
}

/// How a run is going, once a second.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The share of the schedule that is over.
    pub fraction: f64,
    /// The step whose measured part it is in.
    pub step: Option<usize>,
    /// Good answers in the last second.
    pub requests_per_second: f64,
    /// From the intended start, of the last second's answers.
    pub time_to_first_byte_p95_seconds: Option<f64>,
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
    scan_from: usize,
    origin: Nanos,
    started_at: SystemTime,
    closed_clients: Option<u32>,
    schedule: Schedule,
    stop: StopRule,
    limits: Limits,
    observer: Observer,
    marks: Vec<StepMarks>,
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
            observer: Observer::new(&plan.observe, origin),
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
        let timeout = until - clock::now();
        let timeout = Timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as i64,
            tv_nsec: (timeout.0 % 1_000_000_000) as i64,
        };
        let (events, _) = match epoll::wait(&self.epoll, events, Some(&timeout)) {
            Ok(ready) => ready,
            // A signal: the loop looks at what it asks for.
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let at = clock::now();
        for event in events {
            let data = event.data.u64();
            self.on_event((data & u64::from(u32::MAX)) as usize, (data >> 32) as u32, event.flags, at);
        }
        Ok(())
    }

    /// Whether every session is over and no more will come.
    fn is_exhausted(&mut self) -> bool {
        self.clients.is_empty() && self.agenda.next_start().is_none()
    }

    /// When the next mark is to be taken.
    fn next_mark(&self) -> Nanos {
        if self.draining.is_some() {
            return Nanos::MAX;
        }
        let times = self.schedule.steps().iter().zip(&self.marks).find_map(|(step, marks)| {
            let (from, end) = (step.measured_from(), step.end());
            match marks {
                StepMarks { from: None, .. } => Some(from),
                StepMarks { middle: None, .. } => Some(Nanos(from.0 / 2 + end.0 / 2)),
                StepMarks { end: None, .. } => Some(end),
                _ => None,
            }
        });
        times.map_or(Nanos::MAX, |time| self.origin + time)
    }

    /// Takes the marks whose time has come; answers why the run should stop, at the end of a failed step.
    fn take_marks(&mut self, now: Nanos) -> Option<String> {
        while self.next_mark() <= now {
            let index = self.marks.iter().position(|marks| marks.end.is_none())?;
            let totals = self.ledger.totals;
            let marks = &mut self.marks[index];
            if marks.from.is_none() {
                marks.from = Some(self.observer.mark(&totals));
            } else if marks.middle.is_none() {
                marks.middle = Some(self.observer.light_mark(&totals));
            } else {
                marks.end = Some(self.observer.mark(&totals));
                if let Some(failing) = self.failing(index, now) {
                    return Some(failing);
                }
            }
        }
        None
    }

    fn failing(&self, index: usize, now: Nanos) -> Option<String> {
        let StopRule::Failing { target_p95 } = self.stop else { return None };
        let waiting = self.clients.iter().filter_map(|(_, client)| client.errand);
        let waiting = waiting.filter(|errand| errand.step == Some(index) && errand.acted > Nanos::ZERO);
        let overdue = waiting.filter(|errand| now - errand.intended > target_p95).count() as u64;
        check::failing(&self.ledger.steps[index], &self.marks[index], overdue, target_p95)
            .map(|why| format!("step {}: {why}", index + 1))
    }

    /// What is done ten times a second; answers why the server is taken to be gone, if it is.
    fn tick(&mut self, now: Nanos, rhythm: &mut Rhythm<'_>) -> Option<String> {
        let p95 = self.ledger.recent.as_mut().and_then(|recent| {
            let p95 = recent.quantile_seconds(0.95);
            rhythm.second.merge(recent);
            recent.reset();
            p95
        });
        let step = self.step_of(now);
        let with_plan = step.map(|index| (index, &self.schedule.steps()[index]));
        self.observer.tick(&self.ledger.totals, with_plan, p95);
        rhythm.advance(now, self.schedule.end(), self.origin, step, self.ledger.totals.answered);
        self.expire(now);
        if let Some(pid) = self.observer.ended_process() {
            return Some(format!("the observed process {pid} ended"));
        }
        let refused = self.refused_since.is_some_and(|since| now - since > REFUSED_MAX);
        refused.then(|| "the server refuses every connection".to_owned())
    }

    /// Ends what has waited too long: looks at some connections in every tick, and so at all of twenty
    /// thousand within a second. Looking at all of them at once would hold up those that are due.
    fn expire(&mut self, now: Nanos) {
        let limits = self.limits;
        let late = |connection: &Connection| match connection.state {
            State::Connecting if now - connection.opened > limits.connect_timeout => {
                Some(Cause::ConnectTimeout)
            }
            State::Sending(_) | State::Receiving
                if now - connection.exchange.sent > limits.response_timeout =>
            {
                Some(Cause::ResponseTimeout)
            }
            State::Lingering if now - connection.exchange.sent > LINGER_MAX => Some(Cause::ClosedEarly),
            _ => None,
        };
        let keys = self.connections.capacity();
        for _ in 0..keys.min(EXPIRED_SCAN_MAX) {
            self.scan_from = (self.scan_from + 1) % keys;
            let key = self.scan_from;
            if let Some(cause) = self.connections.get(key).and_then(late) {
                self.fail(key, cause, now);
            }
        }
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
        }
    }
}

/// Ticks, and reports of progress among them.
struct Rhythm<'p> {
    next_tick: Nanos,
    next_report: Nanos,
    report: Option<&'p mut dyn FnMut(&Progress)>,
    second: Histogram,
    answered_before: u64,
}

const SECOND: Nanos = Nanos(1_000_000_000);

impl<'p> Rhythm<'p> {
    fn new(origin: Nanos, report: Option<&'p mut dyn FnMut(&Progress)>) -> Rhythm<'p> {
        let (next_tick, next_report) = (origin + TICK, origin + SECOND);
        Rhythm { next_tick, next_report, report, second: Histogram::coarse(), answered_before: 0 }
    }

    fn advance(&mut self, now: Nanos, length: Nanos, origin: Nanos, step: Option<usize>, answered: u64) {
        // Ticks that were missed are left out, not made up for.
        while self.next_tick <= now {
            self.next_tick = self.next_tick + TICK;
        }
        if now < self.next_report {
            return;
        }
        let seconds = (now - (self.next_report - SECOND)).seconds();
        if let Some(report) = &mut self.report {
            report(&Progress {
                fraction: ((now - origin).seconds() / length.seconds()).min(1.0),
                step,
                requests_per_second: (answered - self.answered_before) as f64 / seconds,
                time_to_first_byte_p95_seconds: self.second.quantile_seconds(0.95),
            });
        }
        self.second.reset();
        self.answered_before = answered;
        self.next_report = now + SECOND;
    }
}
