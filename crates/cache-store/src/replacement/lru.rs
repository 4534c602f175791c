//! LRU: evicts the object that was used longest ago.

use super::list::List;
use super::{Departure, Item, Kind, Policy};

pub const KIND: Kind =
    Kind { name: "lru", summary: "least recently used", start: |_| Box::new(Lru::default()) };

#[derive(Debug, Default)]
struct Lru {
    by_use: List,
}

impl Policy for Lru {
    fn insert(&mut self, item: Item) {
        self.by_use.push_front(item.slot);
    }

    fn touch(&mut self, slot: u32) {
        self.by_use.move_to_front(slot);
    }

    fn choose(&mut self) -> Option<u32> {
        self.by_use.back()
    }

    fn removed(&mut self, slot: u32, _: Departure) {
        self.by_use.remove(slot);
    }
}
