//! What the collector hands over: documents, and rows whose documents are resolved as they are read.

use hashbrown::HashMap;

use super::{BY_NAME, Interner, Known, NONE, SIZELESS, Stored, UNCOVERED};
use crate::import::class::Class;
use crate::import::coverage::{ByName, Counter, Coverage};
use crate::import::error::ImportError;
use crate::import::names;
use crate::import::report::ImportReport;
use crate::request_times::RequestTimes;
use crate::sessions::Row;
use crate::sorting::Records;
use crate::trace::Document;

pub struct Collected {
    pub documents: Documents,
    pub rows: Rows,
    /// The covered requests that turned out to belong to another class.
    pub by_name: Vec<ByName>,
    pub report: ImportReport,
    /// The number of selected entries.
    pub entries: u64,
    pub times: Option<RequestTimes>,
}

/// The distinct documents, with their names as numbers.
pub struct Documents {
    pub(super) documents: Vec<Stored>,
    pub(super) names: Interner,
}

impl Documents {
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Document> {
        self.documents.iter().map(|&Stored { name, size_bytes, status, .. }| {
            let (target, host) = names::split(self.names.name(name));
            let host = String::from_utf8_lossy(host).into_owned();
            Document { name: names::spelled(target), host, size_bytes, status }
        })
    }
}

/// Rows in order of client and time. Requests from before their name's first size get that document; requests whose
/// name never gets a size are dropped.
pub struct Rows {
    pub(super) rows: Records<Row>,
    pub(super) known: Vec<Known>,
    pub unknown: u64,
    /// Class and size of documents with dynamic names.
    pub(super) dynamic: HashMap<u32, (Class, u64)>,
    pub(super) coverage: Counter,
}

impl Rows {
    /// Coverage, after all rows have been read.
    pub fn into_coverage(self, by_name: &[ByName], utc_offset_seconds: i32) -> Coverage {
        self.coverage.finish(by_name, utc_offset_seconds)
    }
}

impl Iterator for Rows {
    type Item = Result<Row, ImportError>;

    fn next(&mut self) -> Option<Result<Row, ImportError>> {
        loop {
            let mut row = match self.rows.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(ImportError::Scratch(error))),
            };
            let marks = row.document & (BY_NAME | UNCOVERED | SIZELESS);
            row.document &= !(BY_NAME | UNCOVERED | SIZELESS);
            if marks & BY_NAME != 0 {
                row.document = self.known[row.document as usize].first;
            }
            let is_unknown = row.document == NONE;
            if marks & UNCOVERED == 0 {
                let class =
                    if is_unknown { Some((Class::OfUnknownSize, 0)) } else { self.class_of(row.document) };
                if let Some((class, size_bytes)) = class {
                    let bytes = if marks & SIZELESS == 0 { size_bytes } else { 0 };
                    self.coverage.reclassify(row.time_ns, class, bytes);
                }
            }
            if !is_unknown {
                return Some(Ok(row));
            }
            self.unknown += 1;
        }
    }
}

impl Rows {
    fn class_of(&self, document: u32) -> Option<(Class, u64)> {
        if self.dynamic.is_empty() { None } else { self.dynamic.get(&document).copied() }
    }
}
