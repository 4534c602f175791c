//! Converts judged entries into rows of sixteen bytes, and counts them.
//!
//! The name, size and status of a document, and the address of a client, are stored once however often they occur.

use crate::limits::{DOCUMENTS_MAX, NAMES_MAX, REQUESTS_MAX};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::class::Class;
use super::coverage::{ByName, Counter};
use super::durations::Durations;
use super::dynamic_paths::{Behaviour, Sizes};
use super::entry::Malformed;
use super::error::ImportError;
use super::format::Format;
use super::interner::Interner;
use super::judged::{EntryTexts, Judged, Line, Logged, Name};
use super::logs::Opened;
use super::parsed_block::{NameNumbers, ParsedBlock, Seen};
use super::policy::{Reason, Verdict, body_bytes};
use super::report::{ImportReport, LogReport, MalformedLine, Tally};
use super::time::NS_PER_SECOND;
use super::{Options, names};
use crate::sessions::Row;
use crate::sorting::{Sorter, Spill};

mod collected;

pub use collected::{Collected, Documents, Rows};

/// Marks a row whose `document` is still a name, because it came before the name's first size. All marks lie above the
/// document numbers.
const BY_NAME: u32 = 1 << 31;

/// Marks a row that counts as not covered, whatever its document turns out to be.
const UNCOVERED: u32 = 1 << 30;

/// Marks a row without a size of its own.
const SIZELESS: u32 = 1 << 29;

/// Stands for no document yet.
const NONE: u32 = u32::MAX;

/// What the collector knows of one name.
#[derive(Clone, Copy)]
struct Known {
    first: u32,
    last: u32,
    /// Sizes of its covered requests.
    behaviour: Behaviour,
    /// The number of covered requests without a size of their own.
    by_name: u32,
}

const UNKNOWN: Known = Known { first: NONE, last: NONE, behaviour: Behaviour::NEW, by_name: 0 };

/// A document as the collector stores it.
#[derive(Clone, Copy)]
struct Stored {
    size_bytes: u64,
    name: u32,
    /// The number of successful covered requests for it.
    covered: u32,
    status: u16,
}

impl Stored {
    fn key(&self) -> (u32, u64, u16) {
        (self.name, self.size_bytes, self.status)
    }
}

/// The most clients remembered that posted a form and were redirected.
const POSTED_MAX: usize = 1 << 16;

/// A browser follows a redirect within this time.
const FOLLOWS_NS: i64 = 5 * NS_PER_SECOND;

/// The status of a successful response.
const OK: u16 = 200;

pub struct Collector<'o> {
    pub report: ImportReport,
    options: &'o Options,
    log: LogReport,
    /// The latest time in its lines so far.
    latest_ns: i64,
    /// The finest resolution of its timestamps so far.
    resolution_ns: Option<i64>,
    tally: Tally,
    clients: Interner,
    names: Interner,
    known: Vec<Known>,
    documents: Vec<Stored>,
    document_table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    rows: Sorter<Row>,
    coverage: Counter,
    durations: Durations,
    /// Clients (by hash) that were redirected after a POST, and when.
    posted: HashMap<u64, i64>,
    /// The first and last times over all logs.
    window_ns: Option<(i64, i64)>,
    /// Target and host of the current line.
    name: Vec<u8>,
    /// Its method and target.
    target: Vec<u8>,
}

impl<'o> Collector<'o> {
    pub fn new(options: &'o Options) -> Self {
        Collector {
            report: ImportReport::default(),
            options,
            log: LogReport::default(),
            latest_ns: i64::MIN,
            resolution_ns: None,
            tally: Tally::default(),
            clients: Interner::default(),
            names: Interner::default(),
            known: Vec::new(),
            documents: Vec::new(),
            document_table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            rows: Sorter::new(options.parsers),
            coverage: Counter::default(),
            durations: Durations::new(options.parsers),
            posted: HashMap::new(),
            window_ns: None,
            name: Vec::new(),
            target: Vec::new(),
        }
    }

    /// Starts a log: records its name and format before its lines arrive.
    pub fn begin(&mut self, name: String, opened: &Opened<'_>) {
        self.end();
        let Opened { compression, format, format_detected, .. } = opened;
        self.log = LogReport {
            name,
            compression: *compression,
            format: format.name().to_owned(),
            format_detected: *format_detected,
            ..LogReport::default()
        };
        self.latest_ns = i64::MIN;
        if self.report.format.is_empty() {
            self.report.compression = *compression;
            self.report.format = self.log.format.clone();
            self.report.format_detected = *format_detected;
        }
    }

    fn end(&mut self) {
        // Some programs leave out zeros at the end of a timestamp, so the finest one tells what the others mean.
        if let Some(resolution_ns) = self.resolution_ns.take() {
            self.report.time_resolution_ns = self.report.time_resolution_ns.max(resolution_ns);
        }
        if !self.log.name.is_empty() {
            self.report.logs.push(std::mem::take(&mut self.log));
        }
    }

    /// Processes a parsed block; `seen` has what its parser has told before.
    pub fn block(
        &mut self,
        block: &ParsedBlock,
        seen: &mut Seen,
        spill: &mut Option<Spill<'_>>,
    ) -> Result<(), ImportError> {
        self.report.bytes += block.bytes;
        seen.hear(block, &self.clients, &self.names);
        seen.replay(block, |line, client, name| self.line(line, client, name, spill))
    }

    /// Processes a line whose texts have not been looked up.
    pub fn single_line(
        &mut self,
        line: Line<'_, impl EntryTexts>,
        spill: &mut Option<Spill<'_>>,
    ) -> Result<(), ImportError> {
        self.line(line, &mut None, &mut NameNumbers::default(), spill)
    }

    /// The lines so far of the log at hand.
    pub fn log_lines(&self) -> u64 {
        self.log.lines
    }

    /// Processes a line; adds to `client` and `name` what it looks up.
    fn line(
        &mut self,
        line: Line<'_, impl EntryTexts>,
        client: &mut Option<u32>,
        name: &mut NameNumbers,
        spill: &mut Option<Spill<'_>>,
    ) -> Result<(), ImportError> {
        self.report.lines += 1;
        self.log.lines += 1;
        match line {
            Line::Entry(judged, texts) => return self.entry(judged, &texts, client, name, spill),
            Line::NotSelected(logged) => {
                self.note_time(logged);
                self.report.not_selected += 1;
            }
            Line::Directive => self.report.directives += 1,
            Line::Malformed(reason, text) => self.malformed(text, reason),
        }
        Ok(())
    }

    fn malformed(&mut self, text: &[u8], reason: Malformed) {
        self.report.malformed += 1;
        self.log.malformed += 1;
        *self.report.malformed_by_reason.entry(reason).or_default() += 1;
        if self.report.malformed_examples.len() < super::MALFORMED_SHOWN_MAX {
            self.report.malformed_examples.push(MalformedLine::new(
                &self.log.name,
                self.log.lines,
                text,
                reason,
            ));
        }
    }

    fn entry(
        &mut self,
        entry: &Judged,
        texts: &impl EntryTexts,
        client: &mut Option<u32>,
        name: &mut NameNumbers,
        spill: &mut Option<Spill<'_>>,
    ) -> Result<(), ImportError> {
        self.note_time(entry.logged);
        self.report.assumed_size_requests += u64::from(entry.size_is_assumed);
        self.tally.count(entry);
        if let Some(class) = entry.class {
            self.coverage.count(class, entry, texts, &mut name.path);
            self.durations
                .count(entry, texts, &mut self.coverage, &mut name.path, spill)
                .map_err(ImportError::Scratch)?;
        }
        let follows_form = self.follows_form(entry, texts);
        let is_covered = entry.class == Some(Class::Covered);
        if let Verdict::Skip(reason) = entry.verdict {
            self.skip(reason);
            return Ok(());
        }
        let client = match *client {
            Some(client) => client,
            None => {
                let found = self.clients.number(texts.client());
                *client.insert(found.ok_or_else(|| self.too_many("clients", NAMES_MAX))?)
            }
        };
        let document = match entry.verdict {
            Verdict::Skip(_) => unreachable!("skipped above"),
            Verdict::Sized => {
                let size_bytes = body_bytes(entry.status, entry.size_bytes).unwrap_or(0);
                let (document, before) = self.document(texts, &mut name.name, size_bytes, OK)?;
                if is_covered {
                    let stored = &mut self.documents[document as usize];
                    stored.covered = stored.covered.saturating_add(1);
                    let changed = !matches!(before, NONE) && before != document;
                    self.known[stored.name as usize].behaviour.answer(client, changed, follows_form);
                }
                document
            }
            Verdict::Failed => {
                self.report.failed_requests += 1;
                self.document(texts, &mut name.name, 0, entry.status)?.0
            }
            Verdict::ByName => {
                self.report.by_name_requests += 1;
                let name = self.name(texts, &mut name.name)?;
                let known = &mut self.known[name as usize];
                known.by_name += u32::from(is_covered);
                match known.last {
                    NONE => SIZELESS | BY_NAME | name,
                    last => SIZELESS | last,
                }
            }
        };
        let document = if is_covered { document } else { document | UNCOVERED };
        if self.rows.count() == REQUESTS_MAX as u64 {
            return Err(self.too_many("requests", REQUESTS_MAX));
        }
        self.report.with_duration += u64::from(entry.duration_ns.is_some());
        let finest_ns = self.resolution_ns.unwrap_or(i64::MAX);
        self.resolution_ns = Some(entry.resolution_ns.min(finest_ns));
        let row = Row { time_ns: entry.unix_ns, client, document };
        self.rows.push(row, spill).map_err(ImportError::Scratch)
    }

    fn note_time(&mut self, logged: Logged) {
        let now_ns = logged.unix_ns;
        let Some((first_ns, last_ns)) = &mut self.window_ns else {
            self.report.utc_offset_seconds = logged.utc_offset_seconds;
            self.window_ns = Some((now_ns, now_ns));
            self.latest_ns = now_ns;
            return;
        };
        (*first_ns, *last_ns) = (now_ns.min(*first_ns), now_ns.max(*last_ns));
        if now_ns < self.latest_ns {
            self.report.out_of_order_lines += 1;
            let jump_seconds = (self.latest_ns - now_ns) as u64 / NS_PER_SECOND as u64;
            let largest = &mut self.report.largest_backward_jump_seconds;
            *largest = jump_seconds.max(*largest);
        }
        self.latest_ns = now_ns.max(self.latest_ns);
    }

    /// Returns true for a request that follows the redirect of a submitted form; remembers submitted forms.
    fn follows_form(&mut self, entry: &Judged, texts: &impl EntryTexts) -> bool {
        if !entry.redirects_form && self.posted.is_empty() {
            return false; // by far the most common
        }
        let client = self.hasher.hash_one(texts.client());
        let now_ns = entry.logged.unix_ns;
        if entry.redirects_form {
            if self.posted.len() == POSTED_MAX {
                self.posted.retain(|_, posted_ns| now_ns - *posted_ns <= FOLLOWS_NS);
            }
            if self.posted.len() < POSTED_MAX {
                self.posted.insert(client, now_ns);
            }
            return false;
        }
        self.posted.remove(&client).is_some_and(|posted_ns| (0..=FOLLOWS_NS).contains(&(now_ns - posted_ns)))
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

    /// The number of the entry's method, target and host together.
    fn name(&mut self, texts: &impl EntryTexts, number: &mut Option<u32>) -> Result<u32, ImportError> {
        if let Some(name) = *number {
            return Ok(name);
        }
        let Name { method, target, host } = texts.name();
        let target = match method {
            [] => target, // by far the most common
            method => names::with_method(&mut self.target, method, target),
        };
        let key = if host.is_empty() { target } else { names::join(&mut self.name, target, host) };
        let Some(name) = self.names.number(key) else {
            return Err(self.too_many("document names", NAMES_MAX));
        };
        if name as usize == self.known.len() {
            self.known.push(UNKNOWN);
        }
        *number = Some(name);
        Ok(name)
    }

    /// The document of an entry, and the previous document of its name.
    fn document(
        &mut self,
        texts: &impl EntryTexts,
        number: &mut Option<u32>,
        size_bytes: u64,
        status: u16,
    ) -> Result<(u32, u32), ImportError> {
        let name = self.name(texts, number)?;
        let last = self.known[name as usize].last;
        let key = (name, size_bytes, status);
        if last != NONE && self.documents[last as usize].key() == key {
            return Ok((last, last)); // by far the most common
        }
        let hash = self.hasher.hash_one(key);
        let found =
            self.document_table.find(hash, |&document| self.documents[document as usize].key() == key);
        let document = match found {
            Some(&document) => document,
            None if self.documents.len() == DOCUMENTS_MAX => {
                return Err(self.too_many("documents", DOCUMENTS_MAX));
            }
            None => {
                let document = self.documents.len() as u32;
                self.documents.push(Stored { size_bytes, name, covered: 0, status });
                let (hasher, documents) = (&self.hasher, &self.documents);
                let rehash = |&document: &u32| hasher.hash_one(documents[document as usize].key());
                self.document_table.insert_unique(hash, document, rehash);
                document
            }
        };
        if status == OK {
            let known = &mut self.known[name as usize];
            known.first = if known.first == NONE { document } else { known.first };
            known.last = document;
        }
        Ok((document, last))
    }

    fn too_many(&self, what: &'static str, limit: usize) -> ImportError {
        ImportError::TooMany { what, limit, line: self.log.lines }
    }

    /// Finishes the rows. Requests are counted later, because names that never get a size are not known yet.
    pub fn finish(mut self, spill: &mut Option<Spill<'_>>) -> Result<Collected, ImportError> {
        self.end();
        let entries = self.tally.fill(&mut self.report);
        let mut report = self.report;
        if report.lines == 0 {
            let files = report.not_logs;
            return Err(if files.is_empty() { ImportError::Empty } else { ImportError::NoLogs { files } });
        }
        if entries == 0 {
            return Err(nothing(report, self.options.format.as_ref(), self.window_ns));
        }
        report.clients = self.clients.len() as u64;
        report.documents = self.documents.len() as u64;
        let times = self.durations.finish(&self.coverage, spill).map_err(ImportError::Scratch)?;
        let rows = self.rows.finish(spill).map_err(ImportError::Scratch)?.records();
        let classes = dynamic_names(&self.known, &self.documents);
        let by_name = by_name(&self.known, &self.documents, &self.names, &classes);
        let class_of = |(number, document): (usize, &Stored)| {
            classes.get(&document.name).map(|&class| (number as u32, (class, document.size_bytes)))
        };
        let dynamic = self.documents.iter().enumerate().filter_map(class_of).collect();
        let rows = Rows { rows, known: self.known, unknown: 0, dynamic, coverage: self.coverage };
        let documents = Documents { documents: self.documents, names: self.names };
        Ok(Collected { documents, rows, by_name, report, entries, times })
    }
}

/// Finds the dynamic names and their classes.
fn dynamic_names(known: &[Known], documents: &[Stored]) -> HashMap<u32, Class> {
    let mut sizes: HashMap<u32, Sizes> = HashMap::new();
    for document in documents.iter().filter(|document| document.covered > 0) {
        if known[document.name as usize].behaviour.may_be_dynamic() {
            sizes.entry(document.name).or_default().add(document.size_bytes, document.covered);
        }
    }
    let class = |(name, sizes): (u32, Sizes)| Some((name, known[name as usize].behaviour.class(&sizes)?));
    sizes.into_iter().filter_map(class).collect()
}

/// The covered requests of names that are dynamic or never got a size.
fn by_name(
    known: &[Known],
    documents: &[Stored],
    names: &Interner,
    classes: &HashMap<u32, Class>,
) -> Vec<ByName> {
    let mut bytes: HashMap<u32, u64> = HashMap::new();
    for document in documents.iter().filter(|document| classes.contains_key(&document.name)) {
        let sum = bytes.entry(document.name).or_default();
        *sum = document.size_bytes.saturating_mul(document.covered.into()).saturating_add(*sum);
    }
    let found = |(number, known): (usize, &Known)| {
        let number = number as u32;
        let is_unknown = known.first == NONE && known.by_name > 0;
        let class = if is_unknown { Some(&Class::OfUnknownSize) } else { classes.get(&number) };
        Some(ByName {
            name: names.name(number).to_vec(),
            class: *class?,
            requests: u64::from(known.behaviour.sized) + u64::from(known.by_name),
            bytes: bytes.get(&number).copied().unwrap_or(0),
        })
    };
    known.iter().enumerate().filter_map(found).collect()
}

/// The error for a log without a usable entry.
fn nothing(report: ImportReport, format: Option<&Format>, window_ns: Option<(i64, i64)>) -> ImportError {
    if let Some(window_ns) = window_ns {
        return ImportError::nothing_selected(report.not_selected, window_ns, report.utc_offset_seconds);
    }
    let format = format.map(|format| format.name().to_owned());
    match report.malformed_examples.into_iter().next() {
        Some(first) => ImportError::NotALog { lines: report.lines, format, first },
        None => ImportError::Empty, // directives and nothing else
    }
}
