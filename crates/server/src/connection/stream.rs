//! A large body on its way, a turn at a time.

use std::sync::Arc;

use sojourn_content::{CHUNK_BYTES, Document, FileRange};

use crate::log::{AccessLog, OpenLine};

/// What a response from the page cache sends before others have their turn.
const TURN_BYTES: u64 = 512 * 1024;

/// A document, and how much of it is sent.
#[derive(Debug)]
pub struct Stream {
    document: Arc<Document>,
    offset: u64,
    from_memory: bool,
    line: Option<OpenLine>,
}

impl Stream {
    /// The whole document, chunk by chunk from memory or from the page cache; `line` is logged when it ends.
    pub fn new(document: Arc<Document>, from_memory: bool, line: Option<OpenLine>) -> Stream {
        Stream { document, offset: 0, from_memory, line }
    }

    /// What comes next.
    pub fn turn(&self) -> FileRange {
        let most = if self.from_memory { CHUNK_BYTES } else { TURN_BYTES };
        let length = (self.document.size - self.offset).min(most) as usize;
        let document = Arc::clone(&self.document);
        FileRange { document, offset: self.offset, length, into_memory: self.from_memory }
    }

    /// A turn of `length` bytes is sent; returns whether that was the last.
    pub fn sent(&mut self, length: usize) -> bool {
        self.offset += length as u64;
        self.offset >= self.document.size
    }

    /// Logs it, as far as it came.
    pub fn finish(&self, log: Option<&AccessLog>) {
        if let (Some(log), Some(line)) = (log, &self.line) {
            log.finish(line, self.offset);
        }
    }
}
