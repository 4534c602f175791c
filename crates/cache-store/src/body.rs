//! A body as a sequence of chunks, mostly as they arrived; small ones are merged.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use crate::memory_file::SharedBytes;

/// Memory of each further chunk beside its bytes.
pub(crate) const CHUNK_OVERHEAD_BYTES: usize = 64;

/// Smaller neighbouring chunks are merged. A slow upstream sends a body in thousands of segments, and each chunk is one
/// more entry of every system call that sends it.
const CHUNK_BYTES_MIN: usize = 32 * 1024;

#[derive(Debug)]
pub(crate) struct Chunks {
    pub(crate) chunks: Box<[SharedBytes]>,
    ends: Box<[u64]>,
}

impl Chunks {
    pub(crate) fn new(chunks: Vec<Arc<[u8]>>) -> Chunks {
        Chunks::of(coalesce(chunks).into_iter().map(SharedBytes::Heap).collect())
    }

    pub(crate) fn of(chunks: Vec<SharedBytes>) -> Chunks {
        let mut end = 0;
        let ends = chunks.iter().map(|chunk| {
            end += chunk.len() as u64;
            end
        });
        let ends = ends.collect();
        Chunks { chunks: chunks.into(), ends }
    }

    pub(crate) fn length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(crate) fn slice(&self, position: u64) -> Option<Slice> {
        let (chunk, start) = self.find(position)?;
        Some(Slice::new(chunk.clone(), start, chunk.len()))
    }

    pub(crate) fn piece(&self, position: u64) -> Option<&[u8]> {
        let (chunk, start) = self.find(position)?;
        Some(&chunk[start..])
    }

    /// The chunk that holds `position` of the body, and the offset in it.
    fn find(&self, position: u64) -> Option<(&SharedBytes, usize)> {
        let index = self.ends.partition_point(|end| *end <= position);
        let chunk = self.chunks.get(index)?;
        Some((chunk, chunk.len() - (self.ends[index] - position) as usize))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| CHUNK_OVERHEAD_BYTES + chunk.memory_bytes()).sum()
    }
}

/// Merges neighbouring small chunks.
fn coalesce(chunks: Vec<Arc<[u8]>>) -> Vec<Arc<[u8]>> {
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

/// The chunks as one slice; a single chunk is not copied.
fn joined(chunks: &mut Vec<Arc<[u8]>>) -> Option<Arc<[u8]>> {
    let one = if chunks.len() > 1 { Some(concatenate(&[], chunks)) } else { chunks.pop() };
    chunks.clear();
    one
}

/// Copies everything into one allocation.
pub(crate) fn concatenate(parts: &[&[u8]], chunks: &[Arc<[u8]>]) -> Arc<[u8]> {
    let parts = parts.iter().copied().chain(chunks.iter().map(|chunk| &**chunk));
    let mut bytes = Vec::with_capacity(parts.clone().map(<[u8]>::len).sum());
    parts.for_each(|part| bytes.extend_from_slice(part));
    bytes.into()
}

/// Part of a body; shares its memory.
#[derive(Clone, Debug)]
pub struct Slice {
    bytes: SharedBytes,
    start: usize,
    end: usize,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Slice {
    pub(crate) fn new(bytes: SharedBytes, start: usize, end: usize) -> Slice {
        Slice { bytes, start, end }
    }

    pub fn whole(bytes: Arc<[u8]>) -> Slice {
        let end = bytes.len();
        Slice { bytes: SharedBytes::Heap(bytes), start: 0, end }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The bytes as an allocation of their own; copied only if they are part of a larger one.
    pub fn into_bytes(self) -> Arc<[u8]> {
        match self.bytes {
            SharedBytes::Heap(bytes) if (self.start, self.end) == (0, bytes.len()) => bytes,
            bytes => bytes[self.start..self.end].into(),
        }
    }

    #[must_use]
    pub fn up_to(mut self, length: u64) -> Slice {
        let kept =
            usize::try_from(length).map_or(self.end - self.start, |length| length.min(self.end - self.start));
        self.end = self.start + kept;
        self
    }

    /// The rest, without the first `length` bytes.
    #[must_use]
    pub fn from(mut self, length: usize) -> Slice {
        self.start = (self.start + length).min(self.end);
        self
    }
}

/// The result of reading an external body.
pub(crate) enum ReadStep {
    Bytes(Slice),
    Pending,
    End,
    /// The bytes are no longer available.
    Gone,
    Truncated,
}

/// A body that is not in memory, such as one on disk. Reading it may have to wait.
pub(crate) trait ExternalBody: fmt::Debug + Send + Sync {
    fn length(&self) -> u64;

    /// Starts reading. The reader keeps the body readable.
    fn reader(self: Arc<Self>) -> Box<dyn ExternalReader>;
}

pub(crate) trait ExternalReader: fmt::Debug + Send + Sync {
    /// Reads at `position`. If the answer is [`ReadStep::Pending`], `waker` is called when you should try again.
    fn read_at(&mut self, position: u64, waker: &Waker) -> ReadStep;
}
