//! Records per step: latencies, errors, and running totals.
//!
//! Latencies belong to the step in which a request was *due*, throughput to the step in which its response arrived. If
//! responses were counted by due time too, an overloaded server that catches up later would seem to follow any load.

use std::iter;

use sojourn_measure::{Histogram, Nanos};

use crate::{
    http::{cause::Cause, response_reader::Response, server_timing},
    statistics::{
        each_request::EachRequest,
        snapshot::Totals,
        step::{Exchange, PendingRequest, StepRecord},
        windows::WindowLatencies,
    },
};

#[derive(Debug)]
pub struct Recorder {
    /// One record per step of the schedule.
    pub steps: Vec<StepRecord>,
    /// Since the run's start, within and between steps.
    pub totals: Totals,
    /// Times to first byte since the last tick, if progress or a timeline needs them.
    pub recent: Option<Histogram>,
    /// Latencies since the last window ended, if windows are kept.
    pub window: Option<WindowLatencies>,
    /// Each request, if the plan asks for them.
    pub requests: Option<EachRequest>,
    /// The longest gap between polls since it was last read.
    pub longest_gap: Nanos,
}

impl Recorder {
    /// `watched`: recent times to first byte are needed. `windowed`: windows are kept.
    pub fn new(steps: usize, watched: bool, windowed: bool, requests: Option<EachRequest>) -> Recorder {
        Recorder {
            steps: iter::repeat_with(StepRecord::default).take(steps).collect(),
            totals: Totals::default(),
            recent: watched.then(Histogram::coarse),
            window: windowed.then(WindowLatencies::default),
            requests,
            longest_gap: Nanos::ZERO,
        }
    }

    /// Records a poll that took this long although it should not wait.
    pub fn gap(&mut self, length: Nanos) {
        self.totals.gaps = self.totals.gaps + length;
        self.longest_gap = self.longest_gap.max(length);
    }

    /// Records a request that is now in flight.
    pub fn begin(&mut self, step: Option<usize>, at: Nanos) {
        self.totals.in_flight.up(at);
        if let Some(step) = step {
            self.steps[step].begun += 1;
        }
    }

    pub fn connected(&mut self, step: Option<usize>, opened: Nanos, at: Nanos) {
        if let Some(step) = step {
            self.steps[step].connect_time.record(at - opened);
        }
    }

    pub fn secured(&mut self, step: Option<usize>, took: Nanos, resumed: bool) {
        if let Some(step) = step.and_then(|step| self.steps.get_mut(step)) {
            step.handshake_time.record(took);
            step.handshakes_resumed += u64::from(resumed);
        }
    }

    /// Records a complete response: good, or wrong for a cause.
    pub fn answer(&mut self, exchange: &Exchange, response: &Response, failure: Option<Cause>, at: Nanos) {
        self.totals.in_flight.down(at);
        match failure {
            Some(_) => self.totals.errors += 1,
            None => self.totals.answered += 1,
        }
        if let Some(requests) = &mut self.requests {
            requests.add(&exchange.pending, failure.is_none().then_some(at));
        }
        if let (None, Some(recent)) = (failure, &mut self.recent) {
            recent.record(exchange.first_byte.unwrap_or(at) - exchange.pending.intended);
        }
        if let (None, Some(window)) = (failure, &mut self.window) {
            let intended = exchange.pending.intended;
            window.response_time.record(at - intended);
            window.time_to_first_byte_intended.record(exchange.first_byte.unwrap_or(at) - intended);
        }
        if let Some(step) = exchange.pending.step {
            let record = &mut self.steps[step];
            match failure {
                Some(cause) => record.record_wrong(cause, exchange, response, at),
                None => record.success(exchange, response, at),
            }
            if let Some(named) = record.named(exchange.pending.name) {
                named.answer(failure, exchange, response, at);
            }
        }
    }

    /// Keeps the words for a name's first failure; they are only made for that.
    pub fn record_failure(&mut self, pending: &PendingRequest, words: impl FnOnce() -> String) {
        let record = pending.step.map(|step| &mut self.steps[step]);
        if let Some(named) = record.and_then(|record| record.named(pending.name)) {
            named.first_failure.get_or_insert_with(words);
        }
    }

    /// Records what an answer's `Server-Timing` fields say.
    pub fn add_server_timing<'a>(
        &mut self,
        pending: &PendingRequest,
        fields: impl Iterator<Item = &'a [u8]>,
    ) {
        let record = pending.step.map(|step| &mut self.steps[step]);
        if let Some(named) = record.and_then(|record| record.named(pending.name)) {
            named.add_server_timing(fields.flat_map(server_timing::metrics));
        }
    }

    /// Records a request that follows a redirect.
    pub fn redirected(&mut self, pending: &PendingRequest) {
        if let Some(record) = pending.step.map(|step| &mut self.steps[step]) {
            record.redirects += 1;
            if let Some(named) = record.named(pending.name) {
                named.redirects += 1;
            }
        }
    }

    /// Records a request left without a response. If it was due before a step was measured, it has waited for all of the last one,
    /// and counts there: a client that is never served is no sign of a fast server.
    pub fn leave_unfinished(&mut self, pending: &PendingRequest, last_step: Option<usize>) {
        self.add_unanswered(pending);
        if let Some(record) = pending.step.or(last_step).map(|step| &mut self.steps[step]) {
            record.unfinished += 1;
            if let Some(named) = record.named(pending.name) {
                named.unfinished += 1;
            }
        }
    }

    /// Records a request in flight that failed without a complete response.
    pub fn fail(&mut self, pending: &PendingRequest, cause: Cause, at: Nanos) {
        self.totals.in_flight.down(at);
        self.totals.errors += 1;
        self.add_unanswered(pending);
        if let Some(step) = pending.step {
            let record = &mut self.steps[step];
            record.errors.count(cause, at - pending.intended);
            if let Some(named) = record.named(pending.name) {
                named.errors.count(cause, at - pending.intended);
            }
        }
    }

    fn add_unanswered(&mut self, pending: &PendingRequest) {
        if let Some(requests) = &mut self.requests {
            requests.add(pending, None);
        }
    }
}
