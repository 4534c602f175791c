//! Counts the requests of a log without sessions: every distinct method, target and status.
//!
//! Dynamic responses vary in size and have queries, so that documents say little about them. Use this to group requests
//! by the application code that answers them.

use std::borrow::Cow;
use std::ops::ControlFlow;

use hashbrown::HashMap;
use serde::Serialize;

use super::entry::Malformed;
use super::format::Format;
use super::interner::Interner;
use super::lines::{self, Step};
use super::logs::{Log, Opened, Unreadable};
use super::parse_ahead::{self, BlockParser, Parsed};
use super::text_blocks::TextBlock;
use super::told_texts::{Heard, Teller, Told};
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
    /// The request rate of the busiest minute; the average, if the log is shorter than a minute.
    pub peak_requests_per_second: f64,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    count: u64,
    bytes: u64,
    request_ns: Option<i64>,
    upstream_ns: Option<i64>,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.count += other.count;
        self.bytes += other.bytes;
        for (sum, ns) in
            [(&mut self.request_ns, other.request_ns), (&mut self.upstream_ns, other.upstream_ns)]
        {
            *sum = ns.map(|ns| sum.unwrap_or(0) + ns).or(*sum);
        }
    }
}

/// Entries that the selection leaves out.
#[derive(Clone, Copy)]
struct NotSelected {
    entries: u64,
    first_ns: i64,
    last_ns: i64,
    /// Of the first of them in the log.
    utc_offset_seconds: i32,
}

/// What needs no request to be told from another.
#[derive(Default)]
struct Totals {
    lines: u64,
    bytes: u64,
    malformed: u64,
    requests: u64,
    span_ns: Option<(i64, i64)>,
    minutes: HashMap<i64, u64>,
    not_selected: Option<NotSelected>,
}

impl Totals {
    fn request(&mut self, logged_ns: i64) {
        self.requests += 1;
        self.include(logged_ns, logged_ns);
        *self.minutes.entry(logged_ns.div_euclid(NS_PER_MINUTE)).or_default() += 1;
    }

    fn include(&mut self, first_ns: i64, last_ns: i64) {
        let (first, last) = self.span_ns.unwrap_or((first_ns, last_ns));
        self.span_ns = Some((first.min(first_ns), last.max(last_ns)));
    }

    fn leave_out(&mut self, more: NotSelected) {
        let known = self.not_selected.unwrap_or(NotSelected { entries: 0, ..more });
        self.not_selected = Some(NotSelected {
            entries: known.entries + more.entries,
            first_ns: known.first_ns.min(more.first_ns),
            last_ns: known.last_ns.max(more.last_ns),
            ..known
        });
    }

    fn add(&mut self, other: &Totals) {
        self.lines += other.lines;
        self.bytes += other.bytes;
        self.malformed += other.malformed;
        self.requests += other.requests;
        if let Some((first_ns, last_ns)) = other.span_ns {
            self.include(first_ns, last_ns);
        }
        for (minute, requests) in &other.minutes {
            *self.minutes.entry(*minute).or_default() += requests;
        }
        if let Some(more) = other.not_selected {
            self.leave_out(more);
        }
    }

    /// The error for logs without a request.
    fn nothing(&self) -> ImportError {
        match self.not_selected {
            Some(NotSelected { entries, first_ns, last_ns, utc_offset_seconds }) => {
                ImportError::nothing_selected(entries, (first_ns, last_ns), utc_offset_seconds)
            }
            None => ImportError::Empty,
        }
    }
}

/// Reads lines as requests.
struct LineReader {
    format: Format,
    options: Options,
    key: Vec<u8>,
}

impl LineReader {
    /// Counts a line in `totals`; returns the key of its request with its sums, if it has one.
    fn read(&mut self, bytes: u64, text: &[u8], totals: &mut Totals) -> Option<(&[u8], Sums)> {
        totals.lines += 1;
        totals.bytes += bytes;
        let read = self.request(text, totals);
        totals.malformed += u64::from(read.is_err());
        let sums = read.ok()??;
        Some((&self.key, sums))
    }

    fn request(&mut self, text: &[u8], totals: &mut Totals) -> Result<Option<Sums>, Malformed> {
        let escapes = self.format.escapes();
        let Some(mut entry) = self.format.read(text)? else { return Ok(None) };
        let selection = &self.options.selection;
        if !selection.selects(&entry) {
            totals.leave_out(NotSelected {
                entries: 1,
                first_ns: entry.logged_unix_ns,
                last_ns: entry.logged_unix_ns,
                utc_offset_seconds: entry.utc_offset_seconds,
            });
            return Ok(None);
        }
        if entry.target.is_empty() {
            return Ok(None);
        }
        selection.rename(&mut entry);
        if let Some(target) = names::spelled_alike(&entry.target, escapes) {
            entry.target = Cow::Owned(target);
        }
        totals.request(entry.logged_unix_ns);
        join(&mut self.key, &entry.method, &entry.target, entry.status);
        let bytes = entry.size_bytes.unwrap_or(0);
        Ok(Some(Sums { count: 1, bytes, request_ns: entry.duration_ns, upstream_ns: entry.upstream_ns }))
    }
}

/// Behind target and method stand the method's length and the status.
fn join(key: &mut Vec<u8>, method: &[u8], target: &[u8], status: u16) {
    key.clear();
    key.extend_from_slice(target);
    key.extend_from_slice(method);
    key.extend_from_slice(&(method.len() as u32).to_le_bytes());
    key.extend_from_slice(&status.to_le_bytes());
}

/// Method, target and status of a key.
fn split(key: &[u8]) -> (&[u8], &[u8], u16) {
    let (rest, status) = key.split_last_chunk().expect("a status");
    let (rest, length) = rest.split_last_chunk().expect("a length");
    let (target, method) = rest.split_at(rest.len() - u32::from_le_bytes(*length) as usize);
    (method, target, u16::from_le_bytes(*status))
}

/// The requests of a block: each once, in the order in which they appear first.
#[derive(Default)]
struct CountedBlock {
    totals: Totals,
    told: Told,
    rows: Vec<(u32, Sums)>,
}

/// Counts requests block by block.
struct BlockCounter {
    lines: LineReader,
    teller: Teller,
    /// The block in which each request was last, and its row there.
    places: Vec<(u64, usize)>,
    blocks: u64,
}

impl BlockParser for BlockCounter {
    type Block = CountedBlock;
    type Seen = Heard<Option<u32>>;

    fn parse(&mut self, text: &TextBlock, block: &mut CountedBlock) {
        let BlockCounter { lines, teller, places, blocks } = self;
        let CountedBlock { totals, told, rows } = block;
        *blocks += 1;
        *totals = Totals { bytes: text.left_out, ..Totals::default() };
        rows.clear();
        teller.begin(told);
        if told.anew {
            places.clear();
        }
        let record_bytes = lines.format.record_bytes();
        let visited = lines::for_each(&mut text.bytes(), record_bytes, |step| {
            let Step::Line { bytes, text } = step else { return Ok(()) };
            let Some((key, sums)) = lines.read(bytes, text, totals) else { return Ok(()) };
            let number = teller.number(key, told);
            if number as usize == places.len() {
                places.push((0, 0));
            }
            let (block, row) = &mut places[number as usize];
            if *block != *blocks {
                (*block, *row) = (*blocks, rows.len());
                rows.push((number, Sums::default()));
            }
            rows[*row].1.add(&sums);
            Ok(())
        });
        visited.expect("memory can be read");
    }
}

#[derive(Default)]
struct Counter {
    distinct_max: usize,
    totals: Totals,
    requests: Interner,
    rows: Vec<Sums>,
    beyond: u64,
}

/// Counts the selected requests of logs, regardless of what a trace would keep of them.
pub fn count_requests<'l>(
    logs: impl Iterator<Item = Log<'l>>,
    options: &Options,
    progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Requests, ImportError> {
    count_distinct(logs, options, DISTINCT_REQUESTS_MAX, progress)
}

fn count_distinct<'l>(
    logs: impl Iterator<Item = Log<'l>>,
    options: &Options,
    distinct_max: usize,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Requests, ImportError> {
    let mut counter = Counter { distinct_max, ..Counter::default() };
    let mut tell = |&Totals { lines, bytes, .. }: &Totals| match progress(Progress { lines, bytes }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ImportError::Stopped),
    };
    for log in logs {
        let reader = log.reader.map_err(|source| ImportError::Read { line: 0, source })?;
        let mut opened = Opened::new(reader, options, || tell(&counter.totals))?;
        if let Some(Unreadable::NoEntry(first)) = opened.unreadable.take() {
            if log.is_found {
                continue;
            }
            let format = options.format.as_ref().map(|format| format.name().to_owned());
            return Err(ImportError::NotALog { lines: first.line, format, first });
        }
        let lines_before = counter.totals.lines;
        let mut told_lines = lines_before;
        let mut tell_if_due = |totals: &Totals, is_interrupted: bool| {
            if is_interrupted || totals.lines - told_lines >= PROGRESS_LINES {
                told_lines = totals.lines;
                tell(totals)
            } else {
                Ok(())
            }
        };
        let format = opened.format.clone();
        let record_bytes = format.record_bytes();
        let new_reader = || LineReader { format: format.clone(), options: options.clone(), key: Vec::new() };
        if options.parsers > 0 && log.may_read_ahead && format.is_stateless() {
            let parser = || BlockCounter {
                lines: new_reader(),
                teller: Teller::default(),
                places: Vec::new(),
                blocks: 0,
            };
            let failure = parse_ahead::for_each(opened.into_blocks(), options.parsers, parser, |parsed| {
                let is_interrupted = match parsed {
                    Parsed::Block(block, heard) => {
                        counter.block(block, heard);
                        false
                    }
                    Parsed::Nothing => true,
                };
                tell_if_due(&counter.totals, is_interrupted)
            })?;
            if let Some(source) = failure {
                return Err(ImportError::Read { line: counter.totals.lines - lines_before, source });
            }
            continue;
        }
        let mut reader = new_reader();
        lines::for_each(&mut opened.reader, record_bytes, |step| match step {
            Step::Line { bytes, text } => {
                if let Some((key, sums)) = reader.read(bytes, text, &mut counter.totals) {
                    let row = counter.row(key);
                    counter.add(row, &sums);
                }
                tell_if_due(&counter.totals, false)
            }
            Step::Interrupted => tell_if_due(&counter.totals, true),
        })?;
    }
    if counter.totals.requests == 0 {
        return Err(counter.totals.nothing());
    }
    Ok(counter.finish())
}

impl Counter {
    fn block(&mut self, block: &CountedBlock, heard: &mut Heard<Option<u32>>) {
        heard.add(&block.told, |_| None);
        self.totals.add(&block.totals);
        for (number, sums) in &block.rows {
            let row = match heard.found[*number as usize] {
                Some(row) => Some(row),
                None => self.row(heard.texts.get(*number)),
            };
            heard.found[*number as usize] = row;
            self.add(row, sums);
        }
    }

    /// The row of a request; `None` for one beyond the limit.
    fn row(&mut self, key: &[u8]) -> Option<u32> {
        let is_full = self.rows.len() == self.distinct_max;
        let row = if is_full { self.requests.known(key) } else { self.requests.number(key) }?;
        if row as usize == self.rows.len() {
            self.rows.push(Sums::default());
        }
        Some(row)
    }

    fn add(&mut self, row: Option<u32>, sums: &Sums) {
        match row {
            Some(row) => self.rows[row as usize].add(sums),
            None => self.beyond += sums.count,
        }
    }

    fn finish(self) -> Requests {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seconds = |ns: i64| ns as f64 / 1e9;
        let row = |(sums, number): (&Sums, u32)| {
            let (method, target, status) = split(self.requests.name(number));
            RequestCount {
                method: text(method),
                target: names::spelled(target),
                status,
                count: sums.count,
                bytes: sums.bytes,
                request_seconds: sums.request_ns.map(seconds),
                upstream_seconds: sums.upstream_ns.map(seconds),
            }
        };
        let mut rows: Vec<RequestCount> = self.rows.iter().zip(0..).map(row).collect();
        // Sorting makes the order depend on the log alone.
        rows.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| (&a.target, &a.method, a.status).cmp(&(&b.target, &b.method, b.status)))
        });
        let Totals { requests, malformed, span_ns, minutes, .. } = self.totals;
        let (first, last) = span_ns.unwrap_or_default();
        let duration_seconds = seconds(last - first);
        let most = minutes.values().max().map_or(0.0, |&most| most as f64 / 60.0);
        let average = requests as f64 / duration_seconds.max(1.0);
        Requests {
            rows,
            beyond: self.beyond,
            requests,
            malformed,
            duration_seconds,
            peak_requests_per_second: if duration_seconds < 60.0 { average } else { most },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::Selection;

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
    fn the_peak_of_a_log_shorter_than_a_minute_is_its_average() {
        let line = |minute: u32, second: u32| {
            format!("a - - [10/Oct/2000:13:{minute:02}:{second:02} -0700] \"GET / HTTP/1.1\" 200 1\n")
        };
        let lines = |seconds: std::ops::Range<u32>| seconds.map(|second| line(second / 60, second % 60));
        let peak = |log: String| counted(&log).peak_requests_per_second;
        assert_eq!(peak(lines(40..51).collect()), 1.1);
        // A clock minute has half of them.
        assert_eq!(peak(lines(31..91).collect()), 60.0 / 59.0);
        assert_eq!(peak(line(1, 5) + &line(1, 5)), 2.0);
        assert_eq!(peak(lines(0..61).collect()), 1.0);
    }

    #[test]
    fn threads_that_count_beside_the_callers_change_nothing() {
        let log: String = (0..20_000_u32)
            .map(|number| match number % 997 {
                0 => "damaged\n".to_owned(),
                _ => {
                    let (minute, second, client) = (number / 600 % 60, number / 10 % 60, number % 7);
                    let page = number.wrapping_mul(2_654_435_761) >> 18;
                    let status = if page % 50 == 0 { 404 } else { 200 };
                    format!(
                        "c{client} - - [10/Oct/2000:12:{minute:02}:{second:02} +0000] \"GET /{page}?q HTTP/1.0\" {status} {page}\n"
                    )
                }
            })
            .collect();
        for distinct_max in [300, DISTINCT_REQUESTS_MAX] {
            let counted = |parsers| {
                let logs = ["a", "b"].map(|name| Log {
                    name: name.into(),
                    may_read_ahead: true,
                    ..Log::only(log.as_bytes())
                });
                let options = Options { parsers, ..Options::default() };
                let go_on = |_| ControlFlow::Continue(());
                let found = count_distinct(logs.into_iter(), &options, distinct_max, go_on).unwrap();
                serde_json::to_string(&found).unwrap()
            };
            let alone = counted(0);
            assert_eq!(alone.contains("\"beyond\":0,"), distinct_max > 300);
            for parsers in [1, 3] {
                assert_eq!(counted(parsers), alone, "{parsers} threads, {distinct_max} requests");
            }
        }
    }

    #[test]
    fn a_selection_of_nothing_is_no_empty_log() {
        let line =
            |minute: u32| format!("a - - [10/Oct/2000:13:{minute:02}:36 -0700] \"GET / HTTP/1.1\" 200 1\n");
        let log: String = [3, 1, 2].map(line).concat();
        for parsers in [0, 1] {
            let logs = std::iter::once(Log { may_read_ahead: true, ..Log::only(log.as_bytes()) });
            let selection = Selection { methods: vec!["PUT".into()], ..Selection::default() };
            let options = Options { parsers, selection, ..Options::default() };
            let refused = count_requests(logs, &options, |_| ControlFlow::Continue(())).unwrap_err();
            assert_eq!(
                refused.to_string(),
                "none of the log's 3 entries is selected; the log is from 2000-10-10T13:01:36-07:00 to \
                 2000-10-10T13:03:36-07:00"
            );
        }
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
