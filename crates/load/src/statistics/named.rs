//! Figures of the requests with one name in one step: a scenario's requests, or an endpoint's.

use sojourn_measure::{Histogram, Nanos};

use crate::{
    http::{cause::Cause, response_reader::Response},
    statistics::{recorder::Exchange, step::Errors},
};

#[derive(Clone, Debug, Default)]
pub struct NamedRecord {
    /// Requests with a good response.
    pub answered: u64,
    pub body_bytes: u64,
    pub errors: Errors,
    /// The first answer that failed, in words.
    pub first_failure: Option<String>,
    /// Followed redirects, which are not counted as responses of requests.
    pub redirects: u64,
    /// Requests unanswered when the run ended.
    pub unfinished: u64,
    /// Requests never sent because an earlier one failed.
    pub abandoned: u64,
    /// From the intended start to the last byte of good responses, including redirects.
    pub response_time: Histogram,
    /// From the intended start to the first byte of good responses, including redirects.
    pub time_to_first_byte_intended: Histogram,
}

impl NamedRecord {
    /// Counts a response, good or not.
    pub fn answer(&mut self, failure: Option<Cause>, exchange: &Exchange, response: &Response, at: Nanos) {
        let intended = exchange.pending.intended;
        let Some(cause) = failure else {
            self.answered += 1;
            self.body_bytes += response.body_bytes;
            self.response_time.record(at - intended);
            return self.time_to_first_byte_intended.record(exchange.first_byte.unwrap_or(at) - intended);
        };
        self.errors.count(cause, at - intended);
    }

    pub fn merge(&mut self, other: &NamedRecord) {
        self.answered += other.answered;
        self.body_bytes += other.body_bytes;
        self.errors.merge(&other.errors);
        self.first_failure = self.first_failure.take().or_else(|| other.first_failure.clone());
        self.redirects += other.redirects;
        self.unfinished += other.unfinished;
        self.abandoned += other.abandoned;
        self.response_time.merge(&other.response_time);
        self.time_to_first_byte_intended.merge(&other.time_to_first_byte_intended);
    }
}
