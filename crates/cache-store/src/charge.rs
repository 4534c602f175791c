//! A part of the memory budget that something in transit has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the budget, given back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    used_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

impl Charge {
    /// A charge for `bytes` that are among the used ones already.
    pub(crate) fn new(used_bytes: &Arc<AtomicUsize>, bytes: usize) -> Charge {
        Charge { used_bytes: Arc::clone(used_bytes), bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes of the used ones are its own now.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}
