//! The population from which sessions are drawn at random: a trace in memory or in a file.

use std::convert::Infallible;

use crate::trace::{Request, Session, Trace};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    pub sessions: u32,
    pub requests: u64,
    /// The sum of all durations, in their order.
    pub duration_ns: f64,
    /// The sum of the durations times the think scale.
    pub scaled_duration_ns: f64,
}

impl Totals {
    /// Requests per session; zero without sessions.
    pub fn mean_requests_per_session(&self) -> f64 {
        self.requests as f64 / f64::from(self.sessions).max(1.0)
    }

    /// The mean over all sessions, those of a single request (of no duration) included.
    pub fn mean_session_duration_ns(&self) -> f64 {
        self.duration_ns / f64::from(self.sessions).max(1.0)
    }
}

pub trait Templates {
    type Error;
    fn totals(&self) -> Totals;
    /// Finds the first session at which the running sum of scaled durations passes `mark_ns`, else the last session;
    /// returns it with its requests.
    fn at_duration(&mut self, mark_ns: f64) -> Result<(u32, &[Request]), Self::Error>;
}

/// A trace in memory, with the running sum of durations per session.
pub struct TraceTemplates<'a> {
    trace: &'a Trace,
    /// Running sums of the sessions' scaled durations.
    durations: Vec<f64>,
}

impl<'a> TraceTemplates<'a> {
    pub fn new(trace: &'a Trace, think_scale: f64) -> Self {
        let add = |sum: &mut f64, session: &Session| {
            *sum += trace.duration_ns(session) as f64 * think_scale;
            Some(*sum)
        };
        TraceTemplates { trace, durations: trace.sessions.iter().scan(0.0, add).collect() }
    }
}

impl Templates for TraceTemplates<'_> {
    type Error = Infallible;

    fn totals(&self) -> Totals {
        Totals {
            sessions: self.trace.sessions.len() as u32,
            requests: self.trace.requests.len() as u64,
            duration_ns: self.trace.session_durations_ns(),
            scaled_duration_ns: self.durations.last().copied().unwrap_or(0.0),
        }
    }

    fn at_duration(&mut self, mark_ns: f64) -> Result<(u32, &[Request]), Infallible> {
        let session = self.durations.partition_point(|&sum| sum <= mark_ns).min(self.durations.len() - 1);
        Ok((session as u32, self.trace.requests_of(&self.trace.sessions[session])))
    }
}
