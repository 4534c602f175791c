//! Interns byte strings: numbers each distinct string and stores it once, with four bytes of overhead.

use crate::limits::NAMES_MAX;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The most bytes of all names of one kind.
pub const NAMES_BYTES_MAX: usize = 1 << 30;

/// A set of names, numbered by first appearance.
#[derive(Default)]
pub struct Interner {
    text: Vec<u8>,
    /// The end of each name in `text`; each starts where the previous one ends.
    ends: Vec<u32>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Interner {
    /// The number of `name`, assigning one if it is new; `None` at the limit.
    pub fn number(&mut self, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        let (text, ends) = (&mut self.text, &mut self.ends);
        if let Some(&number) = self.table.find(hash, |&number| at(text, ends, number) == name) {
            return Some(number);
        }
        if ends.len() == NAMES_MAX || text.len() + name.len() > NAMES_BYTES_MAX {
            return None;
        }
        let number = ends.len() as u32;
        text.extend_from_slice(name);
        ends.push(text.len() as u32);
        self.table.insert_unique(hash, number, |&other| self.hasher.hash_one(at(text, ends, other)));
        Some(number)
    }

    /// The number of `name`; `None` if it is not in the set.
    pub fn known(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.table.find(hash, |&number| at(&self.text, &self.ends, number) == name).copied()
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The name of a number that [`Interner::number`] gave.
    pub fn name(&self, number: u32) -> &[u8] {
        at(&self.text, &self.ends, number)
    }
}

fn at<'a>(text: &'a [u8], ends: &[u32], number: u32) -> &'a [u8] {
    let begin = if number == 0 { 0 } else { ends[number as usize - 1] };
    &text[begin as usize..ends[number as usize] as usize]
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
    }
}
