//! Sums of intervals: everything cumulative over one or several steps, and of the generator's core.

use std::ops::Add;

use sojourn_measure::{Nanos, Reading, core_time::CoreTime};

use crate::statistics::measured_interval::MeasuredInterval;

/// Intervals of time added up.
#[derive(Default)]
pub struct IntervalTotals {
    pub seconds: f64,
    pub answered: u64,
    pub received_bytes: u64,
    pub iterations: u64,
    pub generator_cpu_seconds: f64,
    generator_wait: Option<Reading<Nanos>>,
    own_core: Option<Reading<CoreTime>>,
}

impl IntervalTotals {
    pub fn add(&mut self, span: &MeasuredInterval<'_>) {
        self.seconds += span.seconds();
        self.answered += span.answered();
        self.received_bytes += span.growth(|snapshot| snapshot.totals.received_bytes);
        self.iterations += span.growth(|snapshot| snapshot.totals.iterations);
        self.generator_cpu_seconds += span.generator_cpu_fraction().unwrap_or(0.0) * span.seconds();
        self.generator_wait = sum(self.generator_wait.take(), span.generator_wait());
        self.own_core = sum(self.own_core.take(), span.core(|snapshot| snapshot.own_core.clone()));
    }

    /// A count per second of the intervals.
    pub fn per_second(&self, count: u64) -> Option<f64> {
        (self.seconds > 0.0).then(|| count as f64 / self.seconds)
    }

    /// The generator's CPU time over wall time.
    pub fn generator_cpu_fraction(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.generator_cpu_seconds / self.seconds)
    }

    /// The share of the time in which the generator waited for its core.
    pub fn core_wait_fraction(&self) -> Reading<f64> {
        known(&self.generator_wait).map(|wait| wait.seconds() / self.seconds)
    }

    /// The share of its core that the hypervisor took.
    pub fn core_steal_fraction(&self) -> Reading<f64> {
        known(&self.own_core).map(|core| core.steal_fraction().unwrap_or(0.0))
    }
}

fn sum<T: Add<Output = T>>(before: Option<Reading<T>>, part: Reading<T>) -> Option<Reading<T>> {
    Some(match before {
        None => part,
        Some(before) => before.zip(part).map(|(before, part)| before + part),
    })
}

fn known<T: Clone>(sum: &Option<Reading<T>>) -> Reading<T> {
    sum.clone().unwrap_or_else(|| Reading::unavailable("nothing was measured"))
}
