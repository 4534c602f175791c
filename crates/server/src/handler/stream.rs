//! Sends large bodies piece by piece: a document, or an object in a cache's memory, whole or as ranges (RFC 9110, 14
//! and 15.3.7).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use sojourn_cache_store::{Extent, Object};
use sojourn_content::{CHUNK_BYTES, Document, FileRange};
use sojourn_http::head;
use sojourn_http::range::ByteRange;
use sojourn_http_cache::fields::append_line;

use crate::connection::{BodyStep, BodyWriter, Piece};

/// The first piece that is sent from the page cache before other clients are served. Each piece is twice as long as the
/// one before: a slow disk delivers the first bytes soon, and large files need few calls.
const FIRST_PIECE_BYTES: u64 = 512 * 1024;

/// The largest piece: about a tenth of a millisecond of copying.
const PIECE_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// A document or a stored object, and how much of it has been sent.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    /// The next position in the current part.
    offset: u64,
    end: u64,
    piece_bytes_max: u64,
    /// The length of the piece being sent.
    piece_bytes: u64,
    from_memory: bool,
    /// The size of the chunks in which a remote document is read; 0 for what is read here.
    chunk_bytes: u64,
    /// A chunk that was read before the head was sent.
    loaded: Option<Loaded>,
    /// The remaining parts, last one first.
    rest: Vec<Part>,
}

/// Bytes of a document that have just been read: a small body, or a chunk.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub offset: u64,
    pub bytes: Arc<[u8]>,
}

#[derive(Debug)]
enum Source {
    Document(Arc<Document>),
    Stored(Arc<Object>),
}

/// A part of a multipart body.
#[derive(Debug)]
pub struct Part {
    pub preamble: Vec<u8>,
    /// Its range; `None` for the closing boundary.
    pub range: Option<ByteRange>,
}

#[derive(Debug)]
pub enum Next {
    File(FileRange),
    Stored(Extent),
    End,
}

impl Stream {
    /// The whole document, from memory chunk by chunk, or from the page cache.
    pub fn new(document: Arc<Document>, from_memory: bool) -> Stream {
        let chunk_bytes = if document.file().is_none() { document.chunk_bytes() } else { 0 };
        let piece_bytes_max = match (chunk_bytes, from_memory) {
            (0, false) => FIRST_PIECE_BYTES,
            (0, true) => CHUNK_BYTES,
            (chunk_bytes, _) => chunk_bytes,
        };
        let (end, from_memory) = (document.size, from_memory || chunk_bytes > 0);
        Stream { piece_bytes_max, from_memory, chunk_bytes, end, ..Stream::of(Source::Document(document)) }
    }

    /// Ranges of the document, the first of which has been announced. They are sent from the page cache, because parts
    /// of chunks are not worth caching.
    pub fn parts(document: Arc<Document>, first: ByteRange, rest: Vec<Part>) -> Stream {
        let (offset, end) = (first.first, first.last + 1);
        Stream { offset, end, ..Stream::new(document, false) }.followed_by(rest)
    }

    /// Ranges of an object in a proxy's memory.
    pub fn stored(object: &Arc<Object>, first: ByteRange, rest: Vec<Part>) -> Stream {
        let (offset, end) = (first.first, first.last + 1);
        let stream = Stream::of(Source::Stored(Arc::clone(object)));
        Stream { offset, end, piece_bytes_max: PIECE_BYTES_MAX, ..stream }.followed_by(rest)
    }

    fn of(source: Source) -> Stream {
        Stream {
            source,
            offset: 0,
            end: 0,
            piece_bytes_max: FIRST_PIECE_BYTES,
            piece_bytes: 0,
            from_memory: false,
            chunk_bytes: 0,
            loaded: None,
            rest: Vec::new(),
        }
    }

    /// The same, of which a chunk has been read.
    pub fn beginning_with(self, loaded: Option<Loaded>) -> Stream {
        Stream { loaded, ..self }
    }

    /// The chunk that was read before, if it begins at `offset`.
    pub fn take_loaded(&mut self, offset: u64) -> Option<Arc<[u8]>> {
        self.loaded.take().filter(|loaded| loaded.offset == offset).map(|loaded| loaded.bytes)
    }

    fn followed_by(self, mut rest: Vec<Part>) -> Stream {
        rest.reverse();
        Stream { rest, ..self }
    }

    /// Called when the last piece was sent: writes the next part's head, and returns the next piece.
    pub fn next(&mut self, body: &mut BodyWriter<'_>) -> Next {
        let is_first = self.piece_bytes == 0;
        self.offset += std::mem::take(&mut self.piece_bytes);
        if self.offset < self.end {
            if !is_first && !self.from_memory {
                self.piece_bytes_max = (2 * self.piece_bytes_max).min(PIECE_BYTES_MAX);
            }
            return self.piece();
        }
        let Some(Part { preamble, range }) = self.rest.pop() else { return Next::End };
        body.append(&preamble);
        let Some(range) = range else { return Next::End };
        (self.offset, self.end) = (range.first, range.last + 1);
        self.piece()
    }

    pub fn piece(&self) -> Next {
        let length = self.length();
        match &self.source {
            Source::Document(document) if self.chunk_bytes > 0 => {
                Next::File(FileRange::chunk(document, self.offset))
            }
            Source::Document(document) => Next::File(FileRange {
                document: Arc::clone(document),
                offset: self.offset,
                length: length as usize,
                into_memory: self.from_memory,
            }),
            Source::Stored(object) => {
                let extent = Extent::new(object, self.offset, self.offset + length);
                Next::Stored(extent.expect("its body is in memory"))
            }
        }
    }

    fn length(&self) -> u64 {
        // No remainder of zero: most streams are not in chunks.
        let in_chunk = if self.chunk_bytes > 0 { self.offset % self.chunk_bytes } else { 0 };
        (self.end - self.offset).min(self.piece_bytes_max - in_chunk)
    }

    /// Sends what is wanted of a chunk.
    pub fn send_chunk(&mut self, chunk: Arc<[u8]>) -> BodyStep {
        let in_chunk = if self.chunk_bytes > 0 { (self.offset % self.chunk_bytes) as usize } else { 0 };
        let length = self.length() as usize;
        let is_whole = in_chunk == 0 && length == chunk.len();
        self.send(if is_whole {
            Piece::Memory(chunk)
        } else {
            Piece::Part(chunk, in_chunk..in_chunk + length)
        })
    }

    pub fn send(&mut self, piece: Piece) -> BodyStep {
        let is_last = self.end - self.offset <= self.length() && self.rest.is_empty();
        // Head and body leave memory in one call, so nothing is left before the end, unlike from a file.
        let is_in_one_call = matches!(&self.source, Source::Stored(object) if object.file().is_none());
        let remaining = (!(is_in_one_call && is_last)).then_some(self.end - self.offset);
        self.piece_bytes = self.length();
        BodyStep::Send { piece: Some(piece), is_last, remaining }
    }
}

impl Part {
    /// All of a body of `length` bytes.
    pub fn whole(length: u64) -> Part {
        let range = length.checked_sub(1).map(|last| ByteRange { first: 0, last });
        Part { preamble: Vec::new(), range }
    }

    pub fn length(&self) -> u64 {
        self.preamble.len() as u64 + self.range.map_or(0, ByteRange::length)
    }
}

/// The body of a 206 with `ranges` of a representation of `size` bytes, and the boundary if there are several parts.
pub fn parts_of(media_type: Option<&[u8]>, size: u64, ranges: &[ByteRange]) -> (Vec<Part>, Option<String>) {
    if let [range] = ranges {
        return (vec![Part { preamble: Vec::new(), range: Some(*range) }], None);
    }
    // Unpredictable, so that no content can contain it.
    let boundary = format!("{:016x}", RandomState::new().hash_one(size));
    (multipart(media_type, size, ranges, &boundary), Some(boundary))
}

/// Appends the media type of a multipart body.
pub fn append_boundary(head: &mut Vec<u8>, boundary: &str) {
    head::field(head, "Content-Type", &format!("multipart/byteranges; boundary={boundary}"));
}

/// The parts of a multipart body; the last is the closing boundary (RFC 2046, 5.1.1).
fn multipart(media_type: Option<&[u8]>, size: u64, ranges: &[ByteRange], boundary: &str) -> Vec<Part> {
    let opening = |range: &ByteRange| {
        let mut preamble = format!("\r\n--{boundary}\r\n").into_bytes();
        media_type.iter().for_each(|media_type| append_line(&mut preamble, b"Content-Type", &[media_type]));
        head::content_range(&mut preamble, *range, size);
        head::end(&mut preamble);
        Part { preamble, range: Some(*range) }
    };
    let closing = Part { preamble: format!("\r\n--{boundary}--\r\n").into_bytes(), range: None };
    ranges.iter().map(opening).chain([closing]).collect()
}
