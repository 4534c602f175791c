//! A body in pieces: as many as it came in, or fewer where they were small.

use std::sync::Arc;

use super::extent::Slice;
use super::memory_file::Shared;

/// What each further chunk of a body takes beside its bytes.
pub const CHUNK_BYTES_BESIDE: usize = 64;

/// Chunks that are smaller together are put together: a slow upstream sends a body in thousands of segments, and each
/// chunk has to be pointed to in every system call that sends it.
const CHUNK_BYTES_MIN: usize = 32 * 1024;

/// A body in pieces of any size.
#[derive(Debug)]
pub struct Chunks {
    pub(super) chunks: Box<[Shared]>,
    /// Where each ends in the body.
    ends: Box<[u64]>,
}

impl Chunks {
    pub(super) fn new(chunks: Vec<Arc<[u8]>>) -> Chunks {
        Chunks::of(put_together(chunks).into_iter().map(Shared::Heap).collect())
    }

    pub(super) fn of(chunks: Vec<Shared>) -> Chunks {
        let mut end = 0;
        let ends = chunks.iter().map(|chunk| {
            end += chunk.len() as u64;
            end
        });
        let ends = ends.collect();
        Chunks { chunks: chunks.into(), ends }
    }

    pub(super) fn length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(super) fn slice(&self, position: u64) -> Option<Slice> {
        let (chunk, start) = self.find(position)?;
        Some(Slice::new(chunk.clone(), start, chunk.len()))
    }

    pub(super) fn piece(&self, position: u64) -> Option<&[u8]> {
        let (chunk, start) = self.find(position)?;
        Some(&chunk[start..])
    }

    /// The chunk in which `position` of the body is, and where in it.
    fn find(&self, position: u64) -> Option<(&Shared, usize)> {
        let index = self.ends.partition_point(|end| *end <= position);
        let chunk = self.chunks.get(index)?;
        Some((chunk, chunk.len() - (self.ends[index] - position) as usize))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| CHUNK_BYTES_BESIDE + chunk.memory_bytes()).sum()
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
pub(super) fn concatenate(parts: &[&[u8]], chunks: &[Arc<[u8]>]) -> Arc<[u8]> {
    let parts = parts.iter().copied().chain(chunks.iter().map(|chunk| &**chunk));
    let mut bytes = Vec::with_capacity(parts.clone().map(<[u8]>::len).sum());
    parts.for_each(|part| bytes.extend_from_slice(part));
    bytes.into()
}
