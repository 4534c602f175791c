//! The constant parts of a run: what its plan says, and what follows from that.

use std::{net::SocketAddr, time::SystemTime};

use sojourn_measure::{Nanos, clock};

use crate::{
    plan::{
        Arrivals, Connections, Limits, Plan, StopRule, Think, Transport, Waiting, schedule::Schedule,
        workload::Quota,
    },
    runtime::connector::{ConnectOptions, Connector},
};

/// The rate at which closed-loop clients connect at most, so that the server's accept queue does not overflow.
const CONNECTS_PER_SECOND_MAX: f64 = 20_000.0;

pub(crate) struct Settings {
    pub(crate) connections: Connections,
    /// The most clients at a time.
    pub(crate) under_way_max: usize,
    pub(crate) transport: Transport,
    pub(crate) quota: Quota,
    pub(crate) think: Think,
    pub(crate) origin: Nanos,
    pub(crate) started_at: SystemTime,
    pub(crate) closed_clients: Option<u32>,
    pub(crate) schedule: Schedule,
    pub(crate) stop: StopRule,
    pub(crate) limits: Limits,
    pub(crate) waiting: Waiting,
}

impl Settings {
    /// The settings of a run of `plan` that starts now.
    pub(crate) fn of(plan: &Plan<'_>) -> Settings {
        let (closed_clients, under_way_max) = match &plan.arrivals {
            Arrivals::Closed { clients } => (Some(*clients), usize::MAX),
            Arrivals::Open { under_way_max, .. } => (None, *under_way_max as usize),
            Arrivals::Logged(_) => (None, usize::MAX),
        };
        let quota = match plan.stop {
            StopRule::Requests(requests) => Quota { requests, ..Quota::UNLIMITED },
            StopRule::Visits(visits) => Quota { visits, ..Quota::UNLIMITED },
            StopRule::ScheduleEnd | StopRule::Answered | StopRule::Failing => Quota::UNLIMITED,
        };
        Settings {
            connections: plan.connections,
            under_way_max,
            transport: plan.transport.clone(),
            quota,
            think: plan.think,
            origin: clock::now(),
            started_at: SystemTime::now(),
            closed_clients,
            schedule: plan.schedule.clone(),
            stop: plan.stop,
            limits: plan.limits,
            waiting: plan.waiting,
        }
    }

    /// The step whose measured part contains a time.
    pub(crate) fn step_of(&self, time: Nanos) -> Option<usize> {
        if time < self.origin { None } else { self.schedule.measured_step_at(time - self.origin) }
    }

    /// The step that was being measured when the run ended.
    pub(crate) fn last_step(&self, end: Nanos) -> Option<usize> {
        self.step_of(end.min(self.origin + self.schedule.end()) - Nanos(1))
    }

    /// The time within which closed-loop clients arrive.
    pub(crate) fn ramp(&self) -> Nanos {
        let settle = self.schedule.steps().first().map_or(Nanos::ZERO, |step| step.settle);
        let clients = f64::from(self.closed_clients.unwrap_or(0));
        let at_least = Nanos::from_seconds(clients / CONNECTS_PER_SECOND_MAX);
        self.transport.ramp.unwrap_or(Nanos(settle.0 / 2)).max(at_least)
    }

    /// How long loop iterations may be delayed.
    pub(crate) fn timer_slack(&self) -> Nanos {
        match (self.waiting, self.closed_clients) {
            (Waiting::Sleep { timer_slack }, None) => timer_slack,
            // A closed loop waits for its responses: delaying them would lower the load.
            _ => Nanos::ZERO,
        }
    }

    /// Opens connections to `server` as the plan says.
    pub(crate) fn connector(&self, server: SocketAddr, is_secured: bool, descriptors: u64) -> Connector {
        let sends_often = self.connections != Connections::Close || is_secured;
        let options = ConnectOptions {
            sources: &self.transport.sources,
            read_bytes_per_second: self.transport.read_bytes_per_second,
            timestamps: self.transport.timestamps,
        };
        Connector::new(server, sends_often, descriptors, &options)
    }
}
