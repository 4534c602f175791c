//! SIEVE (NSDI 2024): a FIFO queue with a bit per object, and a hand that passes over it from the oldest on.
//!
//! A hit sets the bit and moves nothing. The hand clears set bits and evicts the first object whose bit is clear.
//! Objects that it passed stay where they are, so new objects that are not used again leave soon.

use super::list::{List, PerSlot};
use super::{Departure, Item, Kind, Policy};

pub const KIND: Kind =
    Kind { name: "sieve", summary: "SIEVE: a queue, a bit, a hand", start: |_| Box::new(Sieve::default()) };

#[derive(Debug, Default)]
struct Sieve {
    by_arrival: List,
    visited: PerSlot<bool>,
    hand: Option<u32>,
}

impl Policy for Sieve {
    fn insert(&mut self, item: Item) {
        self.visited.set(item.slot, false);
        self.by_arrival.push_front(item.slot);
    }

    fn touch(&mut self, slot: u32) {
        *self.visited.at(slot) = true;
    }

    fn choose(&mut self) -> Option<u32> {
        let mut at = self.hand.or(self.by_arrival.back())?;
        while std::mem::take(self.visited.at(at)) {
            at = self.by_arrival.before(at).or(self.by_arrival.back())?;
        }
        self.hand = Some(at);
        Some(at)
    }

    fn removed(&mut self, slot: u32, _: Departure) {
        if self.hand == Some(slot) {
            self.hand = self.by_arrival.before(slot);
        }
        self.by_arrival.remove(slot);
    }
}
