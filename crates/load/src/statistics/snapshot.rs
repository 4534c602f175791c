//! A snapshot of everything cumulative. A span is the difference between two snapshots.

use sojourn_measure::{Nanos, Reading, TreeSample, core_time::CoreTime, tcp::TcpCounters};

use crate::statistics::recorder::Totals;

/// Everything cumulative at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub time: Nanos,
    pub totals: Totals,
    /// CPU time of the generator's thread, without polling for nothing.
    pub generator_cpu: Nanos,
    /// How long the generator's thread was ready while other work held its core.
    pub generator_wait: Reading<Nanos>,
    /// The observed processes; `None` without any.
    pub processes: Option<TreeSample>,
    /// The observed core; `None` without one.
    pub server_core: Option<Reading<CoreTime>>,
    /// The generator's core, or all cores if it is not pinned.
    pub own_core: Reading<CoreTime>,
    /// TCP counters of the network namespace.
    pub tcp: Reading<TcpCounters>,
}

/// The snapshots of one step; later ones are missing while the step runs.
#[derive(Clone, Debug, Default)]
pub struct StepSnapshots {
    /// At the start of the measured part.
    pub from: Option<Snapshot>,
    pub middle: Option<Snapshot>,
    pub end: Option<Snapshot>,
    /// The clients that kept their target rate, if there is one.
    pub rates: Option<ConformingClients>,
}

/// Clients with a target rate at the end of a step.
#[derive(Clone, Copy, Debug)]
pub struct ConformingClients {
    pub clients: usize,
    pub conforming: usize,
}
