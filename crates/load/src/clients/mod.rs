//! A run of HTTP clients from its plan to its outcome, and its state.
//!
//! One thread with one epoll descriptor. The loop is in `event_loop`, periodic work in `progress`; clients and
//! connections are in `client` and `connection`.

mod client;
mod connection;
mod event_loop;
mod http2;
mod measurement;
mod progress;
mod settings;
mod table;
mod users;
mod wakeups;

use std::{
    num::NonZeroU64,
    sync::{Arc, atomic::AtomicBool},
};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::thread::set_current_timer_slack;
use sojourn_measure::{Nanos, Reading, clock, limits};

use crate::{
    clients::{
        connection::Opener, http2::SharedConnections, measurement::Measurement, settings::Settings,
        table::ClientTable, users::Users, wakeups::Wakeups,
    },
    http::cause::Cause,
    plan::{Connections, Plan, Requests, catalogue::Catalogue, workload::Workload},
    runtime::{RunError, batching::Batching},
    statistics::{
        each_request::EachRequest,
        intervals::Intervals,
        observer::{Observer, keeps_windows},
        outcome::{Outcome, Stopped},
        recorder::Recorder,
        report::UsersReport,
        snapshot::StepSnapshots,
        step::PendingRequest,
    },
};

pub use progress::Progress;

/// The descriptor limit asked for: a quarter of a million connections.
const DESCRIPTORS_WANTED: u64 = 262_144;
/// Bytes per read: the head and all of a small body.
const BUFFER_BYTES: usize = 16 * 1024;

/// What has become of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    /// The response is complete, but not what it should be.
    WronglyAnswered,
    /// It was not sent, or not answered completely.
    Failed,
}

impl Ended {
    /// The end of a request whose response is complete, with what is wrong with it.
    pub(crate) fn answered(failure: Option<Cause>) -> Ended {
        if failure.is_some() { Ended::WronglyAnswered } else { Ended::Well }
    }
}

/// Runs the plan until it ends, `interrupted` is set, or the server is gone.
pub fn run(
    plan: Plan<'_>,
    interrupted: &AtomicBool,
    progress: Option<&mut dyn FnMut(&Progress)>,
) -> Result<Outcome, RunError> {
    let descriptors = limits::raise_descriptors(DESCRIPTORS_WANTED);
    // Sleep with nanosecond precision. Some sandboxes forbid that; the default of 50 µs stays then.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut run = Run::new(plan, descriptors, progress.is_some())?;
    let stopped_because = run.run_until_stopped(interrupted, progress)?;
    Ok(run.outcome(stopped_because))
}

/// The state of a run, grouped by what changes it: the event loop writes `wakeups` and `draining`, clients and
/// connections write `table` and `opener`, the clock writes `measurement`; all report to the recorder.
pub(crate) struct Run<'a> {
    pub(crate) settings: Settings,
    pub(crate) workload: Workload<'a>,
    pub(crate) users: Option<Users>,
    /// The requests, and what is known about their responses.
    pub(crate) catalogue: Catalogue,
    pub(crate) table: ClientTable,
    /// Connections of HTTP/2.
    pub(crate) shared: SharedConnections,
    pub(crate) opener: Opener,
    pub(crate) wakeups: Wakeups,
    pub(crate) recorder: Recorder,
    pub(crate) measurement: Measurement,
    /// When draining started: no requests become due any more, and those that were due may end.
    pub(crate) draining: Option<Nanos>,
    pub(crate) buffer: Box<[u8; BUFFER_BYTES]>,
    /// The last request that was put together before it was sent.
    pub(crate) request_space: Vec<u8>,
}

impl<'a> Run<'a> {
    fn new(plan: Plan<'a>, descriptors: u64, has_progress: bool) -> Result<Run<'a>, RunError> {
        // Separate streams, so that requests do not depend on how connections are used.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
        let users = match &plan.requests {
            Requests::Scenario(scenario) => Some(Users::new(Arc::clone(scenario), random.random())),
            _ => None,
        };
        let mut settings = Settings::of(&plan);
        let batching = Batching::new(settings.timer_slack());
        // A response that waits for the next loop iteration must not count as late.
        settings.transport.timestamps |= batching.are_limited();
        let Plan { target, arrivals, requests, think, catalogue, tls, observe, seed, .. } = plan;
        let (origin, steps) = (settings.origin, settings.schedule.steps().len());
        let together = settings.transport.pipeline;
        let times = (origin, settings.ramp());
        Ok(Run {
            workload: Workload::new(arrivals, requests, think, together, settings.quota, times, seed),
            users,
            catalogue,
            table: ClientTable::default(),
            shared: SharedConnections::default(),
            opener: Opener {
                connector: settings.connector(target.address, tls.is_some(), descriptors),
                tls,
                random: Xoshiro256PlusPlus::seed_from_u64(random.random()),
                refused_since: None,
            },
            wakeups: Wakeups::new(batching, origin)?,
            recorder: Recorder::new(
                steps,
                has_progress || observe.timeline,
                keeps_windows(&observe),
                observe.requests.then(|| EachRequest::new(origin)),
            ),
            measurement: Measurement {
                observer: Observer::new(&observe, settings.waiting, steps, origin, settings.started_at),
                intervals: observe.interval.map(|length| Intervals::new(steps, length)),
                steps: vec![StepSnapshots::default(); steps],
            },
            draining: None,
            buffer: Box::new([0; BUFFER_BYTES]),
            request_space: Vec::new(),
            settings,
        })
    }

    /// Returns true if connections are kept for the next client after a visit.
    pub(crate) fn parks(&self) -> bool {
        self.settings.connections != Connections::Close
            && (self.workload.visits_share_connections() || self.workload.users_stay())
    }

    /// The completed share of the run, by time or by the remaining requests.
    pub(crate) fn fraction(&self, now: Nanos) -> f64 {
        let by_clock = (now - self.settings.origin).seconds() / self.settings.schedule.end().seconds();
        by_clock.max(self.workload.used(self.settings.quota)).min(1.0)
    }

    /// Counts the unanswered requests and returns the outcome.
    fn outcome(mut self, stopped: Stopped) -> Outcome {
        let end = self.draining.unwrap_or_else(clock::now);
        let last_step = self.settings.last_step(end);
        let unanswered: Vec<usize> = self.table.clients.iter().map(|(key, _)| key).collect();
        for key in unanswered {
            // Some that were begun while draining had waited for a response that came after the end.
            let is_due = |pending: &PendingRequest| pending.intended < end || pending.acted > Nanos::ZERO;
            if let Some(waiting) = self.table.clients[key].pending.filter(is_due) {
                self.recorder.leave_unfinished(&waiting, last_step);
            }
            self.count_held_up(key, end);
        }
        // Arrivals that were due but not started by a late generator are part of the load, too.
        while let Some(due) = self.workload.next_start().filter(|&due| due < end) {
            if let Some(step) = self.settings.step_of(due) {
                self.recorder.steps[step].unfinished += 1;
            }
            self.workload.skip();
        }
        for (_, connection) in &self.table.connections {
            for exchange in connection.under_way() {
                self.recorder.leave_unfinished(&exchange.pending, last_step);
            }
        }
        for exchange in self.shared.under_way() {
            self.recorder.leave_unfinished(&exchange.pending, last_step);
        }
        let under_way = self.table.clients.iter().filter_map(|(_, client)| client.user.as_deref());
        let kept_users = self.users.as_ref().map(|users| users.kept(under_way)).unwrap_or_default();
        let stamped = self.recorder.steps.iter().any(|record| record.receive_lag.count() > 0);
        self.measurement.finish(&mut self.recorder, self.settings.origin);
        let (timeline, windows) = self.measurement.observer.into_records();
        Outcome {
            stopped,
            started_at: self.settings.started_at,
            closed_clients: self.settings.closed_clients,
            mean_think: self.workload.mean_think(),
            mix_check: self.workload.mix_check(),
            think: self.settings.think,
            origin: self.settings.origin,
            schedule: self.settings.schedule,
            names: self.catalogue.names().to_vec(),
            file_set_load: self.catalogue.file_set_load(),
            users: self.users.map(|users| UsersReport {
                users: users.count,
                rows: users.scenario.rows(),
                new: users.scenario.is_user_new(),
            }),
            kept_users,
            recorder: self.recorder,
            snapshots: self.measurement.steps,
            timeline,
            windows,
            timestamps: if !self.settings.transport.timestamps {
                Reading::unavailable("kernel timestamps were not requested (--timestamps)")
            } else if stamped {
                Reading::Value(())
            } else {
                Reading::unavailable("the kernel gave no timestamps for received data")
            },
            intervals: self.measurement.intervals,
            timer_slack: self.wakeups.batching.slack(),
            limits: self.settings.limits,
        }
    }
}
