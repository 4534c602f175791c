//! The rate of a log over time: requests by hour of the day, and along its whole length.

use serde::Serialize;

use super::NS_PER_SECOND;
use super::overview::{NS_PER_MINUTE, Overview};

/// The most points of a timeline: as many as a day has minutes.
pub const TIMELINE_POINTS_MAX: u64 = 1440;

const DAY_SECONDS: f64 = 86_400.0;
const HOUR_SECONDS: f64 = 3600.0;
const MINUTE_SECONDS: f64 = 60.0;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rhythm {
    /// The hours of the day, by the UTC offset of the log's first line.
    pub hours: Vec<Hour>,
    /// The width of a timeline interval, a multiple of a minute.
    pub timeline_interval_seconds: u64,
    /// The rate along the log. The log may cover only part of its first and last intervals.
    pub timeline: Vec<TimelinePoint>,
}

/// An hour of the day, over all days of the log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hour {
    /// From 0 to 23.
    pub hour: u32,
    pub requests: u64,
    /// The rate over the part of the hour that the log covers; `None` where it covers nothing.
    pub requests_per_second: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimelinePoint {
    /// Start of the interval, counted from the start of the minute in which the log begins.
    pub start_seconds: u64,
    pub requests_per_second: f64,
}

impl Rhythm {
    pub fn new(overview: &Overview) -> Self {
        let first = overview.origin.unix_ns.div_euclid(NS_PER_MINUTE);
        let last = overview.minutes.keys().max().map_or(0, |last| last - first) as u64;
        let interval_minutes = (last + 1).div_ceil(TIMELINE_POINTS_MAX);
        Rhythm {
            hours: hours(overview),
            timeline_interval_seconds: interval_minutes * 60,
            timeline: timeline(overview, first, last, interval_minutes),
        }
    }
}

fn hours(overview: &Overview) -> Vec<Hour> {
    let offset_minutes = i64::from(overview.origin.utc_offset_seconds) / 60;
    let mut requests = [0; 24];
    for (minute, &count) in &overview.minutes {
        let of_day = (minute + offset_minutes).rem_euclid(24 * 60);
        requests[(of_day / 60) as usize] += count;
    }
    let origin = overview.origin;
    let begin = origin.unix_ns as f64 / NS_PER_SECOND + f64::from(origin.utc_offset_seconds);
    let end = begin + overview.span_ns as f64 / NS_PER_SECOND;
    let hour = |hour: u32| {
        let seconds = covered_seconds(hour, end) - covered_seconds(hour, begin);
        let requests = requests[hour as usize];
        let requests_per_second = (seconds > 0.0).then(|| requests as f64 / seconds);
        Hour { hour, requests, requests_per_second }
    };
    (0..24).map(hour).collect()
}

/// The number of seconds that lie in this hour of the day, of the first `seconds` since a midnight.
fn covered_seconds(hour: u32, seconds: f64) -> f64 {
    let days = (seconds / DAY_SECONDS).floor();
    let today = seconds - days * DAY_SECONDS - f64::from(hour) * HOUR_SECONDS;
    days * HOUR_SECONDS + today.clamp(0.0, HOUR_SECONDS)
}

fn timeline(overview: &Overview, first: i64, last: u64, interval_minutes: u64) -> Vec<TimelinePoint> {
    let mut counts = vec![0; (last / interval_minutes + 1) as usize];
    for (minute, &count) in &overview.minutes {
        counts[((minute - first) as u64 / interval_minutes) as usize] += count;
    }
    let point = |(index, count): (usize, u64)| TimelinePoint {
        start_seconds: index as u64 * interval_minutes * 60,
        requests_per_second: count as f64 / (interval_minutes as f64 * MINUTE_SECONDS),
    };
    counts.into_iter().enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Document, Origin, Request, Session, Trace};

    /// Requests at these seconds after 1970-01-01 23:30 by a clock one hour ahead of UTC.
    fn rhythm(seconds: &[u64]) -> Rhythm {
        let request = |&at: &u64| Request { offset_ns: at * 1_000_000_000, document: 0 };
        let trace = Trace {
            documents: vec![Document::got("/", 1)],
            sessions: vec![Session { start_ns: 0, first: 0, count: seconds.len() as u32 }],
            requests: seconds.iter().map(request).collect(),
            origin: Origin { unix_ns: (22 * 3600 + 1800) * 1_000_000_000, utc_offset_seconds: 3600 },
            times: None,
        };
        let Ok(overview) = Overview::new(&mut &trace);
        Rhythm::new(&overview)
    }

    #[test]
    fn an_hour_is_averaged_over_what_the_log_covers_of_it() {
        // Half an hour before midnight and the first hour and a half of the next day.
        let rhythm = rhythm(&[0, 900, 1800, 7200]);
        let check = |hour: usize, requests, rate| {
            assert_eq!(rhythm.hours[hour], Hour { hour: hour as u32, requests, requests_per_second: rate });
        };
        check(23, 2, Some(2.0 / 1800.0));
        check(0, 1, Some(1.0 / 3600.0));
        check(1, 1, Some(1.0 / 1800.0));
        check(2, 0, None);
    }

    #[test]
    fn a_timeline_has_minutes_and_no_more_points_than_it_may() {
        let short = rhythm(&[0, 59, 60, 61]);
        let rates: Vec<_> = short.timeline.iter().map(|point| point.requests_per_second).collect();
        assert_eq!(rates, [2.0 / 60.0, 2.0 / 60.0]);
        let year = rhythm(&[0, 365 * 86_400]);
        assert!(year.timeline.len() as u64 <= TIMELINE_POINTS_MAX);
        assert_eq!(year.timeline_interval_seconds % 60, 0);
    }
}
