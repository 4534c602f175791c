//! Logged request durations: over all requests, and for the paths with the largest totals.
//!
//! A log may record two times: the duration of the whole request, and the response time of an upstream server. They
//! cover all selected requests, also those that the trace leaves out, because dynamic requests are the slow ones.

use serde::{Serialize, Serializer};

/// The number of paths kept, by total time.
pub const PATHS_MAX: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestTimes {
    #[serde(flatten)]
    pub all: Times,
    /// The paths by total time, largest first. Paths exclude their queries.
    pub paths: Vec<PathTimes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathTimes {
    pub path: String,
    /// Host of the path; empty where the log does not record it.
    pub host: String,
    #[serde(flatten)]
    pub times: Times,
}

/// Both durations of the same requests; `None` where the log does not record them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    pub request_time_seconds: Option<Distribution>,
    pub upstream_time_seconds: Option<Distribution>,
}

/// A summary of durations: exact to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Distribution {
    pub count: u64,
    #[serde(rename = "mean", serialize_with = "seconds")]
    pub mean_ns: u64,
    #[serde(rename = "p50", serialize_with = "seconds")]
    pub p50_ns: u64,
    #[serde(rename = "p90", serialize_with = "seconds")]
    pub p90_ns: u64,
    #[serde(rename = "p95", serialize_with = "seconds")]
    pub p95_ns: u64,
    #[serde(rename = "p99", serialize_with = "seconds")]
    pub p99_ns: u64,
    #[serde(rename = "p999", serialize_with = "seconds")]
    pub p999_ns: u64,
    #[serde(rename = "max", serialize_with = "seconds")]
    pub max_ns: u64,
}

fn seconds<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*ns as f64 / 1e9)
}

/// The percentiles of a distribution, in thousandths.
const THOUSANDTHS: [u64; 6] = [500, 900, 950, 990, 999, 1000];

impl Distribution {
    /// Summarises durations that arrive in ascending order, given their count and sum; stores none of them.
    pub fn of_sorted<E>(
        count: u64,
        sum_ns: u128,
        sorted: impl Iterator<Item = Result<u64, E>>,
    ) -> Result<Self, E> {
        // Nearest rank: the smallest duration that at least this share of all does not exceed.
        let ranks = THOUSANDTHS.map(|share| (count * share).div_ceil(1000).max(1));
        let mut found = [0; THOUSANDTHS.len()];
        for (rank, ns) in (1..).zip(sorted) {
            let ns = ns?;
            ranks.iter().zip(&mut found).filter(|(wanted, _)| **wanted == rank).for_each(|(_, at)| *at = ns);
        }
        let [p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns] = found;
        let mean_ns = (sum_ns / u128::from(count.max(1))) as u64;
        Ok(Distribution { count, mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns })
    }

    pub fn numbers(&self) -> [u64; Self::NUMBERS] {
        let Distribution { count, mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns } = *self;
        [count, mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns]
    }

    pub const NUMBERS: usize = 8;

    /// Decodes a distribution of a trace file; `None` where the numbers contradict each other.
    pub fn of_numbers(numbers: [u64; Self::NUMBERS], longest_ns: u64) -> Option<Self> {
        let [count, mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns] = numbers;
        let are_sorted = numbers[2..].is_sorted() && mean_ns <= max_ns && max_ns <= longest_ns;
        let found = Distribution { count, mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns };
        (are_sorted && count > 0).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_logged() {
        let of = |times: &[u64]| {
            let sum_ns = times.iter().map(|&ns| u128::from(ns)).sum();
            let sorted = times.iter().map(|&ns| Ok::<_, ()>(ns));
            Distribution::of_sorted(times.len() as u64, sum_ns, sorted).unwrap()
        };
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(of(&hundred).numbers(), [100, 50, 50, 90, 95, 99, 100, 100]);
        assert_eq!(of(&[7]).numbers(), [1, 7, 7, 7, 7, 7, 7, 7]);
        assert_eq!(of(&[0, 9]).numbers(), [2, 4, 0, 9, 9, 9, 9, 9]);
    }
}
