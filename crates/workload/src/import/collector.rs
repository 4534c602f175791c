//! Turns entries into rows of numbers, sixteen bytes each, and counts everything on the way.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::clf::{self, Entry, Malformed};
use super::compression::Compression;
use super::error::ImportError;
use super::interner::{Interner, NAMES_MAX};
use super::policy::{Reason, Verdict, judge};
use super::report::{ImportReport, MalformedLine, Tally};
use crate::sessions::Row;
use crate::trace::Document;

/// The most requests of a trace: 256 Mi, which take 8 GiB while they are grouped.
pub const REQUESTS_MAX: usize = 1 << 28;

/// The most documents, distinct in name or in size.
pub const DOCUMENTS_MAX: usize = NAMES_MAX;

/// Marks a row whose `document` is still a name: it came before the name's first size. Above all numbers.
const BY_NAME: u32 = 1 << 31;

/// Stands for no document yet.
const NONE: u32 = u32::MAX;

/// The documents of one name, by its number.
#[derive(Clone, Copy)]
struct Known {
    first: u32,
    last: u32,
}

/// Everything an import accumulates.
pub struct Collector {
    pub report: ImportReport,
    tally: Tally,
    clients: Interner,
    names: Interner,
    known: Vec<Known>,
    /// Name and size of each document.
    documents: Vec<(u32, u64)>,
    document_table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    rows: Vec<Row>,
    latest_unix_seconds: i64,
}

impl Collector {
    pub fn new(compression: Compression) -> Self {
        Collector {
            report: ImportReport { compression, ..ImportReport::default() },
            tally: Tally::default(),
            clients: Interner::default(),
            names: Interner::default(),
            known: Vec::new(),
            documents: Vec::new(),
            document_table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            rows: Vec::new(),
            latest_unix_seconds: i64::MIN,
        }
    }

    /// Takes a line that had `bytes` with its end.
    pub fn line(&mut self, bytes: u64, text: &[u8]) -> Result<(), ImportError> {
        self.report.lines += 1;
        self.report.bytes += bytes;
        match clf::parse(text) {
            Ok(entry) => self.entry(&entry),
            Err(reason) => {
                self.malformed(text, reason);
                Ok(())
            }
        }
    }

    fn malformed(&mut self, text: &[u8], reason: Malformed) {
        self.report.malformed += 1;
        if self.report.malformed_examples.len() < super::MALFORMED_SHOWN_MAX {
            self.report.malformed_examples.push(MalformedLine::new(self.report.lines, text, reason));
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<(), ImportError> {
        self.note_time(entry);
        self.tally.count(entry);
        let document = match judge(entry) {
            Verdict::Skip(reason) => {
                self.skip(reason);
                return Ok(());
            }
            Verdict::Sized(size_bytes) => self.document(entry.target, size_bytes)?,
            Verdict::ByName => {
                self.report.by_name_requests += 1;
                let name = self.name(entry.target)?;
                match self.known[name as usize].last {
                    NONE => BY_NAME | name,
                    last => last,
                }
            }
        };
        let client = self.clients.number(entry.client).ok_or_else(|| self.too_many("clients", NAMES_MAX))?;
        if self.rows.len() == REQUESTS_MAX {
            return Err(self.too_many("requests", REQUESTS_MAX));
        }
        self.rows.push(Row { time: entry.unix_seconds, client, document });
        Ok(())
    }

    fn note_time(&mut self, entry: &Entry<'_>) {
        if self.latest_unix_seconds == i64::MIN {
            self.report.utc_offset_seconds = entry.utc_offset_seconds;
        } else if entry.unix_seconds < self.latest_unix_seconds {
            self.report.out_of_order_lines += 1;
            let jump = (self.latest_unix_seconds - entry.unix_seconds) as u64;
            self.report.largest_backward_jump_seconds = self.report.largest_backward_jump_seconds.max(jump);
        }
        self.latest_unix_seconds = self.latest_unix_seconds.max(entry.unix_seconds);
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

    fn name(&mut self, target: &[u8]) -> Result<u32, ImportError> {
        let name = self.names.number(target).ok_or_else(|| self.too_many("document names", NAMES_MAX))?;
        if name as usize == self.known.len() {
            self.known.push(Known { first: NONE, last: NONE });
        }
        Ok(name)
    }

    fn document(&mut self, target: &[u8], size_bytes: u64) -> Result<u32, ImportError> {
        let name = self.name(target)?;
        let known = self.known[name as usize];
        if known.last != NONE && self.documents[known.last as usize].1 == size_bytes {
            return Ok(known.last); // by far the most common
        }
        let key = (name, size_bytes);
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
        let first = if known.first == NONE { document } else { known.first };
        self.known[name as usize] = Known { first, last: document };
        Ok(document)
    }

    fn too_many(&self, what: &'static str, limit: usize) -> ImportError {
        ImportError::TooMany { what, limit, line: self.report.lines }
    }

    /// Documents, rows in the order of the log, and the report, complete but for its sessions.
    pub fn finish(mut self) -> Result<(Vec<Document>, Vec<Row>, ImportReport), ImportError> {
        let entries = self.tally.fill(&mut self.report);
        self.resolve_names();
        let mut report = self.report;
        if report.lines == 0 {
            return Err(ImportError::Empty);
        }
        if entries == 0 {
            let first = report.malformed_examples.swap_remove(0);
            return Err(ImportError::NotALog { lines: report.lines, first });
        }
        if self.rows.is_empty() {
            return Err(ImportError::NoStaticRequest { requests: entries, skipped: report.skipped });
        }
        report.clients = self.clients.len() as u64;
        report.documents = self.documents.len() as u64;
        report.requests = self.rows.len() as u64;
        report.warn();
        let spelled = |name| String::from_utf8_lossy(self.names.name(name)).into_owned();
        let document = |(name, size_bytes)| Document { name: spelled(name), size_bytes };
        let documents = self.documents.iter().copied().map(document).collect();
        Ok((documents, self.rows, report))
    }

    /// Gives requests that came before their name's first size that document, drops those without one.
    fn resolve_names(&mut self) {
        let before = self.rows.len();
        let known = &self.known;
        self.rows.retain_mut(|row| {
            if row.document & BY_NAME != 0 {
                row.document = known[(row.document & !BY_NAME) as usize].first;
            }
            row.document != NONE
        });
        let dropped = (before - self.rows.len()) as u64;
        self.report.by_name_requests -= dropped;
        self.report.skipped.of_unknown_size = dropped;
    }
}
