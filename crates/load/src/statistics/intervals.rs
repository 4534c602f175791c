//! Latencies per interval, for confidence intervals that account for the correlation within a run.
//!
//! Nothing is recorded twice: a step's histograms only grow, so an interval is the difference from the previous one.
//! Only the differences are kept, a few kilobytes each.

use std::{io, time::SystemTime};

use sojourn_measure::{
    Histogram, Nanos,
    interval_log::{self, Interval},
};

use crate::statistics::step::StepRecord;

/// The first line of every histogram log.
pub(crate) const LOG_COMMENT: &str =
    concat!("Written by sojourn ", env!("CARGO_PKG_VERSION"), ", values in nanoseconds");
/// The most intervals kept: three hours of seconds. Later latencies are added to the last one.
pub const INTERVALS_MAX: usize = 10_800;
/// The histograms kept per interval, by their tags in the log.
const KINDS: [&str; 2] = ["response_time", "time_to_first_byte_intended"];

#[derive(Debug)]
pub struct Intervals {
    length: Nanos,
    steps: Vec<Cumulative>,
    ended: Vec<Ended>,
}

/// A step's histograms when they were last read.
#[derive(Clone, Debug, Default)]
struct Cumulative {
    /// When that was, since the run's start.
    at: Option<Nanos>,
    /// When the next interval ends.
    due: Nanos,
    counts: [Vec<(Nanos, u64)>; KINDS.len()],
}

#[derive(Debug)]
struct Ended {
    step: usize,
    start: Nanos,
    length: Nanos,
    gains: [Vec<(Nanos, u64)>; KINDS.len()],
}

impl Intervals {
    /// No intervals yet; each will be about `length` long.
    pub fn new(steps: usize, length: Nanos) -> Intervals {
        Intervals { length, steps: vec![Cumulative::default(); steps], ended: Vec::new() }
    }

    /// Ends the interval of the step being measured if it is long enough. Times are since the run's start.
    pub fn tick(&mut self, now: Nanos, step: usize, measured_from: Nanos, record: &StepRecord) {
        let cumulative = &mut self.steps[step];
        if cumulative.at.is_none() {
            cumulative.at = Some(measured_from);
            cumulative.due = measured_from + self.length;
        }
        if now < cumulative.due || self.ended.len() >= INTERVALS_MAX {
            return;
        }
        // By the schedule, so that lateness does not accumulate.
        while cumulative.due <= now {
            cumulative.due = cumulative.due + self.length;
        }
        self.end(now, step, record);
    }

    /// Ends the last interval of a step after its last responses. A rest of less than half an interval is added to the
    /// previous one.
    pub fn finish(&mut self, end: Nanos, step: usize, record: &StepRecord) {
        let Some(since) = self.steps[step].at else { return };
        self.end(end.max(since), step, record);
        let [.., before, last] = self.ended.as_mut_slice() else { return };
        if before.step != step || last.length.0 >= self.length.0 / 2 {
            return;
        }
        before.length = before.length + last.length;
        for (before, last) in before.gains.iter_mut().zip(&last.gains) {
            before.extend(last);
        }
        self.ended.pop();
    }

    fn end(&mut self, now: Nanos, step: usize, record: &StepRecord) {
        let cumulative = &mut self.steps[step];
        let start = cumulative.at.replace(now).unwrap_or(now);
        let response_time = record.response_time();
        let gains = [&response_time, &record.time_to_first_byte_intended];
        let mut kinds = cumulative.counts.iter_mut();
        let gains = gains.map(|histogram| gain(histogram, kinds.next().expect("as many")));
        self.ended.push(Ended { step, start, length: now - start, gains });
    }

    /// Writes an HDR interval log, with the kind of latency as the tag.
    pub fn write(&self, output: &mut impl io::Write, started_at: SystemTime) -> io::Result<()> {
        let rows = self.ended.iter().flat_map(|ended| {
            KINDS.iter().zip(&ended.gains).map(move |(tag, gains)| {
                let mut histogram = Histogram::default();
                gains.iter().for_each(|&(latency, count)| histogram.record_many(latency, count));
                Interval { tag, start: ended.start, length: ended.length, histogram }
            })
        });
        interval_log::write(output, started_at, LOG_COMMENT, rows)
    }
}

/// The entries added since `before`, which is updated. Both are sorted by latency.
fn gain(histogram: &Histogram, before: &mut Vec<(Nanos, u64)>) -> Vec<(Nanos, u64)> {
    let now: Vec<(Nanos, u64)> = histogram.recorded().collect();
    let mut gained = Vec::new();
    let mut old = before.iter().peekable();
    for &(latency, count) in &now {
        // Recorded latencies never disappear, so every old entry is found.
        let had = old.next_if(|(at, _)| *at == latency).map_or(0, |(_, count)| *count);
        if count > had {
            gained.push((latency, count - had));
        }
    }
    *before = now;
    gained
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn intervals_add_up_to_the_step() {
        let mut record = StepRecord::default();
        let mut intervals = Intervals::new(1, Nanos(SECOND));
        for tenth in 0..=35_u64 {
            intervals.tick(Nanos(2 * SECOND + tenth * SECOND / 10), 0, Nanos(2 * SECOND), &record);
            for request in 0..50 {
                let latency = Nanos((tenth * 7919 + request * 104_729) % (3 * SECOND));
                record.time_to_first_byte_intended.record(latency);
            }
        }
        intervals.finish(Nanos(2 * SECOND + 33 * SECOND / 10), 0, &record);
        let lengths: Vec<_> = intervals.ended.iter().map(|ended| ended.length.0 * 10 / SECOND).collect();
        assert_eq!(lengths, [10, 10, 13], "the rest of three tenths is added to the last");
        let mut merged = Histogram::default();
        for (latency, count) in intervals.ended.iter().flat_map(|ended| &ended.gains[1]) {
            merged.record_many(*latency, *count);
        }
        assert_eq!(merged, record.time_to_first_byte_intended);
    }
}
