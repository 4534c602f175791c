//! Session statistics: duration, requests, think times, bursts.

use serde::Serialize;

use super::NS_PER_SECOND;
use super::overview::Overview;
use super::quantiles::{PASSES, QuantileSelection};
use super::source::{Source, for_each_got};
use crate::trace::Request;

const QUANTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionStatistics {
    pub count: u64,
    pub single_request_fraction: f64,
    /// The mean number of sessions in progress: the sum of durations over the span of the log.
    pub mean_in_progress: f64,
    pub requests: Summary,
    /// The time from a session's first request to its last.
    pub duration_seconds: Summary,
    /// Pauses between the bursts of a session, as far as the log's resolution shows them.
    pub think_time_seconds: Summary,
    /// Requests sent at the same moment; a single request counts as a burst.
    pub requests_per_burst: Summary,
}

/// Mean and percentiles of one quantity; all zero without values.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl SessionStatistics {
    /// Computes the statistics of a trace with at least one session.
    pub fn new<S: Source>(overview: &Overview, source: &mut S) -> Result<Self, S::Error> {
        let [mut lengths, mut durations, mut think_times, mut bursts] =
            [(); 4].map(|()| QuantileSelection::new(QUANTILES));
        for _ in 0..PASSES {
            for_each_got(source, |_, requests| {
                lengths.take(requests.len() as u64);
                durations.take(requests.last().map_or(0, |request| request.offset_ns));
                let same_moment = |a: &Request, b: &Request| a.offset_ns == b.offset_ns;
                requests.chunk_by(same_moment).for_each(|burst| bursts.take(burst.len() as u64));
                let gaps = requests.windows(2).map(|pair| pair[1].offset_ns - pair[0].offset_ns);
                gaps.filter(|&gap_ns| gap_ns > 0).for_each(|gap_ns| think_times.take(gap_ns));
            })?;
            for selection in [&mut lengths, &mut durations, &mut think_times, &mut bursts] {
                selection.end_pass();
            }
        }
        let span_seconds = overview.span_ns as f64 / NS_PER_SECOND;
        Ok(SessionStatistics {
            count: overview.sessions,
            single_request_fraction: overview.single_request_sessions as f64 / overview.sessions as f64,
            mean_in_progress: durations.sum() as f64 / NS_PER_SECOND / span_seconds.max(1.0),
            requests: Summary::new(&lengths, 1.0),
            duration_seconds: Summary::new(&durations, NS_PER_SECOND),
            think_time_seconds: Summary::new(&think_times, NS_PER_SECOND),
            requests_per_burst: Summary::new(&bursts, 1.0),
        })
    }
}

impl Summary {
    /// Summarises integers in units of 1 / `per_unit`.
    fn new(selection: &QuantileSelection<4>, per_unit: f64) -> Self {
        let Some([p50, p90, p95, p99]) = selection.values() else { return Summary::default() };
        let value = |value: u64| value as f64 / per_unit;
        Summary {
            count: selection.count(),
            mean: selection.sum() as f64 / per_unit / selection.count() as f64,
            p50: value(p50),
            p90: value(p90),
            p95: value(p95),
            p99: value(p99),
            max: value(selection.max()),
        }
    }
}
