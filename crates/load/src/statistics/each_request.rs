//! Every request of a run, one by one: when it was due and how long it took.

use serde::Serialize;
use sojourn_measure::Nanos;

use crate::statistics::step::PendingRequest;

/// The most requests kept. Of more, none is: a part of them would say nothing of the rest.
pub const REQUESTS_MAX: usize = 100_000;

/// Columns with a row for each request, in the order in which they ended.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct EachRequest {
    /// The place of its name among `by_name`'s; null for a request without a name.
    name: Vec<Option<u32>>,
    /// From the start of the run; it may lie before the measured time.
    due_seconds: Vec<f64>,
    /// Null for a failed or unanswered request.
    response_seconds: Vec<Option<f64>>,
    #[serde(skip)]
    origin: Nanos,
    #[serde(skip)]
    too_many: bool,
}

impl EachRequest {
    /// None yet, with times counted from `origin`.
    pub fn new(origin: Nanos) -> EachRequest {
        EachRequest { origin, ..EachRequest::default() }
    }

    /// Adds a request, answered at some time or not at all.
    pub fn add(&mut self, pending: &PendingRequest, answered: Option<Nanos>) {
        if self.name.len() == REQUESTS_MAX {
            *self = EachRequest { too_many: true, ..EachRequest::new(self.origin) };
        }
        if !self.too_many {
            self.name.push(pending.name);
            self.due_seconds.push((pending.intended - self.origin).seconds());
            self.response_seconds.push(answered.map(|at| (at - pending.intended).seconds()));
        }
    }

    /// True if there is nothing to say, or too much.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(ms: u64, name: Option<u32>) -> PendingRequest {
        PendingRequest { name, intended: Nanos(ms * 1_000_000), ..PendingRequest::default() }
    }

    #[test]
    fn requests_are_kept_with_their_times() {
        let mut requests = EachRequest::new(Nanos(1_000_000_000));
        requests.add(&due(1_500, Some(3)), Some(Nanos(1_750_000_000)));
        requests.add(&due(1_600, None), Some(Nanos(1_750_000_000)));
        requests.add(&due(1_700, Some(1)), None);
        assert_eq!(requests.name, [Some(3), None, Some(1)]);
        assert_eq!(requests.due_seconds, [0.5, 0.6, 0.7]);
        assert_eq!(requests.response_seconds, [Some(0.25), Some(0.15), None]);
    }

    #[test]
    fn of_too_many_none_is_kept() {
        let mut requests = EachRequest::new(Nanos::ZERO);
        for _ in 0..REQUESTS_MAX {
            requests.add(&due(1, Some(0)), None);
        }
        assert_eq!(requests.name.len(), REQUESTS_MAX);
        for _ in 0..3 {
            requests.add(&due(1, Some(0)), None);
        }
        assert!(requests.is_empty());
    }
}
