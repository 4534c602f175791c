//! Invariants of every policy under random operations, and small cases of some.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{ALL, Departure, Item, Kind, by_name};

/// Runs requests through a cache of `budget` bytes; returns which of them hit.
fn run(kind: Kind, budget: u64, requests: &[(u64, u64)]) -> Vec<bool> {
    let mut policy = (kind.start)(budget);
    let (mut held, mut free, mut used) = (HashMap::<u64, (u32, u64)>::new(), Vec::new(), 0);
    let mut hits = Vec::new();
    for &(identity, size_bytes) in requests {
        if let Some((slot, _)) = held.get(&identity) {
            policy.touch(*slot);
            hits.push(true);
            continue;
        }
        hits.push(false);
        if size_bytes > budget {
            continue;
        }
        while used + size_bytes > budget {
            let slot = policy.choose().expect("a full cache has something to evict");
            policy.removed(slot, Departure::Evicted);
            let (&gone, &(_, size)) =
                held.iter().find(|(_, (at, _))| *at == slot).expect("it chose a resident");
            held.remove(&gone);
            used -= size;
            free.push(slot);
        }
        let slot = free.pop().unwrap_or(held.len() as u32);
        policy.insert(Item { slot, identity, size_bytes });
        held.insert(identity, (slot, size_bytes));
        used += size_bytes;
    }
    // The remaining objects can be removed in any order, after which there is nothing to choose.
    for (slot, _) in held.values() {
        policy.removed(*slot, Departure::Removed);
    }
    assert_eq!(policy.choose(), None, "{kind:?}");
    hits
}

proptest! {
    #[test]
    fn the_budget_is_kept_and_only_what_came_is_found(
        requests in prop::collection::vec((0..40_u64, 1..30_u64), 1..400),
        budget in 1..200_u64,
    ) {
        for kind in ALL {
            let hits = run(*kind, budget, &requests);
            for (index, hit) in hits.iter().enumerate().filter(|(_, hit)| **hit) {
                let (identity, _) = requests[index];
                prop_assert!(requests[..index].iter().any(|(seen, _)| *seen == identity), "{kind:?} {hit}");
            }
        }
    }

    #[test]
    fn a_cache_for_all_misses_once_each(requests in prop::collection::vec((0..40_u64, 1..2_u64), 1..200)) {
        for kind in ALL {
            // S3-FIFO has room for all if its small queue has: nothing leaves before the budget is full.
            let misses = run(*kind, 40, &requests).iter().filter(|hit| !**hit).count();
            let distinct = requests.iter().map(|(identity, _)| identity).collect::<std::collections::HashSet<_>>();
            prop_assert_eq!(misses, distinct.len(), "{:?}", kind);
        }
    }
}

fn check(name: &str, budget: u64, requests: &str, expected: &str) {
    let kind = by_name(name).expect("a policy of the table");
    let requests: Vec<_> = requests.bytes().map(|letter| (u64::from(letter), 1)).collect();
    let hits: String = run(kind, budget, &requests).iter().map(|hit| if *hit { '+' } else { '-' }).collect();
    assert_eq!(hits, expected, "{name}");
}

#[test]
fn who_goes_first() {
    check("lru", 3, "abcadabcd", "---+-+---");
    check("fifo", 3, "abcadab", "---+---");
    check("lfu-da", 2, "aaabaca", "-++-+-+");
    check("sieve", 3, "abacdab", "--+--+-");
}

#[test]
fn gdsf_lets_the_large_one_go() {
    let kind = by_name("gdsf").unwrap();
    assert_eq!(
        run(kind, 100, &[(1, 90), (2, 5), (3, 50), (2, 5), (1, 90)]),
        [false, false, false, true, false]
    );
}

#[test]
fn s3_fifo_remembers_whom_it_sent_away() {
    // One scan does not evict frequently used objects.
    let mut requests: Vec<(u64, u64)> = Vec::new();
    for round in 0..40 {
        requests.extend((0..5).map(|often| (often, 1)));
        requests.extend((0..10).map(|once| (1000 + round * 10 + once, 1)));
    }
    let hits = run(by_name("s3-fifo").unwrap(), 12, &requests);
    let late_hits = hits[300..].iter().filter(|hit| **hit).count();
    assert_eq!(late_hits, 100, "the five are always found in the end");
    let lru_hits = run(by_name("lru").unwrap(), 12, &requests).iter().filter(|hit| **hit).count();
    assert_eq!(lru_hits, 0);
}
