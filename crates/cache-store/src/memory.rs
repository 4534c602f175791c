//! The memory tier: sharded by key, each shard behind its own lock, all under one budget.
//!
//! A lookup locks one shard for a table probe and a reference count. All shards share the budget. An insertion first
//! reserves bytes, evicting from its own shard and then from the others until the sum fits; it never holds two locks.
//! Objects are shared, so eviction never disturbs a connection that is sending one; the object counts against the
//! budget until the last connection is done.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::admission::{Admission, AdmissionKind};
use crate::charge::Charge;
use crate::key::{Key, identity};
use crate::object::Object;
use crate::replacement::{Departure, Item, Kind, Policy};

pub struct Memory {
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
    budget_bytes: usize,
    /// Bytes of all stored objects, of those being inserted, of evicted ones still being sent, and of bodies in
    /// transit.
    used_bytes: Arc<AtomicUsize>,
    evictions: AtomicU64,
    refused: AtomicU64,
}

struct Shard {
    table: HashTable<u32>,
    slots: Vec<Option<Arc<Object>>>,
    free: Vec<u32>,
    policy: Box<dyn Policy>,
    admission: Box<dyn Admission>,
}

impl Memory {
    pub fn new(budget_bytes: usize, shards: usize, policy: Kind, admission: AdmissionKind) -> Memory {
        let share = (budget_bytes / shards) as u64;
        let shard = || Shard {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            policy: (policy.start)(share),
            admission: (admission.start)(share),
        };
        Memory {
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
            hasher: DefaultHashBuilder::default(),
            budget_bytes,
            used_bytes: Arc::default(),
            evictions: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    pub fn find(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        let mut shard = self.shard(key.hash());
        shard.admission.record_lookup(identity(key.hash()));
        let slot = shard.find(self.hash(key.hash()), key.hash())?;
        let object =
            shard.slots[slot as usize].as_ref().filter(|object| object.is_named(key)).map(Arc::clone)?;
        shard.policy.touch(slot);
        Some(object)
    }

    /// Looks up `key` without counting as a use.
    pub fn peek(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        let shard = self.shard(key.hash());
        let slot = shard.find(self.hash(key.hash()), key.hash())?;
        shard.slots[slot as usize].as_ref().filter(|object| object.is_named(key)).map(Arc::clone)
    }

    /// Inserts `object`, replacing one with the same key, if it fits and is admitted.
    pub fn insert(&self, object: &Arc<Object>) -> bool {
        let (hash, bytes) = (object.hash(), object.memory_bytes());
        self.remove(hash);
        if bytes > self.budget_bytes || !self.admits(hash, bytes) || !self.reserve(bytes, hash) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            // Readers that follow the body in transit may continue with this object.
            self.reserve_regardless(bytes);
            self.retire(object);
            return false;
        }
        let mut shard = self.shard(hash);
        let replaced = shard.remove(self.hash(hash), hash, Departure::Removed);
        shard.insert(self.hash(hash), object, &self.hasher);
        drop(shard);
        replaced.iter().for_each(|object| self.retire(object));
        true
    }

    /// Replaces `old` by `new`, another form of the same response, without changing the eviction order. Returns false
    /// if `old` was evicted.
    pub fn exchange(&self, old: &Arc<Object>, new: &Arc<Object>) -> bool {
        let hash = old.hash();
        let mut shard = self.shard(hash);
        let Some(slot) = shard.find(self.hash(hash), hash) else { return false };
        let held = shard.slots[slot as usize].as_mut().expect("a slot in the table is occupied");
        if !Arc::ptr_eq(held, old) {
            return false;
        }
        *held = Arc::clone(new);
        drop(shard);
        self.reserve_regardless(new.memory_bytes());
        self.release(old.memory_bytes());
        // If `new` is larger, others are evicted for the difference, but not for the moment in which both exist.
        self.reserve(0, hash);
        self.reserve_regardless(old.memory_bytes());
        self.retire(old);
        true
    }

    pub fn remove(&self, hash: u128) -> Option<Arc<Object>> {
        let removed = self.shard(hash).remove(self.hash(hash), hash, Departure::Removed);
        removed.iter().for_each(|object| self.retire(object));
        removed
    }

    /// Reserves `bytes` of the budget, evicting objects as needed; false if evicting everything is not enough. `hash`
    /// selects the first shard.
    pub fn reserve(&self, bytes: usize, hash: u128) -> bool {
        self.used_bytes.fetch_add(bytes, Ordering::AcqRel);
        let first = self.shard_index(hash);
        for step in 0..self.shards.len() {
            let index = (first + step) % self.shards.len();
            loop {
                if self.used_bytes.load(Ordering::Acquire) <= self.budget_bytes {
                    return true;
                }
                let Some(evicted) = lock(&self.shards[index]).evict(&self.hasher) else { break };
                self.evictions.fetch_add(1, Ordering::Relaxed);
                self.retire(&evicted);
            }
        }
        if self.used_bytes.load(Ordering::Acquire) <= self.budget_bytes {
            return true;
        }
        self.release(bytes);
        false
    }

    /// Takes `bytes` of the budget, evicting objects while there are any. `hash` selects the first shard.
    pub fn take(&self, bytes: usize, hash: u128) {
        if !self.reserve(bytes, hash) {
            self.reserve_regardless(bytes);
        }
    }

    /// Takes `bytes` of the budget even if there is no room; the next insertion then evicts.
    pub fn reserve_regardless(&self, bytes: usize) {
        self.used_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Returns `bytes` to the budget.
    pub fn release(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// An empty charge, for bytes in transit elsewhere.
    pub fn charge(&self) -> Charge {
        Charge::new(&self.used_bytes, 0)
    }

    /// Changes a charge to `bytes`, evicting objects while there are any.
    pub fn set_charge(&self, charge: &mut Charge, bytes: usize) {
        if bytes > charge.bytes() {
            // Start at a different shard each time.
            self.take(bytes - charge.bytes(), self.evictions.load(Ordering::Relaxed).into());
        } else {
            self.release(charge.bytes() - bytes);
        }
        charge.hold(bytes);
    }

    /// Returns true if the whole budget is used by bodies in transit, which cannot be evicted, so that they must be
    /// buffered less.
    pub fn is_exhausted(&self) -> bool {
        self.used_bytes() > self.budget_bytes
    }

    /// `object` is no longer stored, but counts against the budget until its last reader is done.
    fn retire(&self, object: &Arc<Object>) {
        // Only the caller has a reference, and nobody else can get one.
        if Arc::strong_count(object) == 1 {
            return self.release(object.memory_bytes());
        }
        object.charge(Charge::new(&self.used_bytes, object.memory_bytes()));
    }

    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Acquire)
    }

    pub fn objects(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).table.len()).sum()
    }

    /// The numbers of objects evicted and not admitted.
    pub fn evicted_and_refused(&self) -> (u64, u64) {
        (self.evictions.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// Returns true if the admission policy lets the object in. Called only if another must be evicted for it.
    fn admits(&self, hash: u128, bytes: usize) -> bool {
        if self.used_bytes() + bytes <= self.budget_bytes {
            return true;
        }
        let mut shard = self.shard(hash);
        let shard = &mut *shard;
        let victim = shard.policy.choose().map(|slot| {
            let object = shard.slots[slot as usize].as_ref().expect("a chosen slot is occupied");
            Item { slot, identity: identity(object.hash()), size_bytes: object.memory_bytes() as u64 }
        });
        let candidate = Item { slot: u32::MAX, identity: identity(hash), size_bytes: bytes as u64 };
        shard.admission.admits(candidate, victim)
    }

    fn shard_index(&self, hash: u128) -> usize {
        hash as u32 as usize % self.shards.len()
    }

    fn shard(&self, hash: u128) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.shard_index(hash)])
    }

    /// Seeded, so that clients cannot force all keys into one bucket.
    fn hash(&self, hash: u128) -> u64 {
        self.hasher.hash_one(hash)
    }
}

/// Ignores poisoning: no update of a shard can panic halfway.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn find(&self, seeded: u64, hash: u128) -> Option<u32> {
        self.table.find(seeded, |slot| hash_at(&self.slots, *slot) == hash).copied()
    }

    fn insert(&mut self, seeded: u64, object: &Arc<Object>, hasher: &DefaultHashBuilder) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(Arc::clone(object));
        let slots = &self.slots;
        self.table.insert_unique(seeded, slot, |slot| hasher.hash_one(hash_at(slots, *slot)));
        let size_bytes = object.memory_bytes() as u64;
        self.policy.insert(Item { slot, identity: identity(object.hash()), size_bytes });
    }

    fn remove(&mut self, seeded: u64, hash: u128, departure: Departure) -> Option<Arc<Object>> {
        let place = self.table.find_entry(seeded, |slot| hash_at(&self.slots, *slot) == hash).ok()?;
        let (slot, _) = place.remove();
        self.policy.removed(slot, departure);
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    fn evict(&mut self, hasher: &DefaultHashBuilder) -> Option<Arc<Object>> {
        let slot = self.policy.choose()?;
        let hash = hash_at(&self.slots, slot);
        self.remove(hasher.hash_one(hash), hash, Departure::Evicted)
    }
}

fn hash_at(slots: &[Option<Arc<Object>>], slot: u32) -> u128 {
    slots[slot as usize].as_ref().expect("a slot in the table is occupied").hash()
}
