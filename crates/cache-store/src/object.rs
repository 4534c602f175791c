//! A complete object: a key's text, metadata that only the caller interprets, a body.
//!
//! Text, metadata and a small body lie in one allocation behind one reference count, so that a hit is one
//! lookup. It never changes: a connection may go on sending it after it was evicted or replaced.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use crate::body::{Chunks, ExternalBody, Slice, concatenate};
use crate::charge::Charge;
use crate::key::Key;
use crate::memory_file::{FilePermit, MemoryFile, SharedBytes};
use crate::ranges::StoredRanges;
use sojourn_http::range::ByteRange;

/// A body of at most so many bytes lies in one allocation with its metadata.
pub const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

/// Memory of an object beside its bytes: its structure, its table slot, the policy's state and the allocator's
/// rounding. docs/cache-storage.md has the measurement; a test checks it.
pub const OBJECT_OVERHEAD_BYTES: usize = 336;

/// A body that was sent so often is sent from a file from then on: making one costs what about as many sends gain
/// (docs/architectures.md). If there is no place for one, it is tried again 256 sends later.
const SENDS_BEFORE_FILE: u8 = 4;

#[derive(Clone, Debug)]
pub struct Object {
    hash: u128,
    kind: ObjectKind,
    number: u64,
    /// The key's text, the metadata, and the body if it is small.
    bytes: Arc<[u8]>,
    text_length: usize,
    metadata_length: usize,
    body: Body,
    sends: Sends,
    departed: Departed,
}

/// Its part of the budget, once the memory tier has let it go and readers alone hold it.
#[derive(Debug, Default)]
struct Departed(OnceLock<Box<Charge>>);

/// How often a body was sent from memory, modulo 256.
#[derive(Debug, Default)]
struct Sends(AtomicU8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ObjectKind {
    Response = 1,
    /// The list of the variants of a primary key; its metadata is the list.
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
    /// An object of the `chunks` of a body. Its `number` tells it from others that were or will be found at the key.
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

    /// An object of the parts of a body that are `held`, whose bytes `chunks` are, in order.
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

    /// The same object with its body in a file.
    pub(crate) fn with_external_body(&self, body: Arc<dyn ExternalBody>) -> Object {
        Object { body: Body::External(body), ..self.clone() }
    }

    /// It has left the memory tier; `charge` is given back with its last reader.
    pub(crate) fn charge(&self, charge: Charge) {
        // One that left twice is counted once.
        let _ = self.departed.0.set(Box::new(charge));
    }

    /// Counts that the body is sent, and says whether it is time for a file of it. Parts of a body stay where they are.
    pub(crate) fn is_due_for_file(&self) -> bool {
        let can_move = matches!(self.body, Body::Small | Body::Chunks(_)) && self.file().is_none();
        can_move && self.sends.0.fetch_add(1, Ordering::Relaxed) == SENDS_BEFORE_FILE
    }

    /// The same object with its body, which is in memory and not empty, in a file there.
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

    /// The file in memory in which the body is, if it is in one.
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

    /// Which parts of the body these are, if it is not all of it.
    pub fn stored_ranges(&self) -> Option<&StoredRanges> {
        match &self.body {
            Body::Parts(parts) => Some(&parts.0),
            Body::Small | Body::Chunks(_) | Body::External(_) => None,
        }
    }

    /// Bytes of the whole body, whether it is all there or not.
    pub fn whole_bytes(&self) -> u64 {
        self.stored_ranges().map_or_else(|| self.length(), StoredRanges::whole_bytes)
    }

    /// The position of `range` in the stored bytes, if it is stored.
    pub fn stored_position(&self, range: ByteRange) -> Option<ByteRange> {
        self.stored_ranges().map_or(Some(range), |held| held.stored_position(range))
    }

    pub fn is_in_memory(&self) -> bool {
        self.external_body().is_none()
    }

    /// Distinguishes it from earlier and later objects at its key.
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

    /// The caller's metadata, opaque to the store.
    pub fn metadata(&self) -> &[u8] {
        &self.bytes[self.text_length..][..self.metadata_length]
    }

    /// Bytes that there are of the body.
    pub fn length(&self) -> u64 {
        match &self.body {
            Body::Small => (self.bytes.len() - self.text_length - self.metadata_length) as u64,
            Body::Chunks(chunks) => chunks.length(),
            Body::Parts(parts) => parts.1.length(),
            Body::External(body) => body.length(),
        }
    }

    /// The whole body, if it lies in one piece.
    pub fn small_body(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Small => Some(&self.bytes[self.text_length + self.metadata_length..]),
            Body::Chunks(_) | Body::Parts(_) | Body::External(_) => None,
        }
    }

    /// The contiguous bytes in memory from `position` on; `None` at the end, and for a body on disk.
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

    /// The stored bytes at `position`, in chunks. Whole chunks are shared, others copied.
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

    /// The same without a hold on it.
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
    /// A copy starts with no sends.
    fn clone(&self) -> Sends {
        Sends::default()
    }
}

impl Clone for Departed {
    /// A copy has not left.
    fn clone(&self) -> Departed {
        Departed::default()
    }
}

/// Part of the body of an object in memory, in any number of pieces. It keeps the object, wherever that is found or no
/// longer found.
#[derive(Clone, Debug)]
pub struct Extent {
    object: Arc<Object>,
    start: u64,
    end: u64,
}

impl Extent {
    /// From `start` up to `end` of the body of `object`; `None` if that is not in memory.
    pub fn new(object: &Arc<Object>, start: u64, end: u64) -> Option<Extent> {
        let end = end.min(object.length());
        object.is_in_memory().then(|| Extent { object: Arc::clone(object), start: start.min(end), end })
    }

    pub fn length(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// The rest after its first `from` bytes, piece by piece.
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
