//! Counts the requests of a log without sessions: every distinct method, target and status.
//!
//! Dynamic responses vary in size and have queries, so that documents say little about them. Use this to group requests
//! by the application code that answers them.

use std::borrow::Cow;
use std::ops::ControlFlow;

use hashbrown::HashMap;
use serde::Serialize;

use super::entry::Entry;
use super::lines::{self, Step};
use super::logs::{Log, Opened, Unreadable};
use super::{ImportError, Options, Progress, names};

/// The most distinct rows. Requests beyond them are counted without their targets.
pub const DISTINCT_REQUESTS_MAX: usize = 1 << 20;

const PROGRESS_LINES: u64 = 1 << 16;
const NS_PER_MINUTE: i64 = 60_000_000_000;

/// A distinct request, with totals of its responses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestCount {
    pub method: String,
    /// Path and query, as sent.
    pub target: String,
    pub status: u16,
    pub count: u64,
    /// Total size of all bodies.
    pub bytes: u64,
    /// The sum of logged durations; `None` where there are none.
    pub request_seconds: Option<f64>,
    pub upstream_seconds: Option<f64>,
}

/// The distinct requests of a log.
#[derive(Debug, Serialize)]
pub struct Requests {
    pub rows: Vec<RequestCount>,
    /// The number of requests beyond [`DISTINCT_REQUESTS_MAX`] rows.
    pub beyond: u64,
    pub requests: u64,
    pub malformed: u64,
    /// The time from the first request to the last.
    pub duration_seconds: f64,
    /// The rate of the busiest minute.
    pub peak_requests_per_second: f64,
}

#[derive(Default)]
struct Sums {
    count: u64,
    bytes: u64,
    request_ns: Option<i64>,
    upstream_ns: Option<i64>,
}

type Key = (Vec<u8>, Vec<u8>, u16);

#[derive(Default)]
struct Counter {
    rows: HashMap<Key, Sums>,
    minutes: HashMap<i64, u64>,
    span_ns: Option<(i64, i64)>,
    requests: u64,
    beyond: u64,
    malformed: u64,
    lines: u64,
    bytes: u64,
}

/// Counts the selected requests of logs, regardless of what a trace would keep of them.
pub fn count_requests<'l>(
    logs: impl Iterator<Item = Log<'l>>,
    options: &Options,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Requests, ImportError> {
    let mut counter = Counter::default();
    let mut tell = |counter: &Counter| match progress(Progress { lines: counter.lines, bytes: counter.bytes })
    {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ImportError::Stopped),
    };
    for log in logs {
        let reader = log.reader.map_err(|source| ImportError::Read { line: 0, source })?;
        let mut opened = Opened::new(reader, options, || tell(&counter))?;
        if let Some(Unreadable::NoEntry(first)) = opened.unreadable.take() {
            if log.is_found {
                continue;
            }
            let format = options.format.as_ref().map(|format| format.name().to_owned());
            return Err(ImportError::NotALog { lines: first.line, format, first });
        }
        let mut format = opened.format.clone();
        lines::for_each(&mut opened.reader, format.clone().record_bytes(), |step| {
            let due = match step {
                Step::Line { bytes, text } => {
                    counter.lines += 1;
                    counter.bytes += bytes;
                    match format.read(text) {
                        Ok(Some(entry)) => counter.entry(entry, options, format.escapes()),
                        Ok(None) => {}
                        Err(_) => counter.malformed += 1,
                    }
                    counter.lines.is_multiple_of(PROGRESS_LINES)
                }
                Step::Interrupted => true,
            };
            if due { tell(&counter) } else { Ok(()) }
        })?;
    }
    if counter.requests == 0 {
        return Err(ImportError::Empty);
    }
    Ok(counter.finish())
}

impl Counter {
    fn entry(&mut self, mut entry: Entry<'_>, options: &Options, escapes: bool) {
        if !options.selection.selects(&entry) || entry.target.is_empty() {
            return;
        }
        options.selection.rename(&mut entry);
        if let Some(target) = names::spelled_alike(&entry.target, escapes) {
            entry.target = Cow::Owned(target);
        }
        self.requests += 1;
        let now = entry.logged_unix_ns;
        self.span_ns =
            self.span_ns.map_or(Some((now, now)), |(first, last)| Some((first.min(now), last.max(now))));
        *self.minutes.entry(now.div_euclid(NS_PER_MINUTE)).or_default() += 1;
        let key = (entry.method.to_vec(), entry.target.to_vec(), entry.status);
        if self.rows.len() == DISTINCT_REQUESTS_MAX && !self.rows.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let sums = self.rows.entry(key).or_default();
        sums.count += 1;
        sums.bytes += entry.size_bytes.unwrap_or(0);
        for (sum, ns) in
            [(&mut sums.request_ns, entry.duration_ns), (&mut sums.upstream_ns, entry.upstream_ns)]
        {
            *sum = ns.map(|ns| sum.unwrap_or(0) + ns).or(*sum);
        }
    }

    fn finish(self) -> Requests {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seconds = |ns: i64| ns as f64 / 1e9;
        let mut rows: Vec<RequestCount> = (self.rows.iter())
            .map(|((method, target, status), sums)| RequestCount {
                method: text(method),
                target: names::spelled(target),
                status: *status,
                count: sums.count,
                bytes: sums.bytes,
                request_seconds: sums.request_ns.map(seconds),
                upstream_seconds: sums.upstream_ns.map(seconds),
            })
            .collect();
        // Sorting makes the order depend on the log alone.
        rows.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| (&a.target, &a.method, a.status).cmp(&(&b.target, &b.method, b.status)))
        });
        let (first, last) = self.span_ns.unwrap_or_default();
        Requests {
            rows,
            beyond: self.beyond,
            requests: self.requests,
            malformed: self.malformed,
            duration_seconds: seconds(last - first),
            peak_requests_per_second: self.minutes.values().max().map_or(0.0, |&count| count as f64 / 60.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(log: &str) -> Requests {
        let logs = std::iter::once(Log::only(log.as_bytes()));
        count_requests(logs, &Options::default(), |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn requests_differ_by_method_target_and_status() {
        let line = |minute: u32, request: &str, status: u16| {
            format!(
                "10.0.0.1 - - [10/Oct/2000:13:{minute:02}:36 -0700] \"{request} HTTP/1.1\" {status} 100\n"
            )
        };
        let log = line(1, "GET /a?x=1", 200)
            + &line(1, "GET /a?x=1", 200)
            + &line(2, "GET /a?x=2", 200)
            + &line(2, "POST /a?x=1", 303)
            + &line(3, "GET /a?x=1", 404)
            + "nonsense\n";
        let found = counted(&log);
        let rows: Vec<_> =
            found.rows.iter().map(|row| (&*row.method, &*row.target, row.status, row.count)).collect();
        assert_eq!(rows[0], ("GET", "/a?x=1", 200, 2));
        assert_eq!(rows.len(), 4);
        assert!(rows.contains(&("POST", "/a?x=1", 303, 1)) && rows.contains(&("GET", "/a?x=1", 404, 1)));
        assert_eq!((found.requests, found.malformed, found.rows[0].bytes), (5, 1, 200));
        assert_eq!((found.duration_seconds, found.peak_requests_per_second), (120.0, 2.0 / 60.0));
        assert_eq!(found.rows[0].request_seconds, None);
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let refused = |text: &'static str| {
            let logs = std::iter::once(Log::only(text.as_bytes()));
            count_requests(logs, &Options::default(), |_| ControlFlow::Continue(())).unwrap_err()
        };
        assert!(matches!(refused(""), ImportError::Empty));
        assert!(matches!(refused("a poem\nof two lines\n"), ImportError::NotALog { .. }));
    }
}
