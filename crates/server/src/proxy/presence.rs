//! What all loops know of an upstream: where its name leads, and whether it answers those who ask after it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// It is found out beside the loops, by `watch`.
#[derive(Debug)]
pub struct Presence {
    addresses: Mutex<Arc<[SocketAddr]>>,
    is_failing: AtomicBool,
    checks: AtomicU64,
    checks_failed: AtomicU64,
}

impl Presence {
    /// At these addresses; nothing else is known.
    pub fn new(addresses: &[SocketAddr]) -> Presence {
        Presence {
            addresses: Mutex::new(addresses.into()),
            is_failing: AtomicBool::new(false),
            checks: AtomicU64::new(0),
            checks_failed: AtomicU64::new(0),
        }
    }

    /// Where it is reached; the next one is tried when one fails.
    pub fn addresses(&self) -> Arc<[SocketAddr]> {
        Arc::clone(&self.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its name leads here now.
    pub fn move_to(&self, addresses: &[SocketAddr]) {
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses.into();
    }

    /// Whether it has failed checks, and not passed enough since.
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Whether it counts as failing from now on.
    pub fn judge(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::Relaxed);
    }

    /// It was checked.
    pub fn count(&self, has_passed: bool) {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.checks_failed.fetch_add(u64::from(!has_passed), Ordering::Relaxed);
    }

    /// Checks so far, and how many of them failed.
    pub fn counts(&self) -> (u64, u64) {
        (self.checks.load(Ordering::Relaxed), self.checks_failed.load(Ordering::Relaxed))
    }
}
