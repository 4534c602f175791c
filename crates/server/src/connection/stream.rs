//! A large body on its way, a turn at a time.

use std::sync::Arc;

use sojourn_content::{Document, FileRange};

use crate::log::{AccessLog, OpenLine};

/// What a large response sends before others have their turn.
pub const TURN_BYTES: usize = 512 * 1024;

/// A document, and how much of it is sent.
#[derive(Debug)]
pub struct Stream {
    document: Arc<Document>,
    offset: u64,
    line: Option<OpenLine>,
}

impl Stream {
    /// The whole document; `line` is logged when it ends.
    pub fn new(document: Arc<Document>, line: Option<OpenLine>) -> Stream {
        Stream { document, offset: 0, line }
    }

    /// What comes next.
    pub fn turn(&self) -> FileRange {
        let length = (self.document.size - self.offset).min(TURN_BYTES as u64) as usize;
        FileRange { document: Arc::clone(&self.document), offset: self.offset, length }
    }

    /// `range` is sent; returns whether that was the last.
    pub fn sent(&mut self, range: &FileRange) -> bool {
        self.offset = range.offset + range.length as u64;
        self.offset >= self.document.size
    }

    /// Logs it, as far as it came.
    pub fn finish(&self, log: Option<&AccessLog>) {
        if let (Some(log), Some(line)) = (log, &self.line) {
            log.finish(line, self.offset);
        }
    }
}
