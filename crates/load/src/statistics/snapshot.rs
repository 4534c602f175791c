//! A snapshot: everything cumulative, read at one moment. A span is the difference of two snapshots.

use sojourn_measure::{Nanos, Reading, TreeSample, core_time::CoreTime, tcp::TcpCounters};

use crate::statistics::recorder::Totals;

/// Everything cumulative at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub time: Nanos,
    pub totals: Totals,
    /// CPU time of the generator's thread, without what it spent polling for nothing.
    pub generator_cpu: Nanos,
    /// How long the generator's thread was ready while others held its core.
    pub generator_wait: Reading<Nanos>,
    /// The observed processes; `None` when none are observed.
    pub processes: Option<TreeSample>,
    /// The observed core; `None` when none is observed.
    pub server_core: Option<Reading<CoreTime>>,
    /// The generator's core, or all cores when it is not pinned.
    pub own_core: Reading<CoreTime>,
    /// TCP counters of the network namespace.
    pub tcp: Reading<TcpCounters>,
}

/// The snapshots of one step. The later ones are missing while the step runs.
#[derive(Clone, Debug, Default)]
pub struct StepSnapshots {
    /// Where the measured part begins.
    pub from: Option<Snapshot>,
    pub middle: Option<Snapshot>,
    pub end: Option<Snapshot>,
    /// The clients that kept their target rate, if they have one.
    pub rates: Option<ConformingClients>,
}

/// Clients that are to be served at a rate, at a step's end.
#[derive(Clone, Copy, Debug)]
pub struct ConformingClients {
    pub clients: usize,
    pub conforming: usize,
}
