//! Running totals, and a snapshot of everything cumulative. A span is the difference between two snapshots.

use sojourn_measure::{Nanos, Reading, TreeSample, core_time::CoreTime, tcp::TcpCounters};

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

#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub answered: u64,
    pub errors: u64,
    /// Received bytes of heads and bodies.
    pub received_bytes: u64,
    /// Clients or sessions that began.
    pub sessions_started: u64,
    /// Sessions in which every request was answered.
    pub sessions_completed: u64,
    /// Sessions that ended because a request failed.
    pub sessions_failed: u64,
    pub connections_opened: u64,
    /// Connections opened because the server had closed an idle one.
    pub reconnects: u64,
    /// Loop iterations: each waits for sockets once.
    pub iterations: u64,
    /// Time spent polling for nothing.
    pub idle: Nanos,
    /// The total of polls so long that the thread cannot have had its core.
    pub gaps: Nanos,
    pub in_flight: Level,
    pub connections_open: Level,
}

/// A number that rises and falls, with its integral over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    pub count: u64,
    /// The times of all rises minus those of all falls. Order does not matter, so slightly late times do no harm.
    moments: i128,
}

impl Level {
    pub fn up(&mut self, at: Nanos) {
        self.count += 1;
        self.moments += i128::from(at.0);
    }

    pub fn down(&mut self, at: Nanos) {
        self.count -= 1;
        self.moments -= i128::from(at.0);
    }

    /// The integral in seconds up to `at`, since this level was `before` at `then`.
    pub fn integral_seconds(&self, at: Nanos, before: &Level, then: Nanos) -> f64 {
        // Subtract as integers: both are large after a long uptime, their difference is not.
        (self.integral(at) - before.integral(then)) as f64 / 1e9
    }

    fn integral(&self, at: Nanos) -> i128 {
        i128::from(self.count) * i128::from(at.0) - self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_integrates_in_any_order() {
        let mut level = Level::default();
        let second = |n: u64| Nanos(n * 1_000_000_000);
        level.up(second(1));
        level.up(second(3));
        level.down(second(2));
        assert_eq!(level.count, 1);
        let before = Level::default();
        assert!((level.integral_seconds(second(5), &before, Nanos::ZERO) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_short_span_after_a_long_time_loses_no_digits() {
        let (mut level, year) = (Level::default(), Nanos(31_557_600_000_000_000));
        level.up(Nanos::ZERO);
        let seconds = level.integral_seconds(year + Nanos(193_170), &level, year);
        assert_eq!(seconds.to_string(), "0.00019317");
    }
}
