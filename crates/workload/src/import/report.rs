//! The report of an import, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::coverage::Coverage;
use super::entry::Malformed;
use super::judged::{Judged, METHODS};

pub const MALFORMED_SHOWN_MAX: usize = 10;

pub const MALFORMED_TEXT_BYTES_MAX: usize = 160;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ImportReport {
    /// The compression of the first log; others may differ.
    pub compression: Compression,
    /// The format of the first log's lines.
    pub format: String,
    /// The evidence for a detected format; `None` if it was given.
    pub format_detected: Option<DetectedBy>,
    pub logs: Vec<LogReport>,
    /// Files found in a folder that are not logs.
    pub not_logs: Vec<NotALog>,
    pub lines: u64,
    pub bytes: u64,
    /// Lines that could not be parsed.
    pub malformed: u64,
    pub malformed_by_reason: BTreeMap<Malformed, u64>,
    pub malformed_examples: Vec<MalformedLine>,
    /// Lines that describe the log: directives of a W3C log.
    pub directives: u64,
    /// Entries that were not selected; no other figure includes them.
    pub not_selected: u64,
    /// Entries by status class, such as `2xx`.
    pub requests_by_status_class: BTreeMap<String, u64>,
    pub requests_by_status: BTreeMap<u16, u64>,
    /// Entries by method; `other` for uncommon ones.
    pub requests_by_method: BTreeMap<&'static str, u64>,
    /// The total bytes of all entries, whatever their status.
    pub bytes_sent: u64,
    pub requests: u64,
    /// Requests whose document was inferred by name (304, HEAD).
    pub by_name_requests: u64,
    /// Requests marked as failed.
    pub failed_requests: u64,
    /// Complete responses whose size was assumed because it is not logged.
    pub assumed_size_requests: u64,
    /// Entries with a logged duration.
    pub with_duration: u64,
    /// The resolution of the timestamps: of a log's the finest, of several logs the coarsest.
    pub time_resolution_ns: i64,
    /// Entries that are not in the trace.
    pub skipped: Skipped,
    /// The requests that a static copy of the site can answer, and the others by class.
    pub coverage: Coverage,
    /// Lines with an earlier time than a line before them.
    pub out_of_order_lines: u64,
    pub largest_backward_jump_seconds: u64,
    /// The UTC offset of the first entry.
    pub utc_offset_seconds: i32,
    /// Distinct clients of the trace's requests.
    pub clients: u64,
    pub documents: u64,
    pub sessions: u64,
    /// Warnings for the user, in full sentences.
    pub warnings: Vec<String>,
}

/// One of several logs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogReport {
    pub name: String,
    pub compression: Compression,
    pub format: String,
    /// The evidence for a detected format; `None` if it was given.
    pub format_detected: Option<DetectedBy>,
    pub lines: u64,
    pub malformed: u64,
}

/// A file that was found in a folder and skipped.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotALog {
    pub name: String,
    pub why: String,
}

/// By the first bytes of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    #[default]
    Plain,
    /// gzip, of one member or several.
    Gzip,
    /// bzip2, of one stream or several.
    Bzip2,
    /// xz, of one stream or several.
    Xz,
    /// zstd, of one frame or several.
    Zstd,
}

/// The evidence for a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DetectedBy {
    pub sample_lines: usize,
    /// Sample lines that the format can read.
    pub sample_entries: usize,
}

/// Fewer clients than this suggest proxies, networks or an anonymised log rather than people.
const CLIENTS_FEW: u64 = 10;

/// From this many requests on, few clients are suspicious.
const REQUESTS_MANY: u64 = 1000;

/// A larger share of damaged or dynamic entries triggers a warning that the trace does not represent the log.
const MALFORMED_FRACTION_MAX: f64 = 0.01;
const DYNAMIC_FRACTION_MAX: f64 = 0.1;

/// A larger backward jump of the clock triggers a warning: the clock was set back, or logs were concatenated.
const BACKWARD_JUMP_SECONDS_MAX: u64 = 3600;

impl ImportReport {
    /// Derives the warnings from the other figures.
    pub(super) fn warn(&mut self) {
        let lines = self.lines as f64;
        if self.clients < CLIENTS_FEW && self.requests >= REQUESTS_MANY {
            let text = "distinct clients: sessions are those of proxies or networks, not of people";
            self.warnings.push(format!("only {} {text}", self.clients));
        }
        if self.malformed as f64 > MALFORMED_FRACTION_MAX * lines {
            let percent = 100.0 * self.malformed as f64 / lines;
            self.warnings.push(format!("{percent:.1} % of the lines are malformed"));
        }
        if self.largest_backward_jump_seconds > BACKWARD_JUMP_SECONDS_MAX {
            let seconds = self.largest_backward_jump_seconds;
            self.warnings.push(format!(
                "the log's clock goes back by {seconds} s: it was set back, or logs were put together; the lines were sorted"
            ));
        }
        if self.assumed_size_requests > 0 {
            let count = self.assumed_size_requests;
            self.warnings
                .push(format!("{count} responses have an assumed size, so byte counts are not measured"));
        }
        let (dynamic, requests) = (self.coverage.dynamic_requests() as f64, self.coverage.requests as f64);
        if dynamic > DYNAMIC_FRACTION_MAX * requests {
            let percent = 100.0 * dynamic / requests;
            let text = "of the requests are dynamic: the trace stands for static documents only";
            self.warnings.push(format!("{percent:.0} % {text}"));
        }
    }
}

/// Entries left out of the trace, by reason (`policy` has the table).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The target has a query: dynamic.
    pub with_query: u64,
    pub other_method: u64,
    /// Neither 200, 206 nor 304.
    pub failed: u64,
    /// 206.
    pub partial: u64,
    /// 200 and no size.
    pub without_size: u64,
    /// 304 or HEAD for a name without any logged size.
    pub of_unknown_size: u64,
    /// No request line was sent.
    pub without_target: u64,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            ("with a query", self.with_query),
            ("of another method", self.other_method),
            ("failed or redirected", self.failed),
            ("partial", self.partial),
            ("without a size", self.without_size),
            ("of unknown size", self.of_unknown_size),
            ("without a target", self.without_target),
        ];
        let parts = counts.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<_> = parts.map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&parts.join(", "))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MalformedLine {
    /// The log's name; empty for a single log.
    pub log: String,
    pub line: u64,
    pub reason: Malformed,
    pub message: String,
    /// The start of the line, decoded with replacement.
    pub text: String,
}

impl MalformedLine {
    pub(super) fn new(log: &str, line: u64, text: &[u8], reason: Malformed) -> Self {
        let shown = &text[..text.len().min(MALFORMED_TEXT_BYTES_MAX)];
        let mut shown = String::from_utf8_lossy(shown).into_owned();
        if text.len() > MALFORMED_TEXT_BYTES_MAX {
            shown.push('…');
        }
        MalformedLine { log: log.to_owned(), line, reason, message: reason.to_string(), text: shown }
    }
}

/// Counters on the fast path; maps are built only at the end.
pub(super) struct Tally {
    statuses: Vec<u64>,
    methods: [u64; METHODS.len() + 1],
    bytes_sent: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { statuses: vec![0; 1000], methods: [0; METHODS.len() + 1], bytes_sent: 0 }
    }
}

impl Tally {
    pub fn count(&mut self, entry: &Judged) {
        self.statuses[usize::from(entry.status)] += 1;
        self.methods[usize::from(entry.method)] += 1;
        self.bytes_sent = self.bytes_sent.saturating_add(entry.size_bytes.unwrap_or(0));
    }

    /// Writes the counts into the report; returns how many entries were counted.
    pub fn fill(&self, report: &mut ImportReport) -> u64 {
        for (status, &count) in self.statuses.iter().enumerate().filter(|(_, count)| **count > 0) {
            report.requests_by_status.insert(status as u16, count);
            *report.requests_by_status_class.entry(format!("{}xx", status / 100)).or_default() += count;
        }
        let names = METHODS.iter().copied().chain(["other"]);
        report.requests_by_method = names.zip(self.methods).filter(|(_, count)| *count > 0).collect();
        report.bytes_sent = self.bytes_sent;
        self.methods.iter().sum()
    }
}
