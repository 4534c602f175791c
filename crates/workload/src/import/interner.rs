//! Interns byte strings: numbers each distinct string and stores it once, with four bytes of overhead.

use crate::limits::NAMES_MAX;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The most bytes of all names of one kind.
pub const NAMES_BYTES_MAX: usize = 1 << 30;

/// Byte strings one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    bytes: Vec<u8>,
    /// The end of each string in `bytes`; each starts where the previous one ends.
    ends: Vec<u32>,
}

impl Texts {
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
    }

    pub fn get(&self, number: u32) -> &[u8] {
        let begin = if number == 0 { 0 } else { self.ends[number as usize - 1] };
        &self.bytes[begin as usize..self.ends[number as usize] as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len() as u32).map(|number| self.get(number))
    }

    pub fn append(&mut self, other: &Texts) {
        let begin = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| begin + end));
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// A set of names, numbered by first appearance.
#[derive(Default)]
pub struct Interner {
    texts: Texts,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Interner {
    /// The number of `name`, assigning one if it is new; `None` at the limit.
    pub fn number(&mut self, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        let texts = &mut self.texts;
        if let Some(&number) = self.table.find(hash, |&number| texts.get(number) == name) {
            return Some(number);
        }
        if texts.len() == NAMES_MAX || texts.bytes() + name.len() > NAMES_BYTES_MAX {
            return None;
        }
        let number = texts.len() as u32;
        texts.push(name);
        self.table.insert_unique(hash, number, |&other| self.hasher.hash_one(texts.get(other)));
        Some(number)
    }

    /// The number of `name`; `None` if it is not in the set.
    pub fn known(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.table.find(hash, |&number| self.texts.get(number) == name).copied()
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// The length of all names together.
    pub fn bytes(&self) -> usize {
        self.texts.bytes()
    }

    /// The name of a number that [`Interner::number`] gave.
    pub fn name(&self, number: u32) -> &[u8] {
        self.texts.get(number)
    }

    /// Forgets all names but keeps their memory.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.table.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_numbers() {
        let mut interner = Interner::default();
        for round in 0..2 {
            for number in 0..1000 {
                let name = format!("/{number}");
                assert_eq!(interner.number(name.as_bytes()), Some(number), "round {round}");
                assert_eq!(interner.name(number), name.as_bytes());
            }
        }
        assert_eq!(interner.len(), 1000);
        assert_eq!((interner.known(b"/7"), interner.known(b"/x")), (Some(7), None));
        interner.clear();
        assert_eq!((interner.known(b"/7"), interner.number(b"/7")), (None, Some(0)));
    }

    #[test]
    fn texts_of_two_lists_keep_their_borders() {
        let (mut first, mut second) = (Texts::default(), Texts::default());
        for text in [&b"one"[..], b"", b"three"] {
            first.push(text);
            second.push(text);
        }
        first.append(&second);
        assert_eq!(first.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"three", b"one", b"", b"three"]);
    }
}
