//! Buffers for bytes in flight, taken from a pool while in use, so that an idle connection holds none.

use crate::memory;

pub const BUFFER_BYTES: usize = 4 * 1024;

/// The size of a buffer for a large body, the largest that the pool keeps.
const BODY_BUFFER_BYTES: usize = 64 * 1024;

/// The size of a buffer for a response head and a short body; larger than usual to avoid a second system call.
const RESPONSE_BUFFER_BYTES: usize = 16 * 1024;

/// How many vectors of the pool, from the last returned on, are looked at for one of that size.
const LARGE_LOOKED_AT: usize = 8;

/// The smallest free space that is worth a system call.
const ROOM_BYTES_MIN: usize = 1024;

const POOL_BUFFERS_MAX: usize = 256;

/// Larger buffers are not returned to the pool; a TLS-encrypted part of a body still is.
const POOLED_BYTES_MAX: usize = 68 * 1024;

/// Received bytes, some of which have been consumed from the front.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    consumed: usize,
    /// If it has no memory yet, request a larger buffer than usual.
    is_for_response: bool,
}

impl Buffer {
    /// An empty buffer that will get room for a head and a short body.
    pub fn for_response() -> Buffer {
        Buffer { is_for_response: true, ..Buffer::default() }
    }

    /// The same kind of buffer, without memory.
    pub fn same_kind(&self) -> Buffer {
        Buffer { is_for_response: self.is_for_response, ..Buffer::default() }
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

    /// The vector to receive into, with spare capacity; only append to it.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < ROOM_BYTES_MIN {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
            self.bytes.reserve(BUFFER_BYTES);
        }
        &mut self.bytes
    }
}

#[derive(Debug, Default)]
pub struct Pool(Vec<Vec<u8>>);

impl Pool {
    /// An empty vector with room for at least a head.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    pub fn take_buffer(&mut self) -> Buffer {
        Buffer { bytes: self.take(), ..Buffer::default() }
    }

    /// Gives `buffer` memory if it has none.
    pub fn fill(&mut self, buffer: Buffer) -> Buffer {
        if buffer.is_allocated() {
            return buffer;
        }
        let is_large = buffer.is_for_response && !memory::is_short();
        let bytes = if is_large { self.take_large() } else { self.take() };
        Buffer { bytes, consumed: 0, is_for_response: buffer.is_for_response }
    }

    /// An empty vector with room for a response head and a short body. To enlarge a smaller one would cost more than to
    /// look for one that has been enlarged before.
    fn take_large(&mut self) -> Vec<u8> {
        let first = self.0.len().saturating_sub(LARGE_LOOKED_AT);
        match self.0[first..].iter().rposition(|bytes| bytes.capacity() >= RESPONSE_BUFFER_BYTES) {
            Some(index) => self.0.swap_remove(first + index),
            None => Vec::with_capacity(RESPONSE_BUFFER_BYTES),
        }
    }

    pub fn put(&mut self, mut bytes: Vec<u8>) {
        if memory::is_short() {
            self.0 = Vec::new();
        } else if (BUFFER_BYTES..=POOLED_BYTES_MAX).contains(&bytes.capacity())
            && self.0.len() < POOL_BUFFERS_MAX
        {
            bytes.clear();
            self.0.push(bytes);
        }
    }

    pub fn put_buffer(&mut self, buffer: Buffer) {
        self.put(buffer.bytes);
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
        let mut pool = Pool::default();
        let filled = pool.fill(Buffer::for_response());
        let place = filled.bytes.as_ptr();
        pool.put_buffer(filled);
        pool.put(Vec::with_capacity(BUFFER_BYTES));
        let again = pool.fill(Buffer::for_response());
        assert!(again.bytes.as_ptr() == place && again.bytes.capacity() >= RESPONSE_BUFFER_BYTES);
        assert!(pool.fill(Buffer::default()).bytes.capacity() < RESPONSE_BUFFER_BYTES && pool.0.is_empty());
    }

    #[test]
    fn the_pool_keeps_only_what_fits() {
        let mut pool = Pool::default();
        pool.put(Vec::new());
        pool.put(Vec::with_capacity(POOLED_BYTES_MAX + 1));
        assert!(pool.0.is_empty());
        pool.put(vec![1; BUFFER_BYTES]);
        assert!(pool.take().is_empty());
    }
}
