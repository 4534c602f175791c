//! The timeline of a run in columns, ten rows a second. Rates cover the row's own interval; what was not measured in a
//! row is null.

use std::time::SystemTime;

use serde::Serialize;
use sojourn_measure::{Nanos, core_time::CoreTime};

use crate::statistics::{snapshot::Snapshot, windows::RowLoss};

/// How often the timeline is sampled and ended servers are noticed.
pub const TICK: Nanos = Nanos(100_000_000);
/// The most rows kept: a day's.
const ROWS_MAX: usize = 864_000;

pub struct Row {
    pub snapshot: Snapshot,
    /// The step whose measured part it is in.
    pub step: Option<usize>,
    pub offered_requests_per_second: Option<f64>,
    /// CPU time of the observed processes so far.
    pub server_cpu: Option<Nanos>,
    /// The 95th percentile for requests answered in the interval.
    pub first_byte_p95_seconds: Option<f64>,
    /// The losses of the cores in the windows that ended in the interval.
    pub lost: RowLoss,
    /// The longest gap between two polls, if the generator polls.
    pub longest_gap: Option<Nanos>,
}

/// A run's rows as columns.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Timeline {
    interval_seconds: f64,
    columns: Columns,
    #[serde(skip)]
    origin: Nanos,
    /// The wall clock at the origin in seconds since 1970, read once so that clock steps do not show.
    #[serde(skip)]
    origin_unix_seconds: f64,
    #[serde(skip)]
    before: Option<Snapshot>,
    #[serde(skip)]
    server_before: Option<(Nanos, Nanos)>,
}

#[derive(Debug, Default, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
struct Columns {
    time_seconds: Vec<f64>,
    unix_seconds: Vec<f64>,
    step: Vec<Option<usize>>,
    offered_requests_per_second: Vec<Option<f64>>,
    requests_per_second: Vec<f64>,
    errors_per_second: Vec<f64>,
    bytes_per_second: Vec<f64>,
    in_flight: Vec<u64>,
    connections_open: Vec<u64>,
    time_to_first_byte_intended_p95_seconds: Vec<Option<f64>>,
    generator_cpu_fraction: Vec<f64>,
    server_cpu_fraction: Vec<Option<f64>>,
    core_busy_fraction: Vec<Option<f64>>,
    core_steal_fraction: Vec<Option<f64>>,
    server_core_lost_seconds: Vec<Option<f64>>,
    generator_core_lost_seconds: Vec<Option<f64>>,
    generator_longest_gap_seconds: Vec<Option<f64>>,
    undisturbed: Vec<Option<bool>>,
}

impl Timeline {
    /// An empty timeline that counts time from `origin`, which was `started_at` on the wall clock.
    pub fn new(origin: Nanos, started_at: SystemTime) -> Timeline {
        let unix = started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timeline {
            interval_seconds: TICK.seconds(),
            columns: Columns::default(),
            origin,
            origin_unix_seconds: unix.as_secs_f64(),
            before: None,
            server_before: None,
        }
    }

    /// Adds a row; the first one only marks the start of the next.
    pub fn push(&mut self, row: Row) {
        let server_cpu_fraction = self.server_cpu_fraction(&row);
        let Some(before) = self.before.replace(row.snapshot.clone()) else { return };
        if self.columns.time_seconds.len() == ROWS_MAX {
            return;
        }
        let (snapshot, columns) = (row.snapshot, &mut self.columns);
        let seconds = (snapshot.time - before.time).seconds();
        let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
        let time_seconds = (snapshot.time - self.origin).seconds();
        columns.time_seconds.push(time_seconds);
        columns.unix_seconds.push(self.origin_unix_seconds + time_seconds);
        columns.step.push(row.step);
        columns.offered_requests_per_second.push(row.offered_requests_per_second);
        columns.requests_per_second.push(rate(snapshot.totals.answered, before.totals.answered));
        columns.errors_per_second.push(rate(snapshot.totals.errors, before.totals.errors));
        columns.bytes_per_second.push(rate(snapshot.totals.received_bytes, before.totals.received_bytes));
        columns.in_flight.push(snapshot.totals.in_flight.count);
        columns.connections_open.push(snapshot.totals.connections_open.count);
        columns.time_to_first_byte_intended_p95_seconds.push(row.first_byte_p95_seconds);
        columns
            .generator_cpu_fraction
            .push((snapshot.generator_cpu - before.generator_cpu).seconds() / seconds);
        columns.server_cpu_fraction.push(server_cpu_fraction);
        let core = core_span(&before, &snapshot);
        columns.core_busy_fraction.push(core.and_then(|core| core.busy_fraction()));
        columns.core_steal_fraction.push(core.and_then(|core| core.steal_fraction()));
        columns.server_core_lost_seconds.push(row.lost.server.map(Nanos::seconds));
        columns.generator_core_lost_seconds.push(row.lost.generator.map(Nanos::seconds));
        columns.generator_longest_gap_seconds.push(row.longest_gap.map(Nanos::seconds));
        columns.undisturbed.push(None);
    }

    /// Sets which rows were undisturbed, once their step has ended.
    pub fn judge(&mut self, verdicts: &[Option<bool>]) {
        for (row, verdict) in self.columns.undisturbed.iter_mut().zip(verdicts) {
            *row = *verdict;
        }
    }

    /// Processes may be read less often than rows are added; their interval is longer then.
    fn server_cpu_fraction(&mut self, row: &Row) -> Option<f64> {
        let now = (row.snapshot.time, row.server_cpu?);
        let (time, cpu) = self.server_before.replace(now)?;
        Some((now.1 - cpu).seconds() / (now.0 - time).seconds())
    }
}

fn core_span(before: &Snapshot, now: &Snapshot) -> Option<CoreTime> {
    let core = |snapshot: &Snapshot| snapshot.server_core.as_ref()?.value().copied();
    Some(core(now)? - core(before)?)
}
