//! Output: bytes, and a body from memory or from a file.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use sojourn_cache_store::Extent;
use sojourn_content::FileRange;

/// Bytes to send: a head (or several whole responses), then perhaps a body.
#[derive(Debug, Default)]
pub struct Output {
    pub bytes: Vec<u8>,
    pub body: Option<Piece>,
    /// How much of both is sent already.
    pub sent: usize,
    /// The connection is under way: nothing is sent before it is there, not even nothing.
    pub awaits_connection: bool,
    /// Cork the socket before: until it is uncorked only full segments leave, whatever the client acknowledges.
    pub corks: bool,
    pub uncorks: bool,
    /// Only closing follows, so the last bytes may leave together with the end of the connection.
    pub closes: bool,
    /// Shut the sending side down afterwards.
    pub is_last: bool,
}

/// A body, or the part that is sent at once.
#[derive(Debug)]
pub enum Piece {
    Memory(Arc<[u8]>),
    /// From what a proxy has stored in memory.
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

    /// The rest after the first `sent` bytes, if it lies in a file: the file, the offset, the length.
    pub fn in_file(&self, sent: usize) -> Option<(BorrowedFd<'_>, u64, usize)> {
        let (file, offset) = match self {
            Piece::Memory(_) => return None,
            Piece::Stored(extent) => extent.in_file(sent)?,
            Piece::File(range) => (range.document.file.as_fd(), range.offset + sent as u64),
        };
        Some((file, offset, self.length() - sent))
    }

    /// The rest after the first `sent` bytes, as far as it lies in memory, piece by piece.
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
