//! Hit-for-miss: requests for objects whose response could recently not be stored, or not be shared without revalidation,
//! are not coalesced.
//!
//! Otherwise each client of such an object would wait for the response to the one before, only to find that it cannot
//! use it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sojourn_cache_store::Key;

/// How many keys are remembered; above that, expired ones are dropped, or else all.
const KEYS_MAX: usize = 16_384;

const SECONDS: i64 = 30;

#[derive(Debug, Default)]
pub(super) struct HitForMiss {
    /// The number of entries, usually zero.
    count: AtomicUsize,
    /// When each entry expires, by the key's hash. Keys with the same hash merely affect whether requests are
    /// coalesced.
    until: Mutex<HashMap<u128, i64>>,
}

impl HitForMiss {
    /// Remembers `key`, whose response could not be stored or shared at `now`.
    pub fn remember(&self, key: &Key<'_>, now: i64) {
        let mut until = self.lock();
        if until.len() >= KEYS_MAX {
            until.retain(|_, end| *end > now);
        }
        if until.len() >= KEYS_MAX {
            until.clear();
        }
        until.insert(key.hash(), now + SECONDS);
        self.count.store(until.len(), Ordering::Relaxed);
    }

    /// Removes `key`, whose response is being stored and may be shared.
    pub fn forget(&self, key: &Key<'_>) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut until = self.lock();
            until.remove(&key.hash());
            self.count.store(until.len(), Ordering::Relaxed);
        }
    }

    /// Returns true if requests for `key` must not be coalesced at `now`.
    pub fn holds(&self, key: &Key<'_>, now: i64) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && self.lock().get(&key.hash()).is_some_and(|end| (now..=now + SECONDS).contains(end))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, i64>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_for_how_long() {
        let passing = HitForMiss::default();
        let (one, other) = (Key::new(b"http://h/1"), Key::new(b"http://h/2"));
        passing.remember(&one, 100);
        assert!(
            passing.holds(&one, 100) && passing.holds(&one, 100 + SECONDS) && !passing.holds(&other, 100)
        );
        assert!(!passing.holds(&one, 101 + SECONDS));
        assert!(!passing.holds(&one, 99), "the clock went back");
        passing.forget(&one);
        assert!(!passing.holds(&one, 100));
    }

    #[test]
    fn it_is_bounded() {
        let passing = HitForMiss::default();
        let text = |number: usize| format!("http://h/{number}").into_bytes();
        for number in 0..2 * KEYS_MAX + 10 {
            passing.remember(&Key::new(&text(number)), 100);
            assert!(passing.lock().len() <= KEYS_MAX);
        }
        assert!(passing.holds(&Key::new(&text(2 * KEYS_MAX + 9)), 100));
        for number in 0..2 * KEYS_MAX + 10 {
            passing.remember(&Key::new(&text(number)), 100 + number as i64);
        }
        assert!(passing.lock().len() <= KEYS_MAX, "those whose time is over went");
    }
}
