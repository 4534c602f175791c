//! An LRU map with a budget in bytes and in entries.
//!
//! Entries live in one vector, linked by index from most to least recently used, so a hit moves two links and allocates
//! nothing. The hash table holds only indices; the keys are in the entries.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, Equivalent, HashTable};

/// Marks the end of the list.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub struct Lru<K, V> {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    entries: Vec<Entry<K, V>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    held: Weight,
    budget: Weight,
    evictions: u64,
}

/// What an entry costs, or a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Bytes, as the map's user counts them.
    pub bytes: usize,
    /// Another counted resource, such as file descriptors.
    pub count: usize,
}

#[derive(Debug)]
struct Entry<K, V> {
    content: Option<(K, V)>,
    weight: Weight,
    newer: u32,
    older: u32,
}

impl<K: Eq + Hash, V> Lru<K, V> {
    /// An empty map with this budget.
    pub fn new(budget: Weight) -> Self {
        Lru {
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            entries: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            held: Weight::default(),
            budget,
            evictions: 0,
        }
    }

    /// Looks up `key` and makes it the most recently used.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<&mut V> {
        let is_it = |index: &u32| key.equivalent(key_of(&self.entries, *index));
        let index = *self.table.find(self.hasher.hash_one(key), is_it)?;
        if self.newest != index {
            self.unlink(index);
            self.link(index);
        }
        self.entries[index as usize].content.as_mut().map(|(_, value)| value)
    }

    /// Inserts `value`, evicting the least recently used entries. A value that exceeds the whole budget is not kept.
    pub fn insert(&mut self, key: K, value: V, weight: Weight) {
        self.remove(&key);
        let Weight { bytes, count } = weight;
        if bytes > self.budget.bytes || count > self.budget.count {
            return;
        }
        while self.held.bytes + bytes > self.budget.bytes
            || self.held.count + count > self.budget.count
            || self.table.len() >= NONE as usize
        {
            self.evict_oldest();
        }
        let hash = self.hasher.hash_one(&key);
        let entry = Entry { content: Some((key, value)), weight, newer: NONE, older: NONE };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.table.insert_unique(hash, index, |index| hasher.hash_one(key_of(entries, *index)));
        self.held.bytes += bytes;
        self.held.count += count;
        self.link(index);
    }

    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<V> {
        let is_it = |index: &u32| key.equivalent(key_of(&self.entries, *index));
        let place = self.table.find_entry(self.hasher.hash_one(key), is_it).ok()?;
        let (index, _) = place.remove();
        self.take_out(index).map(|(_, value)| value)
    }

    fn take_out(&mut self, index: u32) -> Option<(K, V)> {
        self.unlink(index);
        self.free.push(index);
        let entry = &mut self.entries[index as usize];
        self.held.bytes -= entry.weight.bytes;
        self.held.count -= entry.weight.count;
        entry.content.take()
    }

    pub fn weight(&self) -> Weight {
        self.held
    }

    /// Entries evicted so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    fn evict_oldest(&mut self) {
        let oldest = self.oldest;
        let hash = self.hasher.hash_one(key_of(&self.entries, oldest));
        if let Ok(place) = self.table.find_entry(hash, |index| *index == oldest) {
            place.remove();
        }
        self.take_out(oldest);
        self.evictions += 1;
    }

    fn link(&mut self, index: u32) {
        let previous = std::mem::replace(&mut self.newest, index);
        let entry = &mut self.entries[index as usize];
        (entry.newer, entry.older) = (NONE, previous);
        match previous {
            NONE => self.oldest = index,
            previous => self.entries[previous as usize].newer = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let (newer, older) = (self.entries[index as usize].newer, self.entries[index as usize].older);
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }
}

/// The key of the entry at `index`, which must be in use.
fn key_of<K, V>(entries: &[Entry<K, V>], index: u32) -> &K {
    let (key, _) = entries[index as usize].content.as_ref().expect("an entry that is found has content");
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: usize) -> Weight {
        Weight { bytes, count: 1 }
    }

    fn keys(lru: &Lru<u64, &str>) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut index = lru.newest;
        while index != NONE {
            let entry = &lru.entries[index as usize];
            keys.push(entry.content.as_ref().unwrap().0);
            index = entry.older;
        }
        keys
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut lru = Lru::new(Weight { bytes: 10, count: 100 });
        for key in 0..5 {
            lru.insert(key, "x", bytes(2));
        }
        assert_eq!(keys(&lru), [4, 3, 2, 1, 0]);
        assert_eq!(lru.get(&0), Some(&mut "x"));
        assert_eq!(keys(&lru), [0, 4, 3, 2, 1]);
        lru.insert(5, "y", bytes(3));
        assert_eq!(keys(&lru), [5, 0, 4, 3]);
        assert_eq!((lru.weight().bytes, lru.evictions()), (9, 2));
    }

    #[test]
    fn replacing_and_removing() {
        let mut lru = Lru::new(Weight { bytes: 10, count: 2 });
        lru.insert(1, "a", bytes(4));
        lru.insert(1, "b", bytes(6));
        assert_eq!(lru.get(&1), Some(&mut "b"));
        assert_eq!((lru.weight().bytes, keys(&lru)), (6, vec![1]));
        lru.insert(2, "too large", bytes(11));
        assert_eq!(lru.get(&2), None);
        lru.insert(2, "c", bytes(1));
        lru.insert(3, "d", bytes(1));
        assert_eq!(keys(&lru), [3, 2]);
        assert_eq!(lru.remove(&3), Some("d"));
        assert_eq!(lru.remove(&3), None);
        assert_eq!(keys(&lru), [2]);
    }

    #[test]
    fn what_counts_more_takes_the_place_of_more() {
        let mut lru = Lru::new(Weight { bytes: 100, count: 4 });
        for key in 0..4 {
            lru.insert(key, "x", bytes(1));
        }
        lru.insert(4, "three", Weight { bytes: 3, count: 3 });
        assert_eq!(keys(&lru), [4, 3]);
        assert_eq!(lru.weight(), Weight { bytes: 4, count: 4 });
        lru.insert(5, "five", Weight { bytes: 1, count: 5 });
        assert_eq!(keys(&lru), [4, 3]);
    }

    #[test]
    fn no_budget_no_entries() {
        let mut lru = Lru::new(Weight { bytes: 0, count: 0 });
        lru.insert(1, "a", bytes(1));
        lru.insert(2, "b", bytes(0));
        assert!(keys(&lru).is_empty());
    }
}
