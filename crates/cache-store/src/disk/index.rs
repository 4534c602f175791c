//! The index of the disk, used for the budget and the replacement policy, with a few dozen bytes per object.
//!
//! Lookups do not depend on it: they try the file. It is rebuilt in the background at start, and files that are not
//! indexed yet are still found.

use std::collections::HashMap;

use crate::admission::{Admission, AdmissionKind};
use crate::key::identity;
use crate::replacement::{Departure, Item, Kind, Policy};

pub struct Index {
    slots: HashMap<u128, u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    policy: Box<dyn Policy>,
    admission: Box<dyn Admission>,
    budget_bytes: u64,
    used_bytes: u64,
    /// True once every file has been indexed since the start.
    pub is_complete: bool,
    pub evictions: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u128,
    bytes: u64,
}

impl Index {
    pub fn new(budget_bytes: u64, policy: Kind, admission: AdmissionKind) -> Index {
        Index {
            slots: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            policy: (policy.start)(budget_bytes),
            admission: (admission.start)(budget_bytes),
            budget_bytes,
            used_bytes: 0,
            is_complete: false,
            evictions: 0,
        }
    }

    /// Records a request for an object that was not in memory.
    pub fn record_lookup(&mut self, hash: u128) {
        self.admission.record_lookup(identity(hash));
    }

    /// Returns true if an object of this size may be written. Called only if another must be evicted for it.
    pub fn admits(&mut self, hash: u128, bytes: u64) -> bool {
        if self.used_bytes + bytes <= self.budget_bytes {
            return true;
        }
        let victim = self.policy.choose().map(|slot| {
            let Entry { hash, bytes } = self.entries[slot as usize];
            Item { slot, identity: identity(hash), size_bytes: bytes }
        });
        self.admission.admits(Item { slot: u32::MAX, identity: identity(hash), size_bytes: bytes }, victim)
    }

    pub fn contains(&self, hash: u128) -> bool {
        self.slots.contains_key(&hash)
    }

    pub fn touch(&mut self, hash: u128) {
        if let Some(slot) = self.slots.get(&hash) {
            self.policy.touch(*slot);
        }
    }

    /// Adds an object of this size, replacing one with the same hash.
    pub fn insert(&mut self, hash: u128, bytes: u64) {
        self.take_out(hash, Departure::Removed);
        let entry = Entry { hash, bytes };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.slots.insert(hash, slot);
        self.used_bytes += bytes;
        self.policy.insert(Item { slot, identity: identity(hash), size_bytes: bytes });
    }

    pub fn remove(&mut self, hash: u128) {
        self.take_out(hash, Departure::Removed);
    }

    /// Reserves `bytes` of the budget; adds the objects to remove for it to `evicted`. False if that is not enough.
    pub fn reserve(&mut self, bytes: u64, evicted: &mut Vec<u128>) -> bool {
        if bytes > self.budget_bytes {
            return false;
        }
        self.used_bytes += bytes;
        self.shrink(evicted);
        if self.used_bytes > self.budget_bytes {
            self.used_bytes -= bytes;
            return false;
        }
        true
    }

    pub fn release(&mut self, bytes: u64) {
        self.used_bytes -= bytes;
    }

    /// Evicts objects until the budget is met, adding them to `evicted`.
    pub fn shrink(&mut self, evicted: &mut Vec<u128>) {
        while self.used_bytes > self.budget_bytes {
            let Some(slot) = self.policy.choose() else { return };
            let hash = self.entries[slot as usize].hash;
            self.take_out(hash, Departure::Evicted);
            self.evictions += 1;
            evicted.push(hash);
        }
    }

    pub fn held(&self) -> (u64, u64) {
        (self.used_bytes, self.slots.len() as u64)
    }

    fn take_out(&mut self, hash: u128, departure: Departure) {
        if let Some(slot) = self.slots.remove(&hash) {
            self.policy.removed(slot, departure);
            self.used_bytes -= self.entries[slot as usize].bytes;
            self.free.push(slot);
        }
    }
}
