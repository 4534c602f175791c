//! Admission policies: decide by size and request frequency whether an object may enter the cache.

use std::hash::{BuildHasher, Hash};

use hashbrown::DefaultHashBuilder;

use crate::replacement::Item;

/// An admission policy. Each shard has its own, which sees every lookup.
pub trait Admission: Send {
    /// Records a lookup, whether it hit or not.
    fn record_lookup(&mut self, identity: u64);

    /// Returns true if `candidate` may replace `victim`, the object that would be evicted first; `None` if nothing
    /// needs to be evicted.
    fn admits(&mut self, candidate: Item, victim: Option<Item>) -> bool;
}

#[derive(Clone, Copy)]
pub struct AdmissionKind {
    /// The name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// Makes a policy for a cache of this size.
    pub start: fn(budget_bytes: u64) -> Box<dyn Admission>,
}

impl std::fmt::Debug for AdmissionKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Every admission policy; the first is the default.
pub const ADMISSIONS: &[AdmissionKind] = &[
    AdmissionKind { name: "all", summary: "everything", start: |_| Box::new(All) },
    AdmissionKind {
        name: "frequency",
        summary: "admits objects requested more often than the one to evict (TinyLFU)",
        start: |budget_bytes| Box::new(Frequency::new(budget_bytes)),
    },
];

/// The policy called `name` in [`ADMISSIONS`].
pub fn admission_by_name(name: &str) -> Option<AdmissionKind> {
    ADMISSIONS.iter().copied().find(|kind| kind.name == name)
}

#[derive(Debug)]
struct All;

impl Admission for All {
    fn record_lookup(&mut self, _: u64) {}

    fn admits(&mut self, _: Item, _: Option<Item>) -> bool {
        true
    }
}

/// TinyLFU (ACM Transactions on Storage 13(4), 2017): estimates recent request frequencies by a count-min sketch. When
/// the sketch has counted ten times as many requests as it has columns, all counters are halved.
#[derive(Debug)]
pub struct Frequency {
    rows: [Box<[u8]>; ROWS],
    hasher: DefaultHashBuilder,
    counted: u64,
}

const ROWS: usize = 4;
/// The sketch has one column per this many bytes of cache.
const BYTES_PER_COLUMN: u64 = 4 * 1024;
const COLUMNS_MIN: u64 = 1 << 10;
const COLUMNS_MAX: u64 = 1 << 22;
const COUNT_MAX: u8 = 15;
const REQUESTS_PER_COLUMN: u64 = 10;

impl Frequency {
    pub fn new(budget_bytes: u64) -> Frequency {
        let columns = (budget_bytes / BYTES_PER_COLUMN).clamp(COLUMNS_MIN, COLUMNS_MAX).next_power_of_two();
        let row = || vec![0; columns as usize].into_boxed_slice();
        Frequency { rows: [row(), row(), row(), row()], hasher: DefaultHashBuilder::default(), counted: 0 }
    }

    fn places(&self, identity: u64) -> [usize; ROWS] {
        let mask = self.rows[0].len() - 1;
        std::array::from_fn(|row| {
            let mut state = self.hasher.build_hasher();
            (row, identity).hash(&mut state);
            std::hash::Hasher::finish(&state) as usize & mask
        })
    }

    fn estimate(&self, identity: u64) -> u8 {
        let places = self.places(identity);
        self.rows.iter().zip(places).map(|(row, place)| row[place]).min().unwrap_or(0)
    }
}

impl Admission for Frequency {
    fn record_lookup(&mut self, identity: u64) {
        let places = self.places(identity);
        for (row, place) in self.rows.iter_mut().zip(places) {
            row[place] = (row[place] + 1).min(COUNT_MAX);
        }
        self.counted += 1;
        if self.counted >= REQUESTS_PER_COLUMN * self.rows[0].len() as u64 {
            self.counted /= 2;
            self.rows.iter_mut().flatten().for_each(|count| *count /= 2);
        }
    }

    fn admits(&mut self, candidate: Item, victim: Option<Item>) -> bool {
        victim.is_none_or(|victim| self.estimate(candidate.identity) > self.estimate(victim.identity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(identity: u64) -> Item {
        Item { slot: 0, identity, size_bytes: 1 }
    }

    #[test]
    fn who_is_asked_for_more_gets_in() {
        let mut rule = Frequency::new(0);
        (0..5).for_each(|_| rule.record_lookup(1));
        rule.record_lookup(2);
        assert!(rule.admits(item(1), Some(item(2))));
        assert!(!rule.admits(item(2), Some(item(1))));
        assert!(!rule.admits(item(2), Some(item(2))), "a draw keeps who is there");
        assert!(rule.admits(item(3), None));
    }

    #[test]
    fn old_fame_fades() {
        let mut rule = Frequency::new(0);
        (0..100).for_each(|_| rule.record_lookup(1));
        (0..2 * REQUESTS_PER_COLUMN * COLUMNS_MIN).for_each(|other| rule.record_lookup(1000 + other));
        (0..14).for_each(|_| rule.record_lookup(2));
        assert!(rule.admits(item(2), Some(item(1))));
    }
}
