//! Parts of stored bodies on their way to somebody: what they lie in is kept until they are sent.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::memory_file::Shared;
use super::object::Object;

/// Part of the body of an object in memory, in any number of pieces. It keeps the object, wherever that is found or no
/// longer found.
#[derive(Clone, Debug)]
pub struct Extent {
    object: Arc<Object>,
    start: u64,
    end: u64,
}

/// Part of a body, sharing its memory.
#[derive(Clone, Debug)]
pub struct Slice {
    bytes: Shared,
    start: usize,
    end: usize,
}

impl Extent {
    /// From `start` up to `end` of the body of `object`; `None` if that is not in memory.
    pub fn new(object: &Arc<Object>, start: u64, end: u64) -> Option<Extent> {
        let end = end.min(object.length());
        object.is_in_memory().then(|| Extent { object: Arc::clone(object), start: start.min(end), end })
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// What follows its first `from` bytes, piece by piece.
    pub fn pieces(&self, from: usize) -> impl Iterator<Item = &[u8]> {
        let mut position = self.start + from as u64;
        std::iter::from_fn(move || {
            let left = self.end.checked_sub(position).filter(|left| *left > 0)?;
            let piece = self.object.piece(position)?;
            let piece = &piece[..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            position += piece.len() as u64;
            Some(piece)
        })
    }

    /// The file in memory in which it is, if it is in one, and where what follows its first `from` bytes begins there.
    pub fn in_file(&self, from: usize) -> Option<(BorrowedFd<'_>, u64)> {
        self.object.file().map(|file| (file, self.start + from as u64))
    }

    /// Its first piece, and what follows that.
    pub fn split_first(mut self) -> Option<(Slice, Extent)> {
        let slice = self.object.slice(self.start)?.up_to(self.end - self.start);
        self.start += slice.as_bytes().len() as u64;
        (!slice.as_bytes().is_empty()).then_some((slice, self))
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Slice {
    pub(super) fn new(bytes: Shared, start: usize, end: usize) -> Slice {
        Slice { bytes, start, end }
    }

    /// All of `bytes`.
    pub fn whole(bytes: Arc<[u8]>) -> Slice {
        let end = bytes.len();
        Slice { bytes: Shared::Heap(bytes), start: 0, end }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The bytes alone: the allocation they lie in, if that has no others, else a copy.
    pub fn into_bytes(self) -> Arc<[u8]> {
        match self.bytes {
            Shared::Heap(bytes) if (self.start, self.end) == (0, bytes.len()) => bytes,
            bytes => bytes[self.start..self.end].into(),
        }
    }

    /// The first `length` bytes at most.
    #[must_use]
    pub fn up_to(mut self, length: u64) -> Slice {
        let kept =
            usize::try_from(length).map_or(self.end - self.start, |length| length.min(self.end - self.start));
        self.end = self.start + kept;
        self
    }

    /// What follows the first `length` bytes.
    #[must_use]
    pub fn from(mut self, length: usize) -> Slice {
        self.start = (self.start + length).min(self.end);
        self
    }
}
