//! Observes the server and the generator on the clients' own thread: a separate thread would disturb either core at
//! arbitrary moments.

use std::time::SystemTime;

use sojourn_measure::{
    Nanos, ProcessTree, Reading, clock,
    core_time::CoreTime,
    process::{Detail, thread_core_wait},
    tcp::TcpCounters,
};

use crate::{
    plan::{Observe, schedule::Step},
    statistics::{
        recorder::Totals,
        snapshot::Snapshot,
        timeline::{Row, Timeline},
    },
};

/// How often the timeline is sampled and dead servers are noticed.
pub const TICK: Nanos = Nanos(100_000_000);
/// The share of the generator's time that looking at processes may take; beyond it, ticks are left out.
const COST_FRACTION_MAX: f64 = 0.01;

pub struct Observer {
    processes: Option<ProcessTree>,
    core: Option<usize>,
    own_core: Option<usize>,
    timeline: Option<Timeline>,
    /// Before this time, processes are not looked at for the timeline.
    processes_after: Nanos,
}

impl Observer {
    /// Watches what it is told to.
    pub fn new(observe: &Observe, origin: Nanos, started_at: SystemTime) -> Observer {
        Observer {
            processes: (!observe.pids.is_empty()).then(|| ProcessTree::new(&observe.pids)),
            core: observe.core,
            own_core: observe.own_core,
            timeline: observe.timeline.then(|| Timeline::new(origin, started_at)),
            processes_after: Nanos::ZERO,
        }
    }

    pub fn mark(&mut self, totals: &Totals) -> Snapshot {
        Snapshot {
            processes: self.processes.as_mut().map(|tree| tree.sample(Detail::All)),
            tcp: TcpCounters::read().into(),
            ..self.light_mark(totals)
        }
    }

    /// Reads what costs next to nothing.
    pub fn light_mark(&self, totals: &Totals) -> Snapshot {
        Snapshot {
            time: clock::now(),
            totals: *totals,
            generator_cpu: clock::thread_cpu() - totals.idle,
            generator_wait: thread_core_wait().into(),
            processes: None,
            server_core: self.core.map(|core| CoreTime::read(Some(core)).into()),
            own_core: CoreTime::read(self.own_core).into(),
            tcp: Reading::unavailable("not read in the middle of a step"),
        }
    }

    /// Adds a row to the timeline, if there is one.
    pub fn tick(
        &mut self,
        totals: &Totals,
        step: Option<(usize, &Step)>,
        first_byte_p95_seconds: Option<f64>,
    ) {
        if self.timeline.is_none() {
            return;
        }
        let before = clock::now();
        let server_cpu = match &mut self.processes {
            Some(tree) if before >= self.processes_after => Some(tree.sample(Detail::Times).cpu()),
            _ => None,
        };
        let row = Row {
            mark: self.light_mark(totals),
            step: step.map(|(index, _)| index),
            offered_requests_per_second: step.and_then(|(_, step)| step.offered_requests_per_second),
            server_cpu,
            first_byte_p95_seconds,
        };
        let cost = clock::now() - before;
        self.processes_after = before + Nanos((cost.0 as f64 / COST_FRACTION_MAX) as u64);
        if let Some(timeline) = &mut self.timeline {
            timeline.push(row);
        }
    }

    /// The first observed process that no longer runs, if any.
    pub fn ended_process(&self) -> Option<u32> {
        self.processes.as_ref().and_then(ProcessTree::ended_root)
    }

    pub fn into_timeline(self) -> Option<Timeline> {
        self.timeline
    }
}
