//! Bytes of a body on their way through the implementation's queues, counted until they have left them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, Bytes};

/// Bytes queued for sending, over a whole connection.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicUsize>);

impl Gauge {
    pub fn value(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that count as long as they are here.
#[derive(Debug)]
pub struct Held {
    bytes: Bytes,
    gauge: Gauge,
}

impl Held {
    pub fn new(bytes: Bytes, gauge: &Gauge) -> Held {
        gauge.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Held { bytes, gauge: gauge.clone() }
    }

    fn release(&mut self, count: usize) {
        self.gauge.0.fetch_sub(count, Ordering::Relaxed);
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
        assert_eq!((first.chunk(), gauge.value()), (b"llo".as_slice(), 6));
        drop(first);
        assert_eq!(gauge.value(), 3);
        drop(second);
        assert_eq!(gauge.value(), 0);
    }
}
