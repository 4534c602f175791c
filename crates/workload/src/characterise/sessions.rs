//! Sessions in figures: how long, how many requests, what pauses, what bursts.

use serde::Serialize;

use super::NS_PER_SECOND;
use crate::trace::{Request, Trace};

/// What sessions are like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionStatistics {
    /// How many there are.
    pub count: u64,
    /// The fraction of them that are a single request.
    pub single_request_fraction: f64,
    /// How many are in progress on average: their durations over the span of the log.
    pub mean_in_progress: f64,
    /// Requests of a session.
    pub requests: Summary,
    /// From a session's first request to its last.
    pub duration_seconds: Summary,
    /// Pauses between the bursts of a session; what a log of whole seconds knows of them.
    pub think_time_seconds: Summary,
    /// Requests at one moment, single ones included.
    pub requests_per_burst: Summary,
}

/// Mean and percentiles of one quantity; all zero where there is nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "p95 is the 95th percentile")]
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
    /// Of a trace.
    pub fn new(trace: &Trace) -> Self {
        let seconds = |ns: u64| ns as f64 / NS_PER_SECOND;
        let mut durations = Vec::with_capacity(trace.sessions.len());
        let (mut think_times, mut bursts) = (Vec::new(), Vec::new());
        for session in &trace.sessions {
            let requests = trace.requests_of(session);
            durations.push(seconds(trace.duration_ns(session)));
            let same_moment = |a: &Request, b: &Request| a.offset_ns == b.offset_ns;
            bursts.extend(requests.chunk_by(same_moment).map(|burst| burst.len() as f64));
            let gaps = requests.windows(2).map(|pair| pair[1].offset_ns - pair[0].offset_ns);
            think_times.extend(gaps.filter(|&gap_ns| gap_ns > 0).map(seconds));
        }
        let lengths: Vec<_> = trace.sessions.iter().map(|session| f64::from(session.count)).collect();
        let single = trace.sessions.iter().filter(|session| session.count == 1).count();
        SessionStatistics {
            count: trace.sessions.len() as u64,
            single_request_fraction: single as f64 / trace.sessions.len() as f64,
            mean_in_progress: durations.iter().sum::<f64>() / seconds(trace.span_ns()).max(1.0),
            requests: Summary::new(lengths),
            duration_seconds: Summary::new(durations),
            think_time_seconds: Summary::new(think_times),
            requests_per_burst: Summary::new(bursts),
        }
    }
}

impl Summary {
    fn new(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            return Summary::default();
        }
        values.sort_unstable_by(f64::total_cmp);
        let q = |fraction: f64| {
            let rank = (fraction * values.len() as f64).ceil() as usize;
            values[rank.clamp(1, values.len()) - 1]
        };
        Summary {
            count: values.len() as u64,
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: q(0.5),
            p90: q(0.9),
            p95: q(0.95),
            p99: q(0.99),
            max: q(1.0),
        }
    }
}
