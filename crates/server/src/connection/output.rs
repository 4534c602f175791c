//! Output: bytes, then possibly a body from memory or from a file.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use sojourn_cache_store::Extent;
use sojourn_content::FileRange;

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
    /// The connection is closed afterwards, so the last bytes may share a segment with the FIN.
    pub closes: bool,
    /// Shut down the sending side afterwards.
    pub is_last: bool,
}

/// A body, or the piece of one that is sent at once.
#[derive(Debug)]
pub enum Piece {
    Memory(Arc<[u8]>),
    /// A range of an object in the cache's memory.
    Stored(Extent),
    File(FileRange),
}

impl Piece {
    pub fn length(&self) -> usize {
        match self {
            Piece::Memory(bytes) => bytes.len(),
            Piece::Stored(extent) => extent.length(),
            Piece::File(range) => range.length,
        }
    }

    /// If the rest after the first `sent` bytes is in a file: the file, offset and length.
    pub fn in_file(&self, sent: usize) -> Option<(BorrowedFd<'_>, u64, usize)> {
        let (file, offset) = match self {
            Piece::Memory(_) => return None,
            Piece::Stored(extent) => extent.in_file(sent)?,
            Piece::File(range) => (range.document.file.as_fd(), range.offset + sent as u64),
        };
        Some((file, offset, self.length() - sent))
    }

    /// The part in memory of the rest after the first `sent` bytes, piece by piece.
    pub fn in_memory(&self, sent: usize) -> impl Iterator<Item = &[u8]> {
        let (whole, stored) = match self {
            Piece::Memory(bytes) => (bytes.get(sent..).filter(|rest| !rest.is_empty()), None),
            Piece::Stored(extent) => (None, Some(extent.pieces(sent))),
            Piece::File(_) => (None, None),
        };
        whole.into_iter().chain(stored.into_iter().flatten())
    }
}

impl Output {
    pub fn total_bytes(&self) -> usize {
        self.bytes.len() + self.body.as_ref().map_or(0, Piece::length)
    }
}
