//! Counts the body bytes that a connection holds: those in `h2`'s queues until they are sent, and those read ahead for
//! streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::{Buf, Bytes};

/// The totals of a connection.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<Sums>);

#[derive(Debug, Default)]
struct Sums {
    queued: AtomicUsize,
    read: AtomicUsize,
    left: AtomicU64,
}

impl Gauge {
    /// Bytes queued for sending.
    pub fn value(&self) -> usize {
        self.0.queued.load(Ordering::Relaxed)
    }

    /// Bytes read from files but not queued yet.
    pub fn read_bytes(&self) -> usize {
        self.0.read.load(Ordering::Relaxed)
    }

    /// Bytes sent from the queues since the start of the connection.
    pub fn left_bytes(&self) -> u64 {
        self.0.left.load(Ordering::Relaxed)
    }
}

/// Bytes of a slice that was read for a stream, or is being read.
#[derive(Debug)]
pub struct ReadAhead {
    bytes: usize,
    gauge: Gauge,
}

impl ReadAhead {
    pub fn new(bytes: usize, gauge: &Gauge) -> ReadAhead {
        gauge.0.read.fetch_add(bytes, Ordering::Relaxed);
        ReadAhead { bytes, gauge: gauge.clone() }
    }

    pub fn shrink_to(&mut self, bytes: usize) {
        let gone = self.bytes.saturating_sub(bytes);
        self.bytes -= gone;
        self.gauge.0.read.fetch_sub(gone, Ordering::Relaxed);
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Bytes that are counted for as long as they exist.
#[derive(Debug)]
pub struct Held {
    bytes: Bytes,
    gauge: Gauge,
}

impl Held {
    pub fn new(bytes: Bytes, gauge: &Gauge) -> Held {
        gauge.0.queued.fetch_add(bytes.len(), Ordering::Relaxed);
        Held { bytes, gauge: gauge.clone() }
    }

    fn release(&mut self, count: usize) {
        self.gauge.0.queued.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Buf for Held {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.gauge.0.left.fetch_add(count as u64, Ordering::Relaxed);
        self.release(count);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_until_it_has_left() {
        let gauge = Gauge::default();
        let mut first = Held::new(Bytes::from_static(b"hello"), &gauge);
        let second = Held::new(Bytes::from_static(b"you"), &gauge);
        first.advance(2);
        assert_eq!((first.chunk(), gauge.value(), gauge.left_bytes()), (b"llo".as_slice(), 6, 2));
        drop(first);
        assert_eq!(gauge.value(), 3);
        drop(second);
        assert_eq!((gauge.value(), gauge.left_bytes()), (0, 2));
        let mut slice = ReadAhead::new(10, &gauge);
        slice.shrink_to(4);
        assert_eq!(gauge.read_bytes(), 4);
        drop(slice);
        assert_eq!(gauge.read_bytes(), 0);
    }
}
