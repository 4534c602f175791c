//! Buffers for bytes in flight, taken from a pool while in use, so that an idle connection holds none.

use std::ops::Range;
use std::sync::Arc;

use sojourn_http::request::Outline;

use crate::memory;

pub const BUFFER_BYTES: usize = 4 * 1024;

/// The size of a buffer for a large body, the largest that the pool keeps.
const BODY_BUFFER_BYTES: usize = 64 * 1024;

/// The size of a buffer for a response head and a short body; larger than usual to avoid a second system call.
pub const RESPONSE_BUFFER_BYTES: usize = 16 * 1024;

/// Fewer bytes are copied rather than shared, unless they are the last: a short body is copied behind its head anyway.
const SHARED_BYTES_MIN: usize = 8 * 1024;

/// The smallest free space that is worth a system call.
const ROOM_BYTES_MIN: usize = 1024;

/// The sizes of buffers in the pool, and how many it keeps at most of each, or up to the next.
const POOLED: [(usize, usize); 3] =
    [(BUFFER_BYTES, 256), (RESPONSE_BUFFER_BYTES, 256), (BODY_BUFFER_BYTES, 128)];

/// How many outlines of requests the pool keeps at most.
const OUTLINES_MAX: usize = 256;

/// Larger buffers are not returned to the pool; a TLS-encrypted part of a body still is.
const POOLED_BYTES_MAX: usize = 68 * 1024;

/// Received bytes, some of which have been consumed from the front.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    consumed: usize,
    /// If it has no memory yet, request this much; 0 for the usual size.
    wanted_bytes: usize,
}

/// Whether received bytes may keep the memory into which they were received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    Never,
    /// If they fill at least half of it: whoever holds them then holds little more.
    IfFull,
    /// However little of it they fill, because nothing comes behind them: there is one such buffer for a response.
    AsLast,
}

/// Received bytes that stay in the memory into which they were received.
#[derive(Debug)]
pub struct SharedBuffer {
    memory: Memory,
    range: Range<usize>,
}

/// Most have one reader, and need no memory to be shared.
#[derive(Debug)]
enum Memory {
    Own(Vec<u8>),
    Shared(Arc<Vec<u8>>),
}

impl Buffer {
    /// An empty buffer that will get room for a head and a short body, or for a long one.
    pub fn for_response(is_long: bool) -> Buffer {
        if is_long {
            return Buffer::for_body();
        }
        Buffer { wanted_bytes: RESPONSE_BUFFER_BYTES, ..Buffer::default() }
    }

    /// An empty buffer that will get room for a part of a long body.
    pub fn for_body() -> Buffer {
        Buffer { wanted_bytes: BODY_BUFFER_BYTES, ..Buffer::default() }
    }

    /// The same kind of buffer, without memory.
    pub fn same_kind(&self) -> Buffer {
        Buffer { wanted_bytes: self.wanted_bytes, ..Buffer::default() }
    }

    /// The bytes not consumed yet.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    pub fn consume(&mut self, count: usize) {
        self.consumed += count;
        debug_assert!(self.consumed <= self.bytes.len(), "consumed what was not received");
        if self.consumed == self.bytes.len() {
            self.bytes.clear();
            self.consumed = 0;
        }
    }

    /// Removes `count` unconsumed bytes, from `start` on.
    pub fn remove(&mut self, start: usize, count: usize) {
        let start = self.consumed + start;
        self.bytes.drain(start..start + count);
    }

    /// Keeps only these ranges of the unconsumed bytes, in their order. The first one stays where it is.
    pub fn keep(&mut self, ranges: &[Range<usize>]) {
        let start = self.consumed;
        let Some((first, rest)) = ranges.split_first() else {
            return self.consume(self.unread().len());
        };
        let mut end = start + first.end;
        for range in rest {
            self.bytes.copy_within(start + range.start..start + range.end, end);
            end += range.len();
        }
        self.bytes.truncate(end);
        self.consume(first.start);
    }

    /// Takes the next `count` bytes together with the memory that they are in, if nothing else is in it and `sharing`
    /// permits that.
    pub fn share(&mut self, count: usize, sharing: Sharing) -> Option<SharedBuffer> {
        let may_be_shared = match sharing {
            Sharing::Never => false,
            Sharing::IfFull => count >= SHARED_BYTES_MIN.max(self.bytes.capacity() / 2),
            Sharing::AsLast => true,
        };
        if !may_be_shared || count != self.unread().len() {
            return None;
        }
        let Buffer { bytes, consumed, .. } = std::mem::take(self);
        Some(SharedBuffer { range: consumed..bytes.len(), memory: Memory::Own(bytes) })
    }

    /// Prepares for a large body, received in large pieces.
    pub fn reserve_for_body(&mut self) {
        self.space();
        if memory::is_short() {
            return;
        }
        self.bytes.reserve(BODY_BUFFER_BYTES - self.bytes.len().min(BODY_BUFFER_BYTES));
    }

    /// Appends the unconsumed bytes of `other`.
    pub fn append(&mut self, other: &Buffer) {
        self.bytes.extend_from_slice(other.unread());
    }

    pub fn is_allocated(&self) -> bool {
        self.bytes.capacity() > 0
    }

    /// How many bytes fit into the memory that it has.
    pub fn room(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// True if its memory is, or will be, that for a response head and a short body.
    pub fn is_for_short_response(&self) -> bool {
        self.wanted_bytes == RESPONSE_BUFFER_BYTES
    }

    /// The vector to receive into, with spare capacity; only append to it.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.room() < ROOM_BYTES_MIN {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
            self.bytes.reserve(BUFFER_BYTES);
        }
        &mut self.bytes
    }
}

impl SharedBuffer {
    /// The same bytes for another reader.
    pub fn share(&mut self) -> SharedBuffer {
        if let Memory::Own(bytes) = &mut self.memory {
            self.memory = Memory::Shared(Arc::new(std::mem::take(bytes)));
        }
        let Memory::Shared(memory) = &self.memory else { unreachable!("it is shared") };
        SharedBuffer { memory: Memory::Shared(Arc::clone(memory)), range: self.range.clone() }
    }

    /// Its memory, to be used again, unless others still share it.
    pub fn into_memory(self) -> Option<Vec<u8>> {
        match self.memory {
            Memory::Own(bytes) => Some(bytes),
            Memory::Shared(memory) => Arc::into_inner(memory),
        }
    }
}

impl AsRef<[u8]> for SharedBuffer {
    fn as_ref(&self) -> &[u8] {
        let bytes = match &self.memory {
            Memory::Own(bytes) => bytes,
            Memory::Shared(memory) => &**memory,
        };
        &bytes[self.range.clone()]
    }
}

impl From<Vec<u8>> for SharedBuffer {
    fn from(bytes: Vec<u8>) -> SharedBuffer {
        SharedBuffer { range: 0..bytes.len(), memory: Memory::Own(bytes) }
    }
}

/// Memory that is not in use: what was used last is used next.
#[derive(Debug, Default)]
pub struct Pool {
    /// Empty vectors, by their sizes.
    vectors: [Vec<Vec<u8>>; POOLED.len()],
    /// Of requests that have waited.
    #[expect(clippy::vec_box, reason = "they are moved, in their boxes")]
    outlines: Vec<Box<Outline>>,
}

impl Pool {
    /// An empty vector with room for at least a head.
    pub fn take(&mut self) -> Vec<u8> {
        self.take_sized(BUFFER_BYTES)
    }

    pub fn take_buffer(&mut self) -> Buffer {
        Buffer { bytes: self.take(), ..Buffer::default() }
    }

    /// Gives `buffer` memory if it has none.
    pub fn fill(&mut self, buffer: Buffer) -> Buffer {
        if buffer.is_allocated() {
            return buffer;
        }
        Buffer { bytes: self.take_sized(buffer.wanted_bytes), ..buffer }
    }

    /// An empty vector with room for this many bytes, or at least for a head; no larger where memory is short. To enlarge a
    /// smaller one would cost more than to take one that has been enlarged before.
    pub fn take_sized(&mut self, wanted_bytes: usize) -> Vec<u8> {
        let is_large = wanted_bytes > BUFFER_BYTES && !memory::is_short();
        let wanted_bytes = if is_large { wanted_bytes } else { BUFFER_BYTES };
        let kept = self.vectors.iter_mut().zip(POOLED).filter(|(_, (bytes, _))| *bytes >= wanted_bytes);
        let bytes = kept.map(|(kept, _)| kept).find_map(Vec::pop);
        let size = POOLED.iter().map(|(bytes, _)| *bytes).find(|bytes| *bytes >= wanted_bytes);
        bytes.unwrap_or_else(|| Vec::with_capacity(size.unwrap_or(wanted_bytes)))
    }

    pub fn put(&mut self, mut bytes: Vec<u8>) {
        let capacity = bytes.capacity();
        if !(BUFFER_BYTES..=POOLED_BYTES_MAX).contains(&capacity) {
            return;
        }
        if memory::is_short() {
            *self = Pool::default();
        } else if let Some(index) = POOLED.iter().rposition(|(size, _)| capacity >= *size)
            && self.vectors[index].len() < POOLED[index].1
        {
            bytes.clear();
            self.vectors[index].push(bytes);
        }
    }

    pub fn put_buffer(&mut self, buffer: Buffer) {
        self.put(buffer.bytes);
    }

    /// The outline in memory that was used before, if there is some.
    pub fn keep_outline(&mut self, outline: Outline) -> Box<Outline> {
        match self.outlines.pop() {
            Some(mut place) => {
                *place = outline;
                place
            }
            None => Box::new(outline),
        }
    }

    pub fn put_outline(&mut self, outline: Box<Outline>) {
        if self.outlines.len() < OUTLINES_MAX {
            self.outlines.push(outline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consuming_and_growing() {
        let mut buffer = Pool::default().take_buffer();
        buffer.space().extend_from_slice(&[1; BUFFER_BYTES - 10]);
        buffer.consume(BUFFER_BYTES - 20);
        assert!(buffer.space().capacity() >= ROOM_BYTES_MIN);
        assert_eq!(buffer.unread(), [1; 10]);
        buffer.space().extend_from_slice(&[2, 3, 4]);
        buffer.remove(10, 2);
        assert_eq!(buffer.unread(), [[1; 10].as_slice(), &[4]].concat());
        buffer.consume(11);
        assert!(buffer.unread().is_empty());
    }

    #[test]
    fn a_response_buffer_is_reused_for_a_response() {
        for (is_long, room) in [(false, RESPONSE_BUFFER_BYTES), (true, BODY_BUFFER_BYTES)] {
            let mut pool = Pool::default();
            let filled = pool.fill(Buffer::for_response(is_long));
            let place = filled.bytes.as_ptr();
            pool.put_buffer(filled);
            pool.put(Vec::with_capacity(BUFFER_BYTES));
            let again = pool.fill(Buffer::for_response(is_long));
            assert!(again.bytes.as_ptr() == place && again.bytes.capacity() >= room);
            let usual = pool.fill(Buffer::default());
            assert!(usual.bytes.capacity() < RESPONSE_BUFFER_BYTES && pool.vectors.iter().all(Vec::is_empty));
        }
    }

    #[test]
    fn ranges_are_kept_in_order() {
        let check = |ranges: &[Range<usize>], expected: &[u8]| {
            let mut buffer = Pool::default().take_buffer();
            buffer.space().extend_from_slice(b"-0123456789");
            buffer.consume(1);
            buffer.keep(ranges);
            assert_eq!(buffer.unread(), expected, "{ranges:?}");
            buffer.space().extend_from_slice(b"x");
            assert_eq!(buffer.unread(), [expected, b"x"].concat(), "{ranges:?}");
        };
        check(&[], b"");
        check(std::slice::from_ref(&(0..10)), b"0123456789");
        check(std::slice::from_ref(&(2..2)), b"");
        check(&[2..4, 4..5, 8..10], b"23489");
    }

    #[test]
    fn only_what_fills_a_buffer_is_shared() {
        let of = |room: usize, count: usize| {
            let mut buffer = Buffer { bytes: Vec::with_capacity(room), ..Buffer::default() };
            buffer.bytes.resize(count + 1, 7);
            buffer.consume(1);
            buffer
        };
        let (mut full, half) = (of(BODY_BUFFER_BYTES, BODY_BUFFER_BYTES / 2), BODY_BUFFER_BYTES / 2);
        assert!(full.share(half - 1, Sharing::AsLast).is_none(), "there is more in it");
        assert!(full.share(half, Sharing::Never).is_none());
        let place = full.unread().as_ptr();
        let mut shared = full.share(half, Sharing::IfFull).expect("it fills half of it");
        assert!(
            !full.is_allocated() && shared.as_ref().as_ptr() == place && shared.as_ref() == vec![7; half]
        );
        let other = shared.share();
        assert_eq!(other.as_ref(), vec![7; half]);
        assert!(shared.into_memory().is_none(), "it is in use");
        assert_eq!(other.into_memory().map(|memory| memory.capacity()), Some(BODY_BUFFER_BYTES));
        assert!(of(BODY_BUFFER_BYTES, half - 1).share(half - 1, Sharing::IfFull).is_none());
        let mut short = of(BUFFER_BYTES, BUFFER_BYTES - 1);
        assert!(short.share(BUFFER_BYTES - 1, Sharing::IfFull).is_none(), "a copy costs less");
        assert_eq!(short.share(BUFFER_BYTES - 1, Sharing::AsLast).unwrap().as_ref(), [7; BUFFER_BYTES - 1]);
    }

    #[test]
    fn the_pool_keeps_only_what_fits() {
        let mut pool = Pool::default();
        pool.put(Vec::new());
        pool.put(Vec::with_capacity(POOLED_BYTES_MAX + 1));
        assert!(pool.vectors.iter().all(Vec::is_empty));
        pool.put(vec![1; BUFFER_BYTES]);
        assert!(pool.take().is_empty());
        let (_, most) = POOLED[0];
        (0..=most).for_each(|_| pool.put(Vec::with_capacity(BUFFER_BYTES)));
        assert_eq!(pool.vectors.each_ref().map(Vec::len), [most, 0, 0]);
        assert!(pool.fill(Buffer::for_response(false)).room() >= RESPONSE_BUFFER_BYTES);
        pool.put(Vec::with_capacity(POOLED_BYTES_MAX));
        assert!(pool.fill(Buffer::for_response(false)).room() >= POOLED_BYTES_MAX, "rather than a new one");
    }
}
