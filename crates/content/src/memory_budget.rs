//! A memory budget for generated documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug)]
pub struct MemoryBudget {
    left_bytes: Arc<AtomicU64>,
}

/// A share of the budget, returned on drop.
#[derive(Debug)]
pub struct MemoryShare {
    left_bytes: Arc<AtomicU64>,
    bytes: u64,
}

impl MemoryBudget {
    pub fn new(bytes: u64) -> MemoryBudget {
        MemoryBudget { left_bytes: Arc::new(AtomicU64::new(bytes)) }
    }

    /// Takes `bytes`, if so many are left.
    pub fn take(&self, bytes: u64) -> Option<MemoryShare> {
        let less = |left: u64| left.checked_sub(bytes);
        self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(MemoryShare { left_bytes: Arc::clone(&self.left_bytes), bytes })
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.left_bytes.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = MemoryBudget::new(10);
        let shares = [budget.take(6), budget.clone().take(4)].map(Option::unwrap);
        assert!(budget.take(1).is_none() && budget.take(0).is_some());
        drop(shares);
        assert!(budget.take(11).is_none() && budget.take(10).is_some());
    }
}
