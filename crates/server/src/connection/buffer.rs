//! Memory for bytes in flight: taken from a pool while in use, so that an idle connection holds none.

/// The size of a buffer from the pool.
pub const BUFFER_BYTES: usize = 4 * 1024;

/// The size of a buffer for a large body: as much as the pool keeps.
const BODY_BUFFER_BYTES: usize = 64 * 1024;

/// The size of a buffer for the head of a response and a short body, which a second system call would cost more than room.
const ROOMY_BYTES: usize = 16 * 1024;

/// The least room worth a system call.
const ROOM_BYTES_MIN: usize = 1024;

const POOL_BUFFERS_MAX: usize = 256;

/// Buffers that grew beyond this are not kept: a part of a body as TLS encrypts it still is.
const POOLED_BYTES_MAX: usize = 68 * 1024;

/// Received bytes, of which the first have been consumed.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    consumed: usize,
    /// One that owns no memory yet is to have more than usual.
    is_roomy: bool,
}

impl Buffer {
    /// One without memory, which is to have room for a head and a short body at once.
    pub fn roomy() -> Buffer {
        Buffer { is_roomy: true, ..Buffer::default() }
    }

    /// The same without its memory.
    pub fn unfilled(&self) -> Buffer {
        Buffer { is_roomy: self.is_roomy, ..Buffer::default() }
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

    /// Makes room for a large body, whose bytes come many at a time.
    pub fn expect_much(&mut self) {
        self.space();
        self.bytes.reserve(BODY_BUFFER_BYTES - self.bytes.len().min(BODY_BUFFER_BYTES));
    }

    /// Adds what `other` has not consumed.
    pub fn append(&mut self, other: &Buffer) {
        self.bytes.extend_from_slice(other.unread());
    }

    pub fn is_allocated(&self) -> bool {
        self.bytes.capacity() > 0
    }

    /// The vector to receive into: only append to it. It has spare capacity.
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
    /// An empty vector with room for a head at least.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    pub fn take_buffer(&mut self) -> Buffer {
        Buffer { bytes: self.take(), ..Buffer::default() }
    }

    /// `buffer`, with memory if it has none.
    pub fn fill(&mut self, buffer: Buffer) -> Buffer {
        if buffer.is_allocated() {
            return buffer;
        }
        let mut filled = Buffer { is_roomy: buffer.is_roomy, ..self.take_buffer() };
        if buffer.is_roomy {
            filled.bytes.reserve(ROOMY_BYTES);
        }
        filled
    }

    pub fn put(&mut self, mut bytes: Vec<u8>) {
        if (BUFFER_BYTES..=POOLED_BYTES_MAX).contains(&bytes.capacity()) && self.0.len() < POOL_BUFFERS_MAX {
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
    fn the_pool_keeps_only_what_fits() {
        let mut pool = Pool::default();
        pool.put(Vec::new());
        pool.put(Vec::with_capacity(POOLED_BYTES_MAX + 1));
        assert!(pool.0.is_empty());
        pool.put(vec![1; BUFFER_BYTES]);
        assert!(pool.take().is_empty());
    }
}
