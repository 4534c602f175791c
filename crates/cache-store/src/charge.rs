//! A share of the memory budget held by a body in transit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the budget, returned on drop.
#[derive(Debug)]
pub struct Charge {
    used_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

impl Charge {
    /// A charge for `bytes` that are already counted in `used_bytes`.
    pub(crate) fn new(used_bytes: &Arc<AtomicUsize>, bytes: usize) -> Charge {
        Charge { used_bytes: Arc::clone(used_bytes), bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the charge to `bytes`, which the caller has already counted.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}
