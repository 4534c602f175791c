//! A run from its plan to its outcome, and what is in hand meanwhile.
//!
//! One thread, one epoll descriptor. It turns in `event_loop`, and keeps time in `rhythm`; what clients and connections
//! do is in `client` and `connection`.

use std::{
    collections::VecDeque, num::NonZeroU64, os::fd::OwnedFd, sync::atomic::AtomicBool, time::SystemTime,
};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::{
    event::epoll::{self, CreateFlags},
    thread::set_current_timer_slack,
};
use slab::Slab;
use sojourn_measure::{Nanos, Reading, clock, limits};

use crate::{
    clients::{client::Client, connection::Connection, progress::Progress},
    http::tls::Tls,
    plan::{
        Arrivals, Connections, Limits, Plan, StopRule, Think, Transport, Waiting,
        catalogue::Catalogue,
        schedule::Schedule,
        workload::{Agenda, Quota},
    },
    runtime::{
        RunError,
        batching::Turns,
        connector::{ConnectOptions, Connector},
        timers::Timers,
        timestamps as stamped,
    },
    statistics::{
        intervals::Intervals,
        observer::Observer,
        outcome::{Outcome, Stopped},
        recorder::Ledger,
        snapshot::StepMarks,
    },
};

/// Descriptors asked for: a quarter of a million connections and some room.
const DESCRIPTORS_WANTED: u64 = 262_144;
/// Clients of a closed loop connect no faster than this, so that the server's accept queue does not overflow.
const CONNECTS_PER_SECOND_MAX: f64 = 20_000.0;
/// Bytes per read: the head and the whole of a small body.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;

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

pub(crate) struct Run<'a> {
    pub(crate) agenda: Agenda<'a>,
    pub(crate) catalogue: Catalogue,
    pub(crate) plan_connections: Connections,
    pub(crate) clients: Slab<Client>,
    pub(crate) connections: Slab<Connection>,
    pub(crate) connector: Connector,
    pub(crate) tls: Option<Tls>,
    pub(crate) epoll: OwnedFd,
    pub(crate) timers: Timers,
    /// When connections that are read slowly may be read again.
    pub(crate) readers: Timers,
    /// Connections that had more to read than one turn takes, with their serials.
    pub(crate) unread: Vec<(usize, u32)>,
    /// Connections that wait for a visitor, with their serials; the one that has waited longest is first.
    pub(crate) parked: VecDeque<(usize, u32)>,
    /// True if connections wait for the next visitor when one is done.
    pub(crate) parks: bool,
    /// The most clients at once.
    pub(crate) under_way_max: usize,
    pub(crate) transport: Transport,
    /// Draws how long connections are used.
    pub(crate) random: Xoshiro256PlusPlus,
    quota: Quota,
    pub(crate) think: Think,
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
    pub(crate) waiting: Waiting,
    pub(crate) turns: Turns,
    /// How far the wall clock, on which the kernel stamps, is ahead of ours.
    pub(crate) wall_ahead: Nanos,
    pub(crate) observer: Observer,
    pub(crate) intervals: Option<Intervals>,
    pub(crate) marks: Vec<StepMarks>,
}

impl<'a> Run<'a> {
    fn new(plan: Plan<'a>, descriptors: u64, has_progress: bool) -> Result<Run<'a>, RunError> {
        let (closed_clients, under_way_max) = match plan.arrivals {
            Arrivals::Closed { clients } => (Some(clients), usize::MAX),
            Arrivals::Open { under_way_max, .. } => (None, under_way_max as usize),
            Arrivals::Logged(_) => (None, usize::MAX),
        };
        let settle = plan.schedule.steps().first().map_or(Nanos::ZERO, |step| step.settle);
        let at_least = Nanos::from_seconds(f64::from(closed_clients.unwrap_or(0)) / CONNECTS_PER_SECOND_MAX);
        let ramp = plan.transport.ramp.unwrap_or(Nanos(settle.0 / 2)).max(at_least);
        let quota = match plan.stop {
            StopRule::Requests(requests) => Quota { requests, ..Quota::UNLIMITED },
            StopRule::Visits(visits) => Quota { visits, ..Quota::UNLIMITED },
            StopRule::ScheduleEnd | StopRule::Failing { .. } => Quota::UNLIMITED,
        };
        // Two sequences, so that what is asked for does not depend on how connections are used.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
        // A closed loop waits for its answers: putting them off would make less load.
        let turns = Turns::new(match (plan.waiting, closed_clients) {
            (Waiting::Sleep { timer_slack }, None) => timer_slack,
            _ => Nanos::ZERO,
        });
        let mut transport = plan.transport;
        // An answer that waits for the next turn must not seem to be late.
        transport.timestamps |= turns.are_limited();
        let (origin, started_at) = (clock::now(), SystemTime::now());
        let agenda = Agenda::new(
            plan.arrivals,
            plan.requests,
            plan.think,
            transport.pipeline,
            quota,
            (origin, ramp),
            plan.seed,
        );
        let reused = plan.connections != Connections::Close;
        let steps = plan.schedule.steps().len();
        Ok(Run {
            parks: reused && agenda.visits_share_connections(),
            agenda,
            catalogue: plan.catalogue,
            plan_connections: plan.connections,
            clients: Slab::new(),
            connections: Slab::new(),
            connector: Connector::new(
                plan.target.address,
                reused || plan.tls.is_some(),
                descriptors,
                &ConnectOptions {
                    sources: &transport.sources,
                    read_bytes_per_second: transport.read_bytes_per_second,
                    timestamps: transport.timestamps,
                },
            ),
            tls: plan.tls,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            timers: Timers::default(),
            readers: Timers::default(),
            unread: Vec::new(),
            parked: VecDeque::new(),
            under_way_max,
            wall_ahead: stamped::wall_ahead(origin),
            turns,
            transport,
            random: Xoshiro256PlusPlus::seed_from_u64(random.random()),
            quota,
            think: plan.think,
            ledger: Ledger::new(steps, has_progress || plan.observe.timeline),
            buffer: Box::new([0; BUFFER_BYTES]),
            serial: 0,
            draining: None,
            refused_since: None,
            scan_from: 0,
            origin,
            started_at,
            closed_clients,
            schedule: plan.schedule,
            stop: plan.stop,
            limits: plan.limits,
            waiting: plan.waiting,
            observer: Observer::new(&plan.observe, origin, started_at),
            intervals: plan.observe.interval.map(|length| Intervals::new(steps, length)),
            marks: vec![StepMarks::default(); steps],
        })
    }

    /// The step whose measured part a time falls into.
    pub(crate) fn step_of(&self, time: Nanos) -> Option<usize> {
        if time < self.origin { None } else { self.schedule.measured_step_at(time - self.origin) }
    }

    /// The completed share of the run, by the clock or by the remaining requests.
    pub(crate) fn fraction(&self, now: Nanos) -> f64 {
        let by_clock = (now - self.origin).seconds() / self.schedule.end().seconds();
        by_clock.max(self.agenda.used(self.quota)).min(1.0)
    }

    /// Counts what was left unanswered, and hands everything over.
    fn outcome(mut self, stopped: Stopped) -> Outcome {
        let end = self.draining.unwrap_or_else(clock::now);
        let unanswered: Vec<usize> = self.clients.iter().map(|(key, _)| key).collect();
        for key in unanswered {
            let waiting = self.clients[key].errand.filter(|errand| errand.intended < end);
            if let Some(step) = waiting.and_then(|errand| errand.step) {
                self.ledger.steps[step].unfinished += 1;
            }
            self.count_held_up(key, end);
        }
        // Whoever was due and not let in: the generator was late. They are part of what was asked for.
        while let Some(due) = self.agenda.next_start().filter(|&due| due < end) {
            if let Some(step) = self.step_of(due) {
                self.ledger.steps[step].unfinished += 1;
            }
            self.agenda.skip();
        }
        for (_, connection) in &self.connections {
            for step in connection.under_way().filter_map(|exchange| exchange.errand.step) {
                self.ledger.steps[step].unfinished += 1;
            }
        }
        let stamped = self.ledger.steps.iter().any(|record| record.receive_lag.count() > 0);
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
            mix_check: self.agenda.mix_check(),
            think: self.think,
            origin: self.origin,
            schedule: self.schedule,
            ledger: self.ledger,
            marks: self.marks,
            timeline: self.observer.into_timeline(),
            timestamps: if !self.transport.timestamps {
                Reading::unavailable("kernel timestamps were not asked for (--timestamps)")
            } else if stamped {
                Reading::Value(())
            } else {
                Reading::unavailable("the kernel gave no timestamps for what was received")
            },
            intervals: self.intervals,
            timer_slack: self.turns.slack(),
            send_lag_p99_max: self.limits.send_lag_p99,
        }
    }
}
