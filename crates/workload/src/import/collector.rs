//! Turns entries into rows of sixteen bytes, and counts everything on the way.
//!
//! The name, size and status of a document, and the address of a client, are kept once however often they occur.

use crate::limits::{DOCUMENTS_MAX, NAMES_MAX, REQUESTS_MAX};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::compression::Compression;
use super::detect::detect;
use super::entry::{Entry, Malformed};
use super::error::ImportError;
use super::format::Format;
use super::interner::Interner;
use super::policy::{Reason, Verdict, judge};
use super::report::{DetectedBy, ImportReport, MalformedLine, Tally};
use super::time::{self, NS_PER_SECOND};
use super::{Options, names};
use crate::sessions::Row;
use crate::sorting::{Sorted, Sorter, Spill};
use crate::trace::Document;

/// Marks a row whose `document` is still a name, because it came before the name's first size. Above all document
/// numbers.
const BY_NAME: u32 = 1 << 31;

/// Stands for no document yet.
const NONE: u32 = u32::MAX;

/// The documents of one name, by its number.
#[derive(Clone, Copy)]
struct Known {
    first: u32,
    last: u32,
}

/// The status of a document that was got.
const OK: u16 = 200;

pub struct Collector<'o> {
    pub report: ImportReport,
    options: &'o Options,
    format: Format,
    tally: Tally,
    clients: Interner,
    names: Interner,
    known: Vec<Known>,
    /// Name, size and status of each document.
    documents: Vec<(u32, u64, u16)>,
    document_table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    rows: Sorter<Row>,
    /// The first and the latest moment of the log.
    window_ns: Option<(i64, i64)>,
    /// Target and host of the current line.
    name: Vec<u8>,
}

impl<'o> Collector<'o> {
    /// `sample` is the log's beginning, by which its format is found out where it is not given.
    pub fn new(compression: Compression, options: &'o Options, sample: &[u8]) -> Self {
        let (format, format_detected) = options.format.clone().map_or_else(
            || {
                let found = detect(sample);
                let by =
                    DetectedBy { sample_lines: found.sample_lines, sample_entries: found.sample_entries };
                (found.format, Some(by))
            },
            |format| (format, None),
        );
        let name = format.name().to_owned();
        Collector {
            report: ImportReport { compression, format: name, format_detected, ..ImportReport::default() },
            options,
            format,
            tally: Tally::default(),
            clients: Interner::default(),
            names: Interner::default(),
            known: Vec::new(),
            documents: Vec::new(),
            document_table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            rows: Sorter::default(),
            window_ns: None,
            name: Vec::new(),
        }
    }

    /// Takes a line that had `bytes` with its end.
    pub fn line(
        &mut self,
        bytes: u64,
        text: &[u8],
        spill: &mut Option<Spill<'_>>,
    ) -> Result<(), ImportError> {
        self.report.lines += 1;
        self.report.bytes += bytes;
        match self.format.read(text) {
            Ok(Some(entry)) => return self.entry(entry, spill),
            Ok(None) => self.report.directives += 1,
            Err(reason) => self.malformed(text, reason),
        }
        Ok(())
    }

    fn malformed(&mut self, text: &[u8], reason: Malformed) {
        self.report.malformed += 1;
        *self.report.malformed_by_reason.entry(reason).or_default() += 1;
        if self.report.malformed_examples.len() < super::MALFORMED_SHOWN_MAX {
            self.report.malformed_examples.push(MalformedLine::new(self.report.lines, text, reason));
        }
    }

    fn entry(&mut self, mut entry: Entry<'_>, spill: &mut Option<Spill<'_>>) -> Result<(), ImportError> {
        self.note_time(&entry);
        if !self.options.selection.takes(&entry) {
            self.report.not_selected += 1;
            return Ok(());
        }
        self.options.selection.rename(&mut entry);
        self.tally.count(&entry);
        let document = match judge(&entry, self.options.keep) {
            Verdict::Skip(reason) => {
                self.skip(reason);
                return Ok(());
            }
            Verdict::Sized(size_bytes) => self.document(&entry, size_bytes, OK)?,
            Verdict::Failed(status) => {
                self.report.failed_requests += 1;
                self.document(&entry, 0, status)?
            }
            Verdict::ByName => {
                self.report.by_name_requests += 1;
                let name = self.name(&entry)?;
                match self.known[name as usize].last {
                    NONE => BY_NAME | name,
                    last => last,
                }
            }
        };
        let client = self.clients.number(&entry.client).ok_or_else(|| self.too_many("clients", NAMES_MAX))?;
        if self.rows.count() == REQUESTS_MAX as u64 {
            return Err(self.too_many("requests", REQUESTS_MAX));
        }
        self.report.with_duration += u64::from(entry.duration_ns.is_some());
        self.report.time_resolution_ns = self.report.time_resolution_ns.max(entry.resolution_ns);
        let row = Row { time_ns: entry.unix_ns, client, document };
        self.rows.push(row, spill).map_err(ImportError::Scratch)
    }

    fn note_time(&mut self, entry: &Entry<'_>) {
        let now_ns = entry.logged_unix_ns;
        let Some((_, latest_ns)) = &mut self.window_ns else {
            self.report.utc_offset_seconds = entry.utc_offset_seconds;
            self.window_ns = Some((now_ns, now_ns));
            return;
        };
        if now_ns < *latest_ns {
            self.report.out_of_order_lines += 1;
            let jump_seconds = (*latest_ns - now_ns) as u64 / NS_PER_SECOND as u64;
            let largest = &mut self.report.largest_backward_jump_seconds;
            *largest = jump_seconds.max(*largest);
        }
        *latest_ns = now_ns.max(*latest_ns);
    }

    fn skip(&mut self, reason: Reason) {
        let skipped = &mut self.report.skipped;
        *match reason {
            Reason::WithoutTarget => &mut skipped.without_target,
            Reason::OtherMethod => &mut skipped.other_method,
            Reason::WithQuery => &mut skipped.with_query,
            Reason::Partial => &mut skipped.partial,
            Reason::Failed => &mut skipped.failed,
            Reason::WithoutSize => &mut skipped.without_size,
        } += 1;
    }

    /// The number of an entry's target and host together.
    fn name(&mut self, entry: &Entry<'_>) -> Result<u32, ImportError> {
        let key = if entry.host.is_empty() {
            &*entry.target // by far the most common
        } else {
            names::join(&mut self.name, &entry.target, &entry.host)
        };
        let Some(name) = self.names.number(key) else {
            return Err(self.too_many("document names", NAMES_MAX));
        };
        if name as usize == self.known.len() {
            self.known.push(Known { first: NONE, last: NONE });
        }
        Ok(name)
    }

    fn document(&mut self, entry: &Entry<'_>, size_bytes: u64, status: u16) -> Result<u32, ImportError> {
        let name = self.name(entry)?;
        let known = self.known[name as usize];
        let key = (name, size_bytes, status);
        if known.last != NONE && self.documents[known.last as usize] == key {
            return Ok(known.last); // by far the most common
        }
        let hash = self.hasher.hash_one(key);
        let found = self.document_table.find(hash, |&document| self.documents[document as usize] == key);
        let document = match found {
            Some(&document) => document,
            None if self.documents.len() == DOCUMENTS_MAX => {
                return Err(self.too_many("documents", DOCUMENTS_MAX));
            }
            None => {
                let document = self.documents.len() as u32;
                self.documents.push(key);
                let (hasher, documents) = (&self.hasher, &self.documents);
                let rehash = |&document: &u32| hasher.hash_one(documents[document as usize]);
                self.document_table.insert_unique(hash, document, rehash);
                document
            }
        };
        if status == OK {
            let first = if known.first == NONE { document } else { known.first };
            self.known[name as usize] = Known { first, last: document };
        }
        Ok(document)
    }

    fn too_many(&self, what: &'static str, limit: usize) -> ImportError {
        ImportError::TooMany { what, limit, line: self.report.lines }
    }

    /// The collected rows. Requests are counted later: names without any size are not known yet.
    pub fn finish(mut self, spill: &mut Option<Spill<'_>>) -> Result<Collected, ImportError> {
        let entries = self.tally.fill(&mut self.report);
        let mut report = self.report;
        if report.lines == 0 {
            return Err(ImportError::Empty);
        }
        if entries == 0 {
            return Err(nothing(report, self.options.format.as_ref(), self.window_ns));
        }
        report.clients = self.clients.len() as u64;
        report.documents = self.documents.len() as u64;
        let rows = self.rows.finish(spill).map_err(ImportError::Scratch)?;
        let rows = Rows { rows, known: self.known, unknown: 0 };
        let escapes = self.format.escapes();
        let documents = Documents { documents: self.documents, names: self.names, escapes };
        Ok(Collected { documents, rows, report, entries })
    }
}

pub struct Collected {
    pub documents: Documents,
    pub rows: Rows,
    pub report: ImportReport,
    /// All entries that were selected.
    pub entries: u64,
}

/// The distinct documents, as names' numbers.
pub struct Documents {
    documents: Vec<(u32, u64, u16)>,
    names: Interner,
    escapes: bool,
}

impl Documents {
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Document> {
        self.documents.iter().map(|&(name, size_bytes, status)| {
            let (target, host) = names::split(self.names.name(name));
            let host = String::from_utf8_lossy(host).into_owned();
            Document { name: names::spelled(target, self.escapes), host, size_bytes, status }
        })
    }
}

/// Rows by client and time. Requests that came before their name's first size get that document, those without
/// one are dropped.
pub struct Rows {
    rows: Sorted<Row>,
    known: Vec<Known>,
    pub unknown: u64,
}

impl Iterator for Rows {
    type Item = Result<Row, ImportError>;

    fn next(&mut self) -> Option<Result<Row, ImportError>> {
        loop {
            let mut row = match self.rows.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(ImportError::Scratch(error))),
            };
            if row.document & BY_NAME != 0 {
                row.document = self.known[(row.document & !BY_NAME) as usize].first;
            }
            if row.document != NONE {
                return Some(Ok(row));
            }
            self.unknown += 1;
        }
    }
}

/// The error for a log without a usable entry.
fn nothing(report: ImportReport, format: Option<&Format>, window_ns: Option<(i64, i64)>) -> ImportError {
    if let Some((first_ns, last_ns)) = window_ns {
        let offset_seconds = report.utc_offset_seconds;
        let written = |unix_ns| time::written(unix_ns, offset_seconds);
        let (first, last) = (written(first_ns), written(last_ns));
        return ImportError::NothingSelected { entries: report.not_selected, first, last };
    }
    let format = format.map(|format| format.name().to_owned());
    match report.malformed_examples.into_iter().next() {
        Some(first) => ImportError::NotALog { lines: report.lines, format, first },
        None => ImportError::Empty, // directives and nothing else
    }
}
