//! A latency histogram: 1 ns to 1 h at three significant digits, constant memory, mergeable.
//!
//! Adding two of them equals having recorded everything in one, so steps, repetitions and machines merge without
//! averaging percentiles. Longer latencies count as an hour.

use serde::Serialize;

use crate::Nanos;

/// Longer latencies are recorded as this.
pub const LATENCY_MAX: Nanos = Nanos(3_600_000_000_000);
const SIGNIFICANT_DIGITS: u8 = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, LATENCY_MAX.0, SIGNIFICANT_DIGITS);
        Histogram(counts.expect("constant bounds are valid"))
    }
}

impl Histogram {
    /// An empty histogram with two significant digits above 1 µs: small enough to reset ten times a second.
    pub fn coarse() -> Histogram {
        let counts = hdrhistogram::Histogram::new_with_bounds(1_000, LATENCY_MAX.0, 2);
        Histogram(counts.expect("constant bounds are valid"))
    }

    pub fn record(&mut self, latency: Nanos) {
        self.0.saturating_record(latency.0);
    }

    /// Records a latency `count` times.
    pub fn record_many(&mut self, latency: Nanos, count: u64) {
        self.0.saturating_record_n(latency.0, count);
    }

    /// Recorded latencies in ascending order with their counts. Recording them again gives an equal histogram.
    pub fn recorded(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let recorded = self.0.iter_recorded();
        recorded.map(|found| (Nanos(found.value_iterated_to()), found.count_since_last_iteration()))
    }

    /// Adds everything recorded in `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("same bounds, so nothing can fall outside");
    }

    pub fn reset(&mut self) {
        self.0.reset();
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn count_above(&self, limit: Nanos) -> u64 {
        self.0.len() - self.0.count_between(0, limit.0.min(LATENCY_MAX.0))
    }

    /// The mean in seconds; `None` if nothing was recorded.
    pub fn mean_seconds(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean() / 1e9)
    }

    /// The quantile in seconds: a `fraction` of all latencies is at or below it. `None` if nothing was recorded.
    pub fn quantile_seconds(&self, fraction: f64) -> Option<f64> {
        // The bucket's upper edge may exceed the largest recorded value, and p999 > max would look wrong.
        (!self.0.is_empty()).then(|| Nanos(self.0.value_at_quantile(fraction).min(self.0.max())).seconds())
    }

    pub fn summary(&self) -> Summary {
        Summary {
            count: self.count(),
            mean: self.mean_seconds(),
            p50: self.quantile_seconds(0.5),
            p90: self.quantile_seconds(0.9),
            p95: self.quantile_seconds(0.95),
            p99: self.quantile_seconds(0.99),
            p999: self.quantile_seconds(0.999),
            max: self.quantile_seconds(1.0),
        }
    }

    /// Converts another library's counts of nanoseconds to this precision.
    pub(crate) fn from_counts(counts: &hdrhistogram::Histogram<u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for found in counts.iter_recorded() {
            histogram.record_many(Nanos(found.value_iterated_to()), found.count_since_last_iteration());
        }
        histogram
    }

    pub(crate) fn counts(&self) -> &hdrhistogram::Histogram<u64> {
        &self.0
    }
}

/// A histogram's figures in seconds; all except the count are null if nothing was recorded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Summary {
    pub count: u64,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub max: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_equals_recording_once() {
        let mut parts = [Histogram::default(), Histogram::default(), Histogram::default()];
        let mut whole = Histogram::default();
        for i in 0..30_000_u64 {
            let latency = Nanos(i.wrapping_mul(2_654_435_761) % 5_000_000_000);
            parts[(i % 3) as usize].record(latency);
            whole.record(latency);
        }
        let mut merged = Histogram::default();
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!(merged, whole);
    }

    #[test]
    fn three_digits_from_a_nanosecond_to_an_hour() {
        for exact in [1, 999, 123_456, 987_654_321, LATENCY_MAX.0] {
            let mut histogram = Histogram::default();
            histogram.record(Nanos(exact));
            let seconds = histogram.quantile_seconds(0.5).unwrap();
            assert!((seconds * 1e9 / exact as f64 - 1.0).abs() < 1e-3, "{exact}: {seconds}");
        }
        let mut histogram = Histogram::default();
        histogram.record(Nanos(2 * LATENCY_MAX.0));
        assert!((histogram.summary().max.unwrap() - 3600.0).abs() < 4.0);
    }

    #[test]
    fn nothing_recorded_is_not_zero() {
        let summary = Histogram::default().summary();
        assert_eq!(summary.count, 0);
        assert!(summary.mean.is_none() && summary.p50.is_none() && summary.max.is_none());
    }

    #[test]
    fn counts_above_a_limit() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|ms| histogram.record(Nanos(ms * 1_000_000)));
        assert_eq!(histogram.count_above(Nanos(95_100_000)), 5);
    }
}
