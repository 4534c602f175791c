//! Start times of sessions: as logged, or drawn at random at a given rate.
//!
//! Both kinds are iterators in order of `connect_ns` without a clock; the runner compares the times with its own. Think
//! times are scaled where requests are timed, not here. The exception is the sessions that a [`Staircase`] finds in
//! progress: their first due request depends on the scale.

mod staircase;
mod templates;

use thiserror::Error;

pub use staircase::{IN_PROGRESS_MAX, Level, Staircase, StaircaseArrivals};
#[cfg(test)]
pub(crate) use templates::TraceTemplates;
pub use templates::{Templates, Totals};

use crate::trace::Trace;

/// One session to run: which one, when, and from which of its requests on.
///
/// Request `k` of the session is due at `start_ns + think_scale * offset_ns(k)` after the run's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Nanoseconds from the run's start until the connection opens.
    pub connect_ns: u64,
    /// The session's start; negative (or before `connect_ns`) if it is already in progress.
    pub start_ns: i64,
    /// Index of the session in `Trace::sessions`.
    pub session: u32,
    /// Index within the session of the first request to send; earlier ones are skipped.
    pub first_request: u32,
}

#[derive(Debug, Error, PartialEq)]
pub enum ArrivalsError {
    /// The trace has no sessions.
    #[error("the trace contains no sessions")]
    EmptyTrace,
    /// A scale factor that is zero, negative or not a number.
    #[error("the {name} must be a positive number, not {value}")]
    Scale { name: &'static str, value: f64 },
    /// A level that is lower or earlier than the one before it, or whose rate is not positive.
    #[error(
        "level {index} of the staircase ({requests_per_second} requests/s) must be later and no lower than the one before it, and before the end"
    )]
    Level {
        index: usize,
        /// The requested rate.
        requests_per_second: f64,
    },
    /// The rate needs more simultaneous connections than the limit.
    #[error(
        "at {requests_per_second} requests/s about {sessions:.0} sessions are in progress at once, more than {IN_PROGRESS_MAX}; shorten think times (think scale) or lower the rate"
    )]
    TooManyInProgress {
        /// The requested rate.
        requests_per_second: f64,
        /// The mean number of sessions in progress that this needs (Little's law).
        sessions: f64,
    },
}

/// The sessions as the log has them, their starts divided by `scale`: at scale 2 they arrive twice as fast, and think
/// times within a session stay the same (seed IBM RC22629, 3.4).
pub fn replay(trace: &Trace, scale: f64) -> Result<impl Iterator<Item = Arrival> + '_, ArrivalsError> {
    positive("scale factor", scale)?;
    if trace.sessions.is_empty() {
        return Err(ArrivalsError::EmptyTrace);
    }
    let sessions = (0..).zip(&trace.sessions);
    Ok(sessions.map(move |(index, session)| Arrival::as_logged(index, session.start_ns, scale)))
}

impl Arrival {
    /// A session at its logged time divided by `scale`, which is positive.
    pub fn as_logged(session: u32, start_ns: u64, scale: f64) -> Self {
        let start_ns = (start_ns as f64 / scale) as i64;
        Arrival { connect_ns: start_ns as u64, start_ns, session, first_request: 0 }
    }
}

/// Refuses a value that is not positive and finite.
pub fn positive(name: &'static str, value: f64) -> Result<(), ArrivalsError> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(ArrivalsError::Scale { name, value }) }
}
