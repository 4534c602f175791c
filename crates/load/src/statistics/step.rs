//! The records of one step: counts, and a histogram per kind of latency.
//!
//! Response times are kept by status, body size, and whether the response was good. All other response times are sums
//! of these cells, so distinguishing them costs no second recording per request.

use std::{collections::BTreeMap, iter, mem};

use sojourn_measure::{Histogram, Nanos};

use crate::http::{cause::Cause, response_reader::Response};

/// The lower bounds of body size classes; the first starts at zero and the last has no upper bound. They are
/// SPECweb99's classes, so that none of those is split.
pub const SIZE_CLASS_BYTES: [u64; 4] = [1 << 10, 10 << 10, 100 << 10, 1 << 20];

/// More metrics of a name, which the server chooses, are left out.
const SERVER_TIMING_METRICS_MAX: usize = 16;

/// A request that a client is about to make.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingRequest {
    pub document: u32,
    /// The name under which it is reported, if requests have names.
    pub name: Option<u32>,
    pub step: Option<usize>,
    /// When it should be sent: when it is due, or when the response before it was complete if that is later.
    pub intended: Nanos,
    /// When the generator sent it, or started to connect for it; zero before.
    pub acted: Nanos,
    /// True if it is sent over a second connection because the server had closed the first.
    pub retried: bool,
}

/// One request on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange {
    pub pending: PendingRequest,
    pub sent: Nanos,
    pub first_byte: Option<Nanos>,
}

#[derive(Clone, Debug, Default)]
pub struct StepRecord {
    /// Requests due in the step that were started.
    pub begun: u64,
    /// Arrivals due in the step that were skipped because of the limit on visits in progress.
    pub skipped: u64,
    /// Requests with a good response.
    pub answered: u64,
    pub body_bytes: u64,
    pub errors: Errors,
    /// Requests that were unanswered, or queued behind an unanswered one, when the run ended.
    pub unfinished: u64,
    /// Requests never sent because an earlier one in their session failed.
    pub abandoned: u64,
    /// Followed redirects, which are not counted as responses.
    pub redirects: u64,
    pub by_name: Vec<NamedRecord>,
    /// From the first packet to an established connection.
    pub connect_time: Histogram,
    /// From an established connection to the end of the TLS handshake.
    pub handshake_time: Histogram,
    /// Handshakes that resumed the session of an earlier connection.
    pub handshakes_resumed: u64,
    /// From sending to the first byte.
    pub time_to_first_byte: Histogram,
    pub time_to_first_byte_intended: Histogram,
    /// From the first byte to the last.
    pub transfer_time: Histogram,
    /// From when the generator acted to the last byte.
    pub response_time_sent: Histogram,
    /// From the intended start until the generator acted.
    pub send_lag: Histogram,
    /// From when the kernel received the first bytes of a response until the generator read them.
    pub receive_lag: Histogram,
    /// From the intended start to the last byte of every complete response.
    cells: Vec<Cell>,
}

/// Complete responses with the same status, size class and quality.
#[derive(Clone, Debug, PartialEq)]
struct Cell {
    key: CellKey,
    response_time: Histogram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CellKey {
    status: u16,
    size_class: u8,
    good: bool,
}

impl StepRecord {
    /// The record of a name. Most runs have no names and pay nothing for them.
    #[inline]
    pub fn named(&mut self, name: Option<u32>) -> Option<&mut NamedRecord> {
        Some(self.record_of(name? as usize))
    }

    #[cold]
    fn record_of(&mut self, place: usize) -> &mut NamedRecord {
        if self.by_name.len() <= place {
            self.by_name.resize_with(place + 1, NamedRecord::default);
        }
        &mut self.by_name[place]
    }

    /// Counts a request that is not sent because an earlier one failed.
    pub fn abandon(&mut self, name: Option<u32>) {
        self.abandoned += 1;
        if let Some(named) = self.named(name) {
            named.abandoned += 1;
        }
    }

    /// Counts a good response.
    pub fn success(&mut self, exchange: &Exchange, response: &Response, at: Nanos) {
        let pending = &exchange.pending;
        let first_byte = exchange.first_byte.unwrap_or(at);
        self.answered += 1;
        self.body_bytes += response.body_bytes;
        self.time_to_first_byte.record(first_byte - exchange.sent);
        self.time_to_first_byte_intended.record(first_byte - pending.intended);
        self.transfer_time.record(at - first_byte);
        self.response_time_sent.record(at - pending.acted);
        self.send_lag.record(pending.acted - pending.intended);
        self.complete(response, true, at - pending.intended);
    }

    /// Counts a complete response that is wrong.
    pub fn record_wrong(&mut self, cause: Cause, exchange: &Exchange, response: &Response, at: Nanos) {
        self.errors.count(cause, at - exchange.pending.intended);
        self.complete(response, false, at - exchange.pending.intended);
    }

    fn complete(&mut self, response: &Response, good: bool, response_time: Nanos) {
        let key = CellKey { status: response.status, size_class: size_class(response.body_bytes), good };
        // The last one used is checked first: most runs see one kind of response.
        let index = self.cells.iter().position(|cell| cell.key == key).unwrap_or_else(|| {
            self.cells.push(Cell { key, response_time: Histogram::default() });
            self.cells.len() - 1
        });
        self.cells[index].response_time.record(response_time);
    }

    /// From the intended start to the last byte, of good responses.
    pub fn response_time(&self) -> Histogram {
        self.sum_of(|key| key.good)
    }

    /// Response times of complete responses by status, good or not.
    pub fn by_status(&self) -> Vec<(u16, Histogram)> {
        let mut statuses: Vec<u16> = self.cells.iter().map(|cell| cell.key.status).collect();
        statuses.sort_unstable();
        statuses.dedup();
        statuses.into_iter().map(|status| (status, self.sum_of(|key| key.status == status))).collect()
    }

    /// Response times of good responses whose body is in this size class.
    pub fn of_size_class(&self, size_class: u8) -> Histogram {
        self.sum_of(|key| key.good && key.size_class == size_class)
    }

    /// Response times by cell with a tag each: `good_200_10240` has status 200 and a body in the class that starts at
    /// 10240 bytes; `wrong_404_0` was not a good response.
    pub fn cells(&self) -> impl Iterator<Item = (String, &Histogram)> {
        self.cells.iter().map(|Cell { key, response_time }| {
            let kind = if key.good { "good" } else { "wrong" };
            let class = usize::from(key.size_class);
            let bytes_from = class.checked_sub(1).map_or(0, |before| SIZE_CLASS_BYTES[before]);
            (format!("{kind}_{}_{bytes_from}", key.status), response_time)
        })
    }

    fn sum_of(&self, belongs: impl Fn(&CellKey) -> bool) -> Histogram {
        let mut sum = Histogram::default();
        self.cells.iter().filter(|cell| belongs(&cell.key)).for_each(|cell| sum.merge(&cell.response_time));
        sum
    }

    pub fn merge(&mut self, other: &StepRecord) {
        self.begun += other.begun;
        self.skipped += other.skipped;
        self.answered += other.answered;
        self.body_bytes += other.body_bytes;
        self.unfinished += other.unfinished;
        self.abandoned += other.abandoned;
        self.redirects += other.redirects;
        for (place, theirs) in (0..).zip(&other.by_name) {
            if let Some(own) = self.named(Some(place)) {
                own.merge(theirs);
            }
        }
        self.errors.merge(&other.errors);
        self.connect_time.merge(&other.connect_time);
        self.handshake_time.merge(&other.handshake_time);
        self.handshakes_resumed += other.handshakes_resumed;
        self.time_to_first_byte.merge(&other.time_to_first_byte);
        self.time_to_first_byte_intended.merge(&other.time_to_first_byte_intended);
        self.transfer_time.merge(&other.transfer_time);
        self.response_time_sent.merge(&other.response_time_sent);
        self.send_lag.merge(&other.send_lag);
        self.receive_lag.merge(&other.receive_lag);
        for cell in &other.cells {
            match self.cells.iter_mut().find(|own| own.key == cell.key) {
                Some(own) => own.response_time.merge(&cell.response_time),
                None => self.cells.push(cell.clone()),
            }
        }
    }
}

pub fn size_class(body_bytes: u64) -> u8 {
    SIZE_CLASS_BYTES.iter().filter(|&&least| least <= body_bytes).count() as u8
}

/// Failed requests by cause, with the times from the intended start to the failure.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    counts: [u64; Cause::ALL.len()],
    times: [Option<Box<Histogram>>; Cause::ALL.len()],
}

impl Errors {
    pub fn count(&mut self, cause: Cause, time: Nanos) {
        self.counts[cause as usize] += 1;
        self.times[cause as usize].get_or_insert_default().record(time);
    }

    pub fn of(&self, cause: Cause) -> u64 {
        self.counts[cause as usize]
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The causes that occurred, with their counts and times.
    pub fn occurred(&self) -> impl Iterator<Item = (Cause, u64, &Histogram)> {
        let all = Cause::ALL.into_iter().zip(self.counts).zip(&self.times);
        all.filter_map(|((cause, count), times)| Some((cause, count, times.as_deref()?)))
    }

    pub fn merge(&mut self, other: &Errors) {
        iter::zip(&mut self.counts, other.counts).for_each(|(sum, count)| *sum += count);
        for (own, other) in iter::zip(&mut self.times, &other.times) {
            match (mem::take(own), other) {
                (Some(mut sum), Some(times)) => {
                    sum.merge(times);
                    *own = Some(sum);
                }
                (sum, times) => *own = sum.or_else(|| times.clone()),
            }
        }
    }
}

/// Figures of the requests with one name in one step: a scenario's requests, or an endpoint's.
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
    /// The durations in answers' `Server-Timing` fields, by metric.
    pub server_timing: BTreeMap<String, Histogram>,
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

    /// Adds what an answer says of the time that it took.
    pub fn add_server_timing(&mut self, metrics: impl Iterator<Item = (String, Nanos)>) {
        for (metric, duration) in metrics {
            let is_known = self.server_timing.contains_key(&metric);
            if is_known || self.server_timing.len() < SERVER_TIMING_METRICS_MAX {
                self.server_timing.entry(metric).or_default().record(duration);
            }
        }
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
        for (metric, durations) in &other.server_timing {
            self.server_timing.entry(metric.clone()).or_default().merge(durations);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn exchange(acted_ms: u64) -> Exchange {
        let pending = PendingRequest { acted: Nanos(acted_ms * MS), ..PendingRequest::default() };
        Exchange { pending, sent: Nanos(acted_ms * MS), first_byte: Some(Nanos(30 * MS)) }
    }

    fn response(status: u16, body_bytes: u64) -> Response {
        Response { status, body_bytes, keep_alive: true }
    }

    #[test]
    fn each_latency_has_its_beginning_and_its_end() {
        let mut record = StepRecord::default();
        record.success(&exchange(10), &response(200, 5), Nanos(50 * MS));
        let check = |histogram: &Histogram, ms: f64| {
            let seconds = histogram.quantile_seconds(1.0).unwrap();
            assert!((seconds * 1e3 / ms - 1.0).abs() < 1e-3, "{seconds} for {ms} ms");
        };
        check(&record.send_lag, 10.0);
        check(&record.time_to_first_byte, 20.0);
        check(&record.time_to_first_byte_intended, 30.0);
        check(&record.transfer_time, 20.0);
        check(&record.response_time_sent, 40.0);
        check(&record.response_time(), 50.0);
    }

    #[test]
    fn merging_steps_equals_one_step_and_failures_stay_apart() {
        let (mut whole, mut parts) = (StepRecord::default(), [StepRecord::default(), StepRecord::default()]);
        for number in 0..1000_u64 {
            let at = Nanos((50 + number % 7) * MS);
            for record in [&mut whole, &mut parts[(number % 2) as usize]] {
                match number % 5 {
                    0 => record.record_wrong(Cause::Status4xx, &exchange(10), &response(404, 9), at),
                    1 => record.errors.count(Cause::Reset, at),
                    _ => record.success(&exchange(10), &response(200, number * 100), at),
                }
            }
        }
        let mut merged = StepRecord::default();
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!(merged.response_time(), whole.response_time());
        assert_eq!(merged.response_time().count(), 600);
        assert_eq!(merged.by_status(), whole.by_status());
        let statuses: Vec<_> =
            merged.by_status().iter().map(|(status, times)| (*status, times.count())).collect();
        assert_eq!(statuses, [(200, 600), (404, 200)]);
        let by_size: u64 = (0..=4).map(|class| merged.of_size_class(class).count()).sum();
        assert_eq!(by_size, 600);
        let mut tags: Vec<_> = merged.cells().map(|(tag, times)| (tag, times.count())).collect();
        tags.sort();
        assert_eq!(tags.len(), 4, "{tags:?}");
        assert!(tags.contains(&("wrong_404_0".to_owned(), 200)), "{tags:?}");
        assert_eq!(tags.iter().map(|(_, count)| count).sum::<u64>(), 800);
        let causes: Vec<_> =
            merged.errors.occurred().map(|(cause, count, times)| (cause, count, times.count())).collect();
        assert_eq!(causes, [(Cause::Reset, 200, 200), (Cause::Status4xx, 200, 200)]);
    }

    #[test]
    fn size_classes() {
        for (bytes, class) in [(0, 0), (1023, 0), (1024, 1), (102_400, 3), (1 << 20, 4), (u64::MAX, 4)] {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }
}
