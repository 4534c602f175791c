//! FIFO: evicts the oldest object, used or not.

use super::list::List;
use super::{Departure, Item, Kind, Policy};

pub const KIND: Kind =
    Kind { name: "fifo", summary: "first in, first out", start: |_| Box::new(Fifo::default()) };

#[derive(Debug, Default)]
struct Fifo {
    by_arrival: List,
}

impl Policy for Fifo {
    fn insert(&mut self, item: Item) {
        self.by_arrival.push_front(item.slot);
    }

    fn touch(&mut self, _: u32) {}

    fn choose(&mut self) -> Option<u32> {
        self.by_arrival.back()
    }

    fn removed(&mut self, slot: u32, _: Departure) {
        self.by_arrival.remove(slot);
    }
}
