//! A complete object: key text, body, and metadata that only the caller interprets.
//!
//! Text, metadata and a small body share one allocation and reference count, so that a hit touches little memory.
//! Objects are immutable: a connection may continue to send one after it was evicted or replaced.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use crate::body::{Chunks, ExternalBody, Slice, concatenate};
use crate::charge::Charge;
use crate::key::Key;
use crate::memory_file::{FilePermit, MemoryFile, SharedBytes};
use crate::ranges::StoredRanges;
use sojourn_http::range::ByteRange;

/// A body up to this size shares the allocation of its metadata.
pub const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

/// Memory of an object beside its bytes: the structure, its table slot, the policy's state and the allocator's
/// rounding. docs/cache-storage.md has the measurement; a test checks it.
pub const OBJECT_OVERHEAD_BYTES: usize = 336;

/// After this many sends a body is moved to a memory file, because making one costs about as much as so many sends from
/// it save (docs/architectures.md). Without a free file it is tried again 256 sends later.
const SENDS_BEFORE_FILE: u8 = 4;

#[derive(Clone, Debug)]
pub struct Object {
    hash: u128,
    kind: ObjectKind,
    number: u64,
    /// The key's text, the metadata, and a small body.
    bytes: Arc<[u8]>,
    text_length: usize,
    metadata_length: usize,
    body: Body,
    sends: Sends,
    departed: Departed,
}

/// The budget that an object keeps after it left the memory tier, until its last reader is done.
#[derive(Debug, Default)]
struct Departed(OnceLock<Box<Charge>>);

/// How often the body was sent from memory, modulo 256.
#[derive(Debug, Default)]
struct Sends(AtomicU8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ObjectKind {
    Response = 1,
    /// The list of variants of a primary key, encoded in the metadata.
    Variants = 2,
}

#[derive(Clone, Debug)]
enum Body {
    Small,
    Chunks(Arc<Chunks>),
    Parts(Arc<(StoredRanges, Chunks)>),
    External(Arc<dyn ExternalBody>),
}

impl Object {
    /// An object whose body is `chunks`. `number` distinguishes it from earlier and later objects at the same key.
    pub(crate) fn new(
        key: &Key<'_>,
        kind: ObjectKind,
        number: u64,
        metadata: &[u8],
        chunks: Vec<Arc<[u8]>>,
    ) -> Object {
        let length: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        let is_small = length <= SMALL_BODY_BYTES_MAX;
        let small: &[Arc<[u8]>] = if is_small { &chunks } else { &[] };
        let bytes = concatenate(&[key.text(), metadata], small);
        let body = if is_small { Body::Small } else { Body::Chunks(Arc::new(Chunks::new(chunks))) };
        let (text_length, metadata_length) = (key.text().len(), metadata.len());
        Object {
            hash: key.hash(),
            kind,
            number,
            bytes,
            text_length,
            metadata_length,
            body,
            sends: Sends::default(),
            departed: Departed::default(),
        }
    }

    /// An object with parts of a body: `held` says which, `chunks` are their bytes in order.
    pub(crate) fn of_parts(
        key: &Key<'_>,
        number: u64,
        metadata: &[u8],
        held: StoredRanges,
        chunks: Vec<Arc<[u8]>>,
    ) -> Object {
        let body = Body::Parts(Arc::new((held, Chunks::new(chunks))));
        Object { body, ..Object::new(key, ObjectKind::Response, number, metadata, Vec::new()) }
    }

    pub fn with_metadata(&self, metadata: &[u8]) -> Object {
        let body_behind = &self.bytes[self.text_length + self.metadata_length..];
        let bytes = concatenate(&[self.key_text(), metadata, body_behind], &[]);
        Object { bytes, metadata_length: metadata.len(), ..self.clone() }
    }

    /// A copy of the object with its body elsewhere, such as on disk.
    pub(crate) fn with_external_body(&self, body: Arc<dyn ExternalBody>) -> Object {
        Object { body: Body::External(body), ..self.clone() }
    }

    /// Called when the object leaves the memory tier: `charge` is returned when its last reader is done.
    pub(crate) fn charge(&self, charge: Charge) {
        // If it left twice, it is charged once.
        let _ = self.departed.0.set(Box::new(charge));
    }

    /// Counts one send; true if the body should now move to a memory file. Partial bodies never move.
    pub(crate) fn is_due_for_file(&self) -> bool {
        let can_move = matches!(self.body, Body::Small | Body::Chunks(_)) && self.file().is_none();
        can_move && self.sends.0.fetch_add(1, Ordering::Relaxed) == SENDS_BEFORE_FILE
    }

    /// A copy of the object with its body in a memory file. The body must be in memory and not empty.
    pub(crate) fn with_file(&self, place: FilePermit) -> std::io::Result<Object> {
        let mut position = 0;
        let pieces = std::iter::from_fn(|| {
            let piece = self.piece(position)?;
            position += piece.len() as u64;
            Some(piece)
        });
        let file = MemoryFile::new(pieces, place)?;
        let body = Body::Chunks(Arc::new(Chunks::of(vec![SharedBytes::File(Arc::new(file))])));
        let bytes = self.bytes[..self.text_length + self.metadata_length].into();
        Ok(Object { bytes, body, ..self.clone() })
    }

    /// The memory file that holds the body, if there is one.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        let Body::Chunks(chunks) = &self.body else { return None };
        match &*chunks.chunks {
            [SharedBytes::File(file)] => Some(file.as_fd()),
            _ => None,
        }
    }

    pub(crate) fn external_body(&self) -> Option<&Arc<dyn ExternalBody>> {
        match &self.body {
            Body::External(body) => Some(body),
            Body::Small | Body::Chunks(_) | Body::Parts(_) => None,
        }
    }

    /// The stored ranges, if the object is only part of a body.
    pub fn stored_ranges(&self) -> Option<&StoredRanges> {
        match &self.body {
            Body::Parts(parts) => Some(&parts.0),
            Body::Small | Body::Chunks(_) | Body::External(_) => None,
        }
    }

    /// The length of the whole body, even if only parts are stored.
    pub fn whole_bytes(&self) -> u64 {
        self.stored_ranges().map_or_else(|| self.length(), StoredRanges::whole_bytes)
    }

    /// The position of `range` within the stored bytes, if it is stored.
    pub fn stored_position(&self, range: ByteRange) -> Option<ByteRange> {
        self.stored_ranges().map_or(Some(range), |held| held.stored_position(range))
    }

    pub fn is_in_memory(&self) -> bool {
        self.external_body().is_none()
    }

    /// Distinguishes the object from earlier and later ones at its key.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub fn hash(&self) -> u128 {
        self.hash
    }

    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    pub fn key_text(&self) -> &[u8] {
        &self.bytes[..self.text_length]
    }

    pub fn is_named(&self, key: &Key<'_>) -> bool {
        self.hash == key.hash() && self.key_text() == key.text()
    }

    pub fn metadata(&self) -> &[u8] {
        &self.bytes[self.text_length..][..self.metadata_length]
    }

    /// The number of stored body bytes.
    pub fn length(&self) -> u64 {
        match &self.body {
            Body::Small => (self.bytes.len() - self.text_length - self.metadata_length) as u64,
            Body::Chunks(chunks) => chunks.length(),
            Body::Parts(parts) => parts.1.length(),
            Body::External(body) => body.length(),
        }
    }

    /// The whole body, if it is contiguous in memory.
    pub fn small_body(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Small => Some(&self.bytes[self.text_length + self.metadata_length..]),
            Body::Chunks(_) | Body::Parts(_) | Body::External(_) => None,
        }
    }

    /// The contiguous bytes in memory from `position`; `None` at the end, and for a body on disk.
    pub fn slice(&self, position: u64) -> Option<Slice> {
        match &self.body {
            Body::Small => {
                let start = self.text_length + self.metadata_length + usize::try_from(position).ok()?;
                let end = self.bytes.len();
                (start < end).then(|| Slice::new(SharedBytes::Heap(Arc::clone(&self.bytes)), start, end))
            }
            Body::Chunks(chunks) => chunks.slice(position),
            Body::Parts(parts) => parts.1.slice(position),
            Body::External(_) => None,
        }
    }

    /// The stored bytes at `position` as chunks. Whole chunks are shared, others copied.
    pub fn chunks(&self, position: ByteRange) -> Vec<Arc<[u8]>> {
        let (mut chunks, mut at) = (Vec::new(), position.first);
        while at <= position.last
            && let Some(slice) = self.slice(at)
        {
            let bytes = slice.up_to(position.last + 1 - at).into_bytes();
            at += bytes.len() as u64;
            chunks.push(bytes);
        }
        chunks
    }

    /// Like `slice`, but borrowed.
    pub(crate) fn piece(&self, position: u64) -> Option<&[u8]> {
        match &self.body {
            Body::Small => {
                let rest = self.small_body()?.get(usize::try_from(position).ok()?..)?;
                (!rest.is_empty()).then_some(rest)
            }
            Body::Chunks(chunks) => chunks.piece(position),
            Body::Parts(parts) => parts.1.piece(position),
            Body::External(_) => None,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Small | Body::External(_) => 0,
            Body::Chunks(chunks) => chunks.memory_bytes(),
            Body::Parts(parts) => parts.0.memory_bytes() + parts.1.memory_bytes(),
        };
        OBJECT_OVERHEAD_BYTES + self.bytes.len() + body
    }
}

impl Clone for Sends {
    /// A copy starts without sends.
    fn clone(&self) -> Sends {
        Sends::default()
    }
}

impl Clone for Departed {
    /// A copy has not left the memory tier.
    fn clone(&self) -> Departed {
        Departed::default()
    }
}

/// A range of an object's body in memory. It keeps the object alive, even after eviction.
#[derive(Clone, Debug)]
pub struct Extent {
    object: Arc<Object>,
    start: u64,
    end: u64,
}

impl Extent {
    /// The bytes from `start` to `end` of the body; `None` if they are not in memory.
    pub fn new(object: &Arc<Object>, start: u64, end: u64) -> Option<Extent> {
        let end = end.min(object.length());
        object.is_in_memory().then(|| Extent { object: Arc::clone(object), start: start.min(end), end })
    }

    pub fn length(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// The contiguous pieces of the range, without its first `from` bytes.
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

    /// The memory file that holds the range, if there is one, and the offset in it of the range without its first
    /// `from` bytes.
    pub fn in_file(&self, from: usize) -> Option<(BorrowedFd<'_>, u64)> {
        self.object.file().map(|file| (file, self.start + from as u64))
    }

    /// Splits off the first contiguous piece.
    pub fn split_first(mut self) -> Option<(Slice, Extent)> {
        let slice = self.object.slice(self.start)?.up_to(self.end - self.start);
        self.start += slice.as_bytes().len() as u64;
        (!slice.as_bytes().is_empty()).then_some((slice, self))
    }
}
