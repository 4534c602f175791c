//! A complete object: a key's text, metadata that is others' business, a body.
//!
//! Text, metadata and a small body lie in one allocation behind one reference count, so that a hit is one lookup. It
//! never changes; who holds it may go on sending it after it was evicted or replaced.

use std::sync::Arc;

use super::disk::DiskBody;
use super::key::Key;
use super::parts::Held;
use sojourn_http::range::ByteRange;

/// A body of at most so many bytes lies in one allocation with its metadata.
pub const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

/// What an object in memory takes beside its bytes: itself, its place in the table, what the policy remembers and
/// what the allocator rounds up. docs/cache-storage.md has the measurement; a test holds it.
pub const OBJECT_BYTES: usize = 320;

/// What each further chunk of a body takes beside its bytes.
pub const CHUNK_BYTES_BESIDE: usize = 64;

/// Chunks that are smaller together are put together: a slow upstream sends a body in thousands of segments, and each
/// chunk has to be pointed to in every system call that sends it.
const CHUNK_BYTES_MIN: usize = 32 * 1024;

/// What is kept of a response.
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
}

/// What an object stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ObjectKind {
    /// A response.
    Response = 1,
    /// The list of the variants of a primary key; its metadata is the list.
    Variants = 2,
}

#[derive(Clone, Debug)]
enum Body {
    /// Behind the metadata.
    Small,
    Chunks(Arc<Chunks>),
    /// Not all of it.
    Parts(Arc<(Held, Chunks)>),
    /// In its file.
    Disk(Arc<DiskBody>),
}

/// A body in pieces of any size.
#[derive(Debug)]
pub struct Chunks {
    chunks: Box<[Arc<[u8]>]>,
    /// Where each ends in the body.
    ends: Box<[u64]>,
}

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
    bytes: Arc<[u8]>,
    start: usize,
    end: usize,
}

impl Object {
    /// An object of the `chunks` of a body. Its `number` tells it from others that were or will be found at the key.
    pub(super) fn new(
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
        Object { hash: key.hash(), kind, number, bytes, text_length, metadata_length, body }
    }

    /// An object of the parts of a body that are `held`, whose bytes `chunks` are, in order.
    pub(super) fn of_parts(
        key: &Key<'_>,
        number: u64,
        metadata: &[u8],
        held: Held,
        chunks: Vec<Arc<[u8]>>,
    ) -> Object {
        let body = Body::Parts(Arc::new((held, Chunks::new(chunks))));
        Object { body, ..Object::new(key, ObjectKind::Response, number, metadata, Vec::new()) }
    }

    /// The same object with other metadata.
    pub fn with_metadata(&self, metadata: &[u8]) -> Object {
        let body_behind = &self.bytes[self.text_length + self.metadata_length..];
        let bytes = concatenate(&[self.key_text(), metadata, body_behind], &[]);
        Object { bytes, metadata_length: metadata.len(), body: self.body.clone(), ..*self }
    }

    /// The same object with its body in a file.
    pub(super) fn with_disk_body(&self, body: Arc<DiskBody>) -> Object {
        Object { body: Body::Disk(body), bytes: Arc::clone(&self.bytes), ..*self }
    }

    /// The body, if it is in a file.
    pub(super) fn disk_body(&self) -> Option<&Arc<DiskBody>> {
        match &self.body {
            Body::Disk(body) => Some(body),
            Body::Small | Body::Chunks(_) | Body::Parts(_) => None,
        }
    }

    /// Which parts of the body these are, if it is not all of it.
    pub fn held(&self) -> Option<&Held> {
        match &self.body {
            Body::Parts(parts) => Some(&parts.0),
            Body::Small | Body::Chunks(_) | Body::Disk(_) => None,
        }
    }

    /// Bytes of the whole body, whether it is all there or not.
    pub fn whole_bytes(&self) -> u64 {
        self.held().map_or_else(|| self.length(), Held::whole_bytes)
    }

    /// Where `range` of the whole body lies in what there is of it, if it is there.
    pub fn place(&self, range: ByteRange) -> Option<ByteRange> {
        self.held().map_or(Some(range), |held| held.place(range))
    }

    /// Whether the body is in memory.
    pub fn is_in_memory(&self) -> bool {
        self.disk_body().is_none()
    }

    /// What tells it from others that were or will be found at its key.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The hash of its key.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// What it stands for.
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// The text of its key.
    pub fn key_text(&self) -> &[u8] {
        &self.bytes[..self.text_length]
    }

    /// Whether it is what `key` names.
    pub fn is_named(&self, key: &Key<'_>) -> bool {
        self.hash == key.hash() && self.key_text() == key.text()
    }

    /// What others keep with it.
    pub fn metadata(&self) -> &[u8] {
        &self.bytes[self.text_length..][..self.metadata_length]
    }

    /// Bytes that there are of the body.
    pub fn length(&self) -> u64 {
        match &self.body {
            Body::Small => (self.bytes.len() - self.text_length - self.metadata_length) as u64,
            Body::Chunks(chunks) => chunks.length(),
            Body::Parts(parts) => parts.1.length(),
            Body::Disk(body) => body.length(),
        }
    }

    /// The whole body, if it lies in one piece.
    pub fn small_body(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Small => Some(&self.bytes[self.text_length + self.metadata_length..]),
            Body::Chunks(_) | Body::Parts(_) | Body::Disk(_) => None,
        }
    }

    /// What there is of the body in memory in one piece from `position` on; `None` at its end, and of one on disk.
    pub fn slice(&self, position: u64) -> Option<Slice> {
        match &self.body {
            Body::Small => {
                let start = self.text_length + self.metadata_length + usize::try_from(position).ok()?;
                let end = self.bytes.len();
                (start < end).then(|| Slice { bytes: Arc::clone(&self.bytes), start, end })
            }
            Body::Chunks(chunks) => chunks.slice(position),
            Body::Parts(parts) => parts.1.slice(position),
            Body::Disk(_) => None,
        }
    }

    /// The same without a hold on it.
    fn piece(&self, position: u64) -> Option<&[u8]> {
        match &self.body {
            Body::Small => {
                let rest = self.small_body()?.get(usize::try_from(position).ok()?..)?;
                (!rest.is_empty()).then_some(rest)
            }
            Body::Chunks(chunks) => chunks.piece(position),
            Body::Parts(parts) => parts.1.piece(position),
            Body::Disk(_) => None,
        }
    }

    /// What it takes of the memory budget.
    pub fn memory_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Small | Body::Disk(_) => 0,
            Body::Chunks(chunks) => chunks.memory_bytes(),
            Body::Parts(parts) => parts.0.memory_bytes() + parts.1.memory_bytes(),
        };
        OBJECT_BYTES + self.bytes.len() + body
    }
}

impl Chunks {
    fn new(chunks: Vec<Arc<[u8]>>) -> Chunks {
        let chunks = put_together(chunks);
        let mut end = 0;
        let ends = chunks.iter().map(|chunk| {
            end += chunk.len() as u64;
            end
        });
        let ends = ends.collect();
        Chunks { chunks: chunks.into(), ends }
    }

    fn length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn slice(&self, position: u64) -> Option<Slice> {
        let (chunk, start) = self.find(position)?;
        Some(Slice { bytes: Arc::clone(chunk), start, end: chunk.len() })
    }

    fn piece(&self, position: u64) -> Option<&[u8]> {
        let (chunk, start) = self.find(position)?;
        Some(&chunk[start..])
    }

    /// The chunk in which `position` of the body is, and where in it.
    fn find(&self, position: u64) -> Option<(&Arc<[u8]>, usize)> {
        let index = self.ends.partition_point(|end| *end <= position);
        let chunk = self.chunks.get(index)?;
        Some((chunk, chunk.len() - (self.ends[index] - position) as usize))
    }

    fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| CHUNK_BYTES_BESIDE + chunk.len()).sum()
    }
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
    /// All of `bytes`.
    pub fn whole(bytes: Arc<[u8]>) -> Slice {
        let end = bytes.len();
        Slice { bytes, start: 0, end }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The allocation they lie in, and where.
    pub fn into_parts(self) -> (Arc<[u8]>, std::ops::Range<usize>) {
        (self.bytes, self.start..self.end)
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

/// The same bytes in fewer chunks: neighbours that are small together become one.
fn put_together(chunks: Vec<Arc<[u8]>>) -> Vec<Arc<[u8]>> {
    let (mut fewer, mut small) = (Vec::with_capacity(chunks.len()), Vec::new());
    let mut small_bytes = 0;
    for chunk in chunks {
        if small_bytes + chunk.len() > CHUNK_BYTES_MIN {
            fewer.extend(joined(&mut small));
            small_bytes = 0;
        }
        small_bytes += chunk.len();
        small.push(chunk);
    }
    fewer.extend(joined(&mut small));
    fewer
}

/// The chunks as one; a single one stays what it is.
fn joined(chunks: &mut Vec<Arc<[u8]>>) -> Option<Arc<[u8]>> {
    let one = if chunks.len() > 1 { Some(concatenate(&[], chunks)) } else { chunks.pop() };
    chunks.clear();
    one
}

/// Everything in one allocation, each byte copied once.
fn concatenate(parts: &[&[u8]], chunks: &[Arc<[u8]>]) -> Arc<[u8]> {
    let parts = parts.iter().copied().chain(chunks.iter().map(|chunk| &**chunk));
    let mut bytes = Vec::with_capacity(parts.clone().map(<[u8]>::len).sum());
    parts.for_each(|part| bytes.extend_from_slice(part));
    bytes.into()
}
