//! Output: bytes, then possibly a body from memory or from a file.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytes::Bytes;
use sojourn_cache_store::Extent;
use sojourn_content::FileRange;

use super::{Pool, SharedBuffer};

/// Bytes to send: a head (or several whole responses), then possibly a body.
#[derive(Debug, Default)]
pub struct Output {
    pub bytes: Vec<u8>,
    pub body: Option<Piece>,
    /// How many bytes of both have been sent.
    pub sent: usize,
    /// True while the connection is being made: nothing is sent before it exists.
    pub awaits_connection: bool,
    /// Cork the socket first: until it is uncorked, only full segments are sent.
    pub corks: bool,
    pub uncorks: bool,
    /// From now on the kernel takes no more than so many bytes that it has not sent; 0: as before.
    pub kernel_unsent_bytes_max: u32,
    /// The connection is closed afterwards, so the last bytes may share a segment with the FIN.
    pub closes: bool,
    /// Shut down the sending side afterwards.
    pub is_last: bool,
    /// What the socket does not accept is given back as soon as something can be received: the other side may accept no more
    /// before it is read.
    pub yields: bool,
}

/// A body, or the piece of one that is sent at once.
#[derive(Debug)]
pub enum Piece {
    Memory(Arc<[u8]>),
    /// A part of a chunk.
    Part(Arc<[u8]>, Range<usize>),
    /// What was received from elsewhere, where it was received.
    Received(SharedBuffer),
    /// A range of an object in the cache's memory.
    Stored(Extent),
    File(FileRange),
    Frames(Frames),
}

/// Frames of HTTP/2, between which are parts of bodies that stay where they are.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Each part, and the number of the bytes before it.
    parts: Vec<(usize, Bytes)>,
    length: usize,
}

impl Frames {
    pub fn new(bytes: Vec<u8>, parts: Vec<(usize, Bytes)>) -> Frames {
        let length = bytes.len() + parts.iter().map(|(_, part)| part.len()).sum::<usize>();
        Frames { bytes, parts, length }
    }

    /// The memory of the frames, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// All of it but for the first `sent` bytes, piece by piece.
    fn pieces(&self, sent: usize) -> impl Iterator<Item = &[u8]> {
        let (mut start, mut skipped) = (0, sent);
        let last = self.parts.last().map_or(0, |(before, _)| *before);
        let pieces = self.parts.iter().flat_map(move |(before, part)| {
            let frames = &self.bytes[start..*before];
            start = *before;
            [frames, &part[..]]
        });
        pieces.chain([&self.bytes[last..]]).filter_map(move |piece| {
            let rest = &piece[skipped.min(piece.len())..];
            skipped -= piece.len() - rest.len();
            (!rest.is_empty()).then_some(rest)
        })
    }
}

impl Piece {
    pub fn length(&self) -> usize {
        match self {
            Piece::Memory(bytes) => bytes.len(),
            Piece::Part(_, range) => range.len(),
            Piece::Received(bytes) => bytes.as_ref().len(),
            Piece::Stored(extent) => extent.length(),
            Piece::File(range) => range.length,
            Piece::Frames(frames) => frames.length,
        }
    }

    /// If the rest after the first `sent` bytes is in a file: the file, offset and length.
    pub fn in_file(&self, sent: usize) -> Option<(BorrowedFd<'_>, u64, usize)> {
        let (file, offset) = match self {
            Piece::Memory(_) | Piece::Part(..) | Piece::Received(_) | Piece::Frames(_) => return None,
            Piece::Stored(extent) => extent.in_file(sent)?,
            Piece::File(range) => (range.document.file()?, range.offset + sent as u64),
        };
        Some((file, offset, self.length() - sent))
    }

    /// The part in memory of the rest after the first `sent` bytes, piece by piece.
    pub fn in_memory(&self, sent: usize) -> impl Iterator<Item = &[u8]> {
        let (whole, stored, frames) = match self {
            Piece::Memory(bytes) => (bytes.get(sent..).filter(|rest| !rest.is_empty()), None, None),
            Piece::Part(bytes, range) => {
                (bytes.get(range.start + sent..range.end).filter(|rest| !rest.is_empty()), None, None)
            }
            Piece::Received(bytes) => {
                (bytes.as_ref().get(sent..).filter(|rest| !rest.is_empty()), None, None)
            }
            Piece::Stored(extent) => (None, Some(extent.pieces(sent)), None),
            Piece::File(_) => (None, None, None),
            Piece::Frames(frames) => (None, None, Some(frames.pieces(sent))),
        };
        whole.into_iter().chain(stored.into_iter().flatten()).chain(frames.into_iter().flatten())
    }
}

impl Output {
    pub fn total_bytes(&self) -> usize {
        self.bytes.len() + self.body.as_ref().map_or(0, Piece::length)
    }

    /// Returns true unless it was given back before all of it was sent.
    pub fn is_sent(&self) -> bool {
        self.sent == self.total_bytes()
    }

    /// Returns the memory of what has been sent to the pool.
    pub fn recycle(self, pool: &mut Pool) {
        pool.put(self.bytes);
        if let Some(Piece::Received(bytes)) = self.body
            && let Some(memory) = bytes.into_memory()
        {
            pool.put(memory);
        }
    }
}

/// Output of bytes only.
impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Output {
        Output { bytes, ..Output::default() }
    }
}
