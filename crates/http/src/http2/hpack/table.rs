//! The dynamic table (RFC 7541, 2.3.2), with all its text in one piece of memory.

use std::collections::VecDeque;

use super::ENTRY_OVERHEAD_BYTES;

#[derive(Debug)]
pub struct Table {
    /// The text of all entries, oldest first, behind that of evicted ones.
    text: Vec<u8>,
    /// Oldest first.
    entries: VecDeque<Entry>,
    bytes: usize,
    bytes_max: usize,
    /// Counts the entries that were evicted: with its place behind them, an entry keeps its number as long as it is here.
    evicted: usize,
    /// Counts what changed: as long as it is the same, an index means the same.
    changes: u64,
    /// The numbers of fields that were found lately, by their hashes.
    found: [(u32, usize); FOUND],
}

/// Fields that are found without a search. Most connections have fewer that come again and again.
const FOUND: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    name_bytes: u32,
    value_bytes: u32,
}

impl Entry {
    fn bytes(self) -> usize {
        (self.name_bytes + self.value_bytes) as usize
    }
}

impl Table {
    pub fn new(bytes_max: usize) -> Table {
        Table {
            text: Vec::new(),
            entries: VecDeque::new(),
            bytes: 0,
            bytes_max,
            evicted: 0,
            changes: 0,
            found: [(0, 0); FOUND],
        }
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Name and value of the entry at `place`; the latest is at 0.
    pub fn entry(&self, place: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(self.entries.len().checked_sub(place + 1)?)?;
        Some(self.text_of(*entry))
    }

    /// The place of an entry with this name and value. The field's `hash` may be any number, but should be always the same.
    pub fn find(&mut self, hash: u32, name: &[u8], value: &[u8]) -> Option<usize> {
        let is_it = |entry: &Entry| {
            (entry.value_bytes as usize, entry.name_bytes as usize) == (value.len(), name.len())
                && self.text_of(*entry) == (name, value)
        };
        let slot = hash as usize % FOUND;
        let (found_hash, number) = self.found[slot];
        let last = (self.evicted + self.entries.len()).checked_sub(1)?;
        if found_hash == hash
            && let Some(index) = number.checked_sub(self.evicted)
            && self.entries.get(index).is_some_and(is_it)
        {
            return Some(last - number);
        }
        let place = self.entries.iter().rev().position(is_it)?;
        self.found[slot] = (hash, last - place);
        Some(place)
    }

    /// The place of an entry with this name.
    pub fn find_name(&self, name: &[u8]) -> Option<usize> {
        self.entries
            .iter()
            .rev()
            .position(|entry| entry.name_bytes as usize == name.len() && self.text_of(*entry).0 == name)
    }

    pub fn insert(&mut self, name: &[u8], value: &[u8]) {
        self.changes += 1;
        let bytes = name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        self.evict(self.bytes_max.saturating_sub(bytes));
        // RFC 7541, 4.4: an entry larger than the table empties it.
        if bytes > self.bytes_max {
            return;
        }
        self.compact();
        let (start, name_bytes, value_bytes) =
            (self.text.len() as u32, name.len() as u32, value.len() as u32);
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.entries.push_back(Entry { start, name_bytes, value_bytes });
        self.bytes += bytes;
    }

    pub fn resize(&mut self, bytes_max: usize) {
        self.changes += 1;
        self.bytes_max = bytes_max;
        self.evict(bytes_max);
    }

    fn text_of(&self, entry: Entry) -> (&[u8], &[u8]) {
        let start = entry.start as usize;
        self.text[start..start + entry.bytes()].split_at(entry.name_bytes as usize)
    }

    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(entry) = self.entries.pop_front() else { return };
            self.bytes -= entry.bytes() + ENTRY_OVERHEAD_BYTES;
            self.evicted += 1;
        }
    }

    /// Drops the text of evicted entries once it is as much as a full table.
    fn compact(&mut self) {
        let unused = self.entries.front().map_or(self.text.len(), |entry| entry.start as usize);
        if unused > 0 && (unused >= self.bytes_max || self.entries.is_empty()) {
            self.text.drain(..unused);
            self.entries.iter_mut().for_each(|entry| entry.start -= unused as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_is_first_and_the_oldest_goes() {
        let mut table = Table::new(100);
        for value in ["1", "2", "3"] {
            table.insert(b"a", value.as_bytes());
        }
        assert_eq!(table.entry(0), Some((b"a".as_slice(), b"3".as_slice())));
        assert_eq!(table.entry(1), Some((b"a".as_slice(), b"2".as_slice())));
        assert_eq!((table.entry(2), table.bytes), (None, 68));
        assert_eq!(
            (table.find(7, b"a", b"2"), table.find(7, b"a", b"1"), table.find_name(b"a")),
            (Some(1), None, Some(0))
        );
        table.resize(40);
        assert_eq!((table.find(7, b"a", b"2"), table.find(7, b"a", b"3")), (None, Some(0)));
        table.insert(b"a", &[b'x'; 100]);
        assert!(table.entries.is_empty() && table.bytes == 0, "too large for the table");
    }

    #[test]
    fn its_memory_is_bounded() {
        let mut table = Table::new(200);
        let rounds = if cfg!(miri) { 100 } else { 1000_u32 };
        for round in 0..rounds {
            table.insert(b"name", &vec![b'v'; (round % 50) as usize]);
            assert!(table.text.len() <= 2 * 200 && table.bytes <= 200);
            assert_eq!(table.entry(0).unwrap().1.len(), (round % 50) as usize);
        }
    }
}
