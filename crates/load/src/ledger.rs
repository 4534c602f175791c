//! What happened, by step: latencies, errors, and running totals.
//!
//! Latencies belong to the step in which a request was *due*; throughput to the step in which its answer
//! came. Were answers counted by due time too, an overloaded server that catches up later would seem to
//! follow every load.

use std::iter;

use sojourn_measure::{Histogram, Nanos};

use crate::{Cause, catalogue::Catalogue, connection::Exchange, reception::Response};

/// Everything that is counted.
#[derive(Debug)]
pub struct Ledger {
    /// One record per step of the schedule.
    pub steps: Vec<StepRecord>,
    /// Since the run's start, in and between steps.
    pub totals: Totals,
    /// Times to first byte since it was last looked at, if anyone looks.
    pub recent: Option<Histogram>,
}

/// What one step's requests met.
#[derive(Clone, Debug, Default)]
pub struct StepRecord {
    /// Requests due in the step that were begun.
    pub begun: u64,
    /// Requests answered as they should be.
    pub answered: u64,
    /// Their bodies together.
    pub body_bytes: u64,
    /// Failed requests by cause.
    pub errors: [u64; Cause::ALL.len()],
    /// Requests still unanswered, or held up behind one, when the run ended.
    pub unfinished: u64,
    /// Requests never sent because one before them in their session failed.
    pub abandoned: u64,
    /// From the first packet to an established connection.
    pub connect_time: Histogram,
    /// From the actual send to the first byte.
    pub time_to_first_byte: Histogram,
    /// From the intended start to the first byte.
    pub time_to_first_byte_intended: Histogram,
    /// From the intended start to the last byte.
    pub response_time: Histogram,
    /// From the intended start until the generator acted.
    pub send_lag: Histogram,
}

impl StepRecord {
    /// All failed requests.
    pub fn errors_total(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Adds another step's record.
    pub fn merge(&mut self, other: &StepRecord) {
        self.begun += other.begun;
        self.answered += other.answered;
        self.body_bytes += other.body_bytes;
        self.unfinished += other.unfinished;
        self.abandoned += other.abandoned;
        iter::zip(&mut self.errors, other.errors).for_each(|(sum, count)| *sum += count);
        self.connect_time.merge(&other.connect_time);
        self.time_to_first_byte.merge(&other.time_to_first_byte);
        self.time_to_first_byte_intended.merge(&other.time_to_first_byte_intended);
        self.response_time.merge(&other.response_time);
        self.send_lag.merge(&other.send_lag);
    }
}

/// Running totals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Good answers.
    pub answered: u64,
    /// Failed requests.
    pub errors: u64,
    /// Bytes received, heads and bodies.
    pub received_bytes: u64,
    /// Clients or sessions let in.
    pub sessions_started: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Connections opened because the server had closed one between requests.
    pub reconnects: u64,
    /// Time spent polling for nothing.
    pub idle: Nanos,
    /// Requests under way.
    pub in_flight: Level,
    /// Connections open.
    pub connections_open: Level,
}

/// A number that goes up and down, with its integral over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    /// What it is now.
    pub count: u64,
    /// The times of all ups less those of all downs: order does not matter, so slightly late times do no harm.
    moments: i128,
}

impl Level {
    /// One more.
    pub fn up(&mut self, at: Nanos) {
        self.count += 1;
        self.moments += i128::from(at.0);
    }

    /// One less.
    pub fn down(&mut self, at: Nanos) {
        self.count -= 1;
        self.moments -= i128::from(at.0);
    }

    /// The integral from the beginning to `at`, in seconds.
    pub fn integral_seconds(&self, at: Nanos) -> f64 {
        (i128::from(self.count) * i128::from(at.0) - self.moments) as f64 * 1e-9
    }
}

impl Ledger {
    /// An empty one.
    pub fn new(steps: usize, watched: bool) -> Ledger {
        let steps = iter::repeat_with(StepRecord::default).take(steps).collect();
        Ledger { steps, totals: Totals::default(), recent: watched.then(Histogram::coarse) }
    }

    /// A request is under way.
    pub fn begin(&mut self, step: Option<usize>, at: Nanos) {
        self.totals.in_flight.up(at);
        if let Some(step) = step {
            self.steps[step].begun += 1;
        }
    }

    /// A connection was established.
    pub fn connected(&mut self, step: Option<usize>, opened: Nanos, at: Nanos) {
        if let Some(step) = step {
            self.steps[step].connect_time.record(at - opened);
        }
    }

    /// A response is complete: good, or wrong for the cause that is answered.
    pub fn answer(
        &mut self,
        exchange: &Exchange,
        response: &Response,
        at: Nanos,
        catalogue: &mut Catalogue,
    ) -> Option<Cause> {
        let failure = judge(exchange, response, catalogue);
        match failure {
            Some(cause) => self.fail(exchange.errand.step, cause, at),
            None => self.success(exchange, response, at),
        }
        failure
    }

    /// A request under way failed.
    pub fn fail(&mut self, step: Option<usize>, cause: Cause, at: Nanos) {
        self.totals.in_flight.down(at);
        self.totals.errors += 1;
        if let Some(step) = step {
            self.steps[step].errors[cause as usize] += 1;
        }
    }

    fn success(&mut self, exchange: &Exchange, response: &Response, at: Nanos) {
        self.totals.in_flight.down(at);
        self.totals.answered += 1;
        let errand = &exchange.errand;
        let first_byte = exchange.first_byte.unwrap_or(at);
        if let Some(recent) = &mut self.recent {
            recent.record(first_byte - errand.intended);
        }
        let Some(step) = errand.step else { return };
        let record = &mut self.steps[step];
        record.answered += 1;
        record.body_bytes += response.body_bytes;
        record.time_to_first_byte.record(first_byte - exchange.sent);
        record.time_to_first_byte_intended.record(first_byte - errand.intended);
        record.response_time.record(at - errand.intended);
        record.send_lag.record(errand.acted - errand.intended);
    }
}

fn judge(exchange: &Exchange, response: &Response, catalogue: &mut Catalogue) -> Option<Cause> {
    match response.status {
        200..300 if catalogue.agrees(exchange.errand.document, response.body_bytes) => None,
        200..300 => Some(Cause::WrongSize),
        300..400 => Some(Cause::Status3xx),
        400..500 => Some(Cause::Status4xx),
        500..600 => Some(Cause::Status5xx),
        _ => Some(Cause::BadResponse),
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
        assert!((level.integral_seconds(second(5)) - 3.0).abs() < 1e-9);
    }
}
