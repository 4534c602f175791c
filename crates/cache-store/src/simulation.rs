//! Simulates a policy on a trace: misses and missed bytes for any cache size.
//!
//! Every cache size is simulated separately. Stack distances give LRU's misses for all sizes in one pass, but are exact
//! only for equal object sizes: an object evicted for a large one does not return when the large one leaves, contrary
//! to what a stack of bytes says.
//!
//! The conventions are those of libCacheSim, so that results are comparable: only an object's own bytes count, an
//! object larger than the cache always misses, and a request hits whatever size it names; the object keeps its first
//! size.

use std::collections::BTreeSet;

use crate::AdmissionKind;
use crate::replacement::{Departure, Item, Kind};

/// The name in tables of Belady's policy, which knows the future and exists only in simulations.
pub const BELADY: &str = "belady";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object's number, from 0.
    pub object: u32,
    pub size_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Cache {
    pub budget_bytes: u64,
    /// The largest object that the cache accepts.
    pub object_bytes_max: u64,
    pub admission: AdmissionKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    pub requests: u64,
    pub bytes: u64,
}

/// Simulates `requests` on an empty cache; misses during warm-up count too.
pub fn simulate(requests: &[Request], policy: Kind, cache: &Cache) -> Misses {
    let mut policy = (policy.start)(cache.budget_bytes);
    let mut admission = (cache.admission.start)(cache.budget_bytes);
    let mut residents = Residents::new(requests);
    let mut misses = Misses::default();
    for request in requests {
        let (slot, identity) = (request.object, u64::from(request.object));
        admission.record_lookup(identity);
        if residents.holds(slot) {
            policy.touch(slot);
            continue;
        }
        misses.count(request);
        if request.size_bytes > cache.budget_bytes.min(cache.object_bytes_max) {
            continue;
        }
        let candidate = Item { slot, identity, size_bytes: request.size_bytes };
        if residents.bytes + request.size_bytes > cache.budget_bytes {
            let victim = policy.choose().map(|slot| residents.item(slot));
            if !admission.admits(candidate, victim) {
                continue;
            }
        }
        while residents.bytes + request.size_bytes > cache.budget_bytes {
            let Some(victim) = policy.choose() else { break };
            policy.removed(victim, Departure::Evicted);
            residents.remove(victim);
        }
        policy.insert(candidate);
        residents.insert(slot, request.size_bytes);
    }
    misses
}

/// The misses of Belady's policy, which evicts the object whose next request is furthest away. For objects of one size
/// it is optimal among policies that admit every object.
pub fn belady(requests: &[Request], cache: &Cache) -> Misses {
    let next_uses = next_uses(requests);
    let mut residents = Residents::new(requests);
    // Ordered by next use; `uses` finds the entry of an object.
    let mut order = BTreeSet::<(usize, u32)>::new();
    let mut uses = vec![usize::MAX; residents.sizes.len()];
    let mut misses = Misses::default();
    for (request, next_use) in requests.iter().zip(next_uses) {
        let object = request.object;
        if residents.holds(object) {
            order.remove(&(uses[object as usize], object));
        } else {
            misses.count(request);
            if request.size_bytes > cache.budget_bytes.min(cache.object_bytes_max) {
                continue;
            }
            while residents.bytes + request.size_bytes > cache.budget_bytes {
                let Some((_, victim)) = order.pop_last() else { break };
                residents.remove(victim);
            }
            residents.insert(object, request.size_bytes);
        }
        uses[object as usize] = next_use;
        order.insert((next_use, object));
    }
    misses
}

/// For each request, the index of the next request for the same object.
fn next_uses(requests: &[Request]) -> Vec<usize> {
    let mut upcoming = vec![usize::MAX; objects(requests)];
    let mut next_uses = vec![usize::MAX; requests.len()];
    for (index, request) in requests.iter().enumerate().rev() {
        next_uses[index] = std::mem::replace(&mut upcoming[request.object as usize], index);
    }
    next_uses
}

fn objects(requests: &[Request]) -> usize {
    requests.iter().map(|request| request.object as usize + 1).max().unwrap_or(0)
}

/// The cached objects and their sizes.
struct Residents {
    sizes: Vec<Option<u64>>,
    bytes: u64,
}

impl Residents {
    fn new(requests: &[Request]) -> Residents {
        Residents { sizes: vec![None; objects(requests)], bytes: 0 }
    }

    fn holds(&self, object: u32) -> bool {
        self.sizes[object as usize].is_some()
    }

    fn item(&self, slot: u32) -> Item {
        let size_bytes = self.sizes[slot as usize].unwrap_or(0);
        Item { slot, identity: u64::from(slot), size_bytes }
    }

    fn insert(&mut self, object: u32, size_bytes: u64) {
        self.sizes[object as usize] = Some(size_bytes);
        self.bytes += size_bytes;
    }

    fn remove(&mut self, object: u32) {
        self.bytes -= self.sizes[object as usize].take().unwrap_or(0);
    }
}

impl Misses {
    fn count(&mut self, request: &Request) {
        self.requests += 1;
        self.bytes += request.size_bytes;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ADMISSIONS;
    use crate::replacement;

    fn cache(budget_bytes: u64) -> Cache {
        Cache { budget_bytes, object_bytes_max: u64::MAX, admission: ADMISSIONS[0] }
    }

    fn requests(pairs: &[(u32, u64)]) -> Vec<Request> {
        pairs.iter().map(|&(object, size_bytes)| Request { object, size_bytes }).collect()
    }

    #[test]
    fn the_size_at_the_first_request_counts_and_too_large_passes_by() {
        let lru = replacement::by_name("lru").unwrap();
        let trace = requests(&[(0, 4), (0, 9), (1, 20), (2, 6), (0, 4)]);
        assert_eq!(simulate(&trace, lru, &cache(10)), Misses { requests: 3, bytes: 30 });
    }

    #[test]
    fn the_future_decides() {
        let trace = requests(&[(0, 1), (1, 1), (2, 1), (0, 1), (1, 1), (2, 1)]);
        assert_eq!(belady(&trace, &cache(2)).requests, 4);
        let lru = replacement::by_name("lru").unwrap();
        assert_eq!(simulate(&trace, lru, &cache(2)).requests, 6);
    }

    proptest! {
        #[test]
        fn nobody_beats_the_future_with_objects_of_one_size(
            objects in prop::collection::vec(0..30_u32, 1..500), budget in 1..30_u64,
        ) {
            let trace = requests(&objects.iter().map(|object| (*object, 1)).collect::<Vec<_>>());
            let least = belady(&trace, &cache(budget));
            // A policy that may refuse an object can do better than one that must admit it.
            for policy in replacement::ALL {
                let misses = simulate(&trace, *policy, &cache(budget));
                prop_assert!(misses.requests >= least.requests, "{policy:?}");
            }
        }

        #[test]
        fn a_larger_lru_cache_misses_no_more(
            objects in prop::collection::vec(0..30_u32, 1..500), budget in 1..30_u64,
        ) {
            let trace = requests(&objects.iter().map(|object| (*object, 1)).collect::<Vec<_>>());
            let lru = replacement::by_name("lru").unwrap();
            let smaller = simulate(&trace, lru, &cache(budget));
            prop_assert!(simulate(&trace, lru, &cache(budget + 1)).requests <= smaller.requests);
        }
    }
}
