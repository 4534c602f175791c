//! A large body on its way, a turn at a time: the whole, or parts with something to say before each.

use std::sync::Arc;

use sojourn_cache_store::{Extent, Object};
use sojourn_content::{CHUNK_BYTES, Document, FileRange};
use sojourn_http::range::ByteRange;

use crate::access_log::{AccessLog, OpenLine};

/// What a response from the page cache sends first before others have their turn. Each turn is twice as long as
/// the last: the first bytes come soon from a slow disk, and the many bytes of a large file in few calls.
const FIRST_TURN_BYTES: u64 = 512 * 1024;

/// No turn is longer: about a tenth of a millisecond of copying.
const TURN_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Longer responses are corked. Bytes that do not fill a segment would leave at the client's next acknowledgement,
/// so that half the segments are small; below this there is one segment (on loopback) or hardly an acknowledgement
/// before the end, and corking is two system calls for nothing.
const CORKED_BYTES_MIN: u64 = 64 * 1024;

/// A document, or what a proxy has stored in memory, and how much of it is sent.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    /// What comes next of the part that is on its way.
    offset: u64,
    /// The end of that part.
    end: u64,
    turn_bytes: u64,
    from_memory: bool,
    /// What follows it, last first.
    rest: Vec<Part>,
    is_corked: bool,
    body_bytes_sent: u64,
    line: Option<OpenLine>,
}

/// Whose bytes they are.
#[derive(Debug)]
enum Source {
    Document(Arc<Document>),
    Stored(Arc<Object>),
}

/// What is sent next.
#[derive(Debug)]
pub enum Turn {
    /// Of a document.
    File(FileRange),
    /// Of what is stored in memory.
    Stored(Extent),
}

/// Part of a multipart body.
#[derive(Debug)]
pub struct Part {
    /// Sent before the range.
    pub preamble: Vec<u8>,
    /// The range; the last part has none.
    pub range: Option<ByteRange>,
}

/// What follows a turn that is sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Another turn.
    Turn,
    /// These bytes, then another turn.
    Part(Vec<u8>),
    /// These bytes, and no more.
    Ending(Vec<u8>),
    /// Nothing: it is complete.
    Nothing,
}

impl Stream {
    /// The whole document, chunk by chunk from memory or from the page cache; `line` is logged when it ends.
    pub fn new(document: Arc<Document>, from_memory: bool, line: Option<OpenLine>) -> Stream {
        let turn_bytes = if from_memory { CHUNK_BYTES } else { FIRST_TURN_BYTES };
        let end = document.size;
        Stream { turn_bytes, from_memory, end, ..Stream::of(Source::Document(document), line) }
    }

    /// One range of the document, from the page cache: a part of a chunk is not worth keeping in memory.
    pub fn range(document: Arc<Document>, range: ByteRange, line: Option<OpenLine>) -> Stream {
        Stream { offset: range.first, end: range.last + 1, ..Stream::new(document, false, line) }
    }

    /// Several ranges, of which the first has been announced already, its preamble of `announced` bytes included.
    pub fn parts(
        document: Arc<Document>,
        first: ByteRange,
        rest: Vec<Part>,
        announced: usize,
        line: Option<OpenLine>,
    ) -> Stream {
        Stream::range(document, first, line).followed_by(rest, announced)
    }

    /// A range of what a proxy has stored in memory, or of several the first, as above.
    pub fn stored(
        object: &Arc<Object>,
        first: ByteRange,
        rest: Vec<Part>,
        announced: usize,
        line: Option<OpenLine>,
    ) -> Stream {
        let (offset, end) = (first.first, first.last + 1);
        let stream = Stream::of(Source::Stored(Arc::clone(object)), line);
        Stream { offset, end, turn_bytes: TURN_BYTES_MAX, ..stream }.followed_by(rest, announced)
    }

    fn of(source: Source, line: Option<OpenLine>) -> Stream {
        Stream {
            source,
            offset: 0,
            end: 0,
            turn_bytes: FIRST_TURN_BYTES,
            from_memory: false,
            rest: Vec::new(),
            is_corked: false,
            body_bytes_sent: 0,
            line,
        }
    }

    fn followed_by(self, mut rest: Vec<Part>, announced: usize) -> Stream {
        rest.reverse();
        Stream { rest, body_bytes_sent: announced as u64, ..self }
    }

    /// What comes next.
    pub fn turn(&self) -> Turn {
        let length = (self.end - self.offset).min(self.turn_bytes);
        match &self.source {
            Source::Document(document) => Turn::File(FileRange {
                document: Arc::clone(document),
                offset: self.offset,
                length: length as usize,
                into_memory: self.from_memory,
            }),
            Source::Stored(object) => {
                let extent = Extent::new(object, self.offset, self.offset + length);
                Turn::Stored(extent.expect("its body is in memory"))
            }
        }
    }

    /// Whether the response ends with the next output.
    pub fn is_ending(&self) -> bool {
        self.end - self.offset <= self.turn_bytes && self.rest.is_empty()
    }

    /// Whether the next output is to cork the socket before, and to uncork it afterwards; `closes` tells whether
    /// only closing follows it.
    pub fn cork(&mut self, closes: bool) -> (bool, bool) {
        // Head and body leave memory in one call, so that nothing is left over before the end; not so from a file.
        let is_in_one_call = matches!(&self.source, Source::Stored(object) if object.file().is_none());
        let is_gathered = is_in_one_call && self.is_ending();
        let corks = !self.is_corked && !is_gathered && (closes || self.end - self.offset > CORKED_BYTES_MIN);
        self.is_corked |= corks;
        (corks, self.is_corked && self.is_ending() && !closes)
    }

    /// A turn of `length` bytes is sent.
    pub fn sent(&mut self, length: usize) -> Next {
        self.offset += length as u64;
        self.body_bytes_sent += length as u64;
        if self.offset < self.end {
            if !self.from_memory {
                self.turn_bytes = (2 * self.turn_bytes).min(TURN_BYTES_MAX);
            }
            return Next::Turn;
        }
        let Some(Part { preamble, range }) = self.rest.pop() else { return Next::Nothing };
        self.body_bytes_sent += preamble.len() as u64;
        match range {
            Some(range) => {
                (self.offset, self.end) = (range.first, range.last + 1);
                Next::Part(preamble)
            }
            None => Next::Ending(preamble),
        }
    }

    /// Logs it, as far as it came.
    pub fn finish(&self, log: Option<&AccessLog>) {
        if let (Some(log), Some(line)) = (log, &self.line) {
            log.finish(line, self.body_bytes_sent);
        }
    }
}
