//! LFU with Dynamic Aging (Arlitt and others, Performance Evaluation Review 27(4), 2000): evicts the least frequently
//! used object; new objects start with the priority of the object evicted last.

use super::list::PerSlot;
use super::ranking::Ranking;
use super::{Departure, Item, Kind, Policy};

pub const KIND: Kind = Kind {
    name: "lfu-da",
    summary: "least frequently used, with dynamic ageing: for the byte hit ratio",
    start: |_| Box::new(LfuDa::default()),
};

#[derive(Debug, Default)]
struct LfuDa {
    ranking: Ranking,
    frequencies: PerSlot<u64>,
    age: f64,
}

impl LfuDa {
    fn rank(&mut self, slot: u32) {
        let priority = self.age + *self.frequencies.at(slot) as f64;
        self.ranking.place(slot, priority);
    }
}

impl Policy for LfuDa {
    fn insert(&mut self, item: Item) {
        self.frequencies.set(item.slot, 1);
        self.rank(item.slot);
    }

    fn touch(&mut self, slot: u32) {
        *self.frequencies.at(slot) += 1;
        self.rank(slot);
    }

    fn choose(&mut self) -> Option<u32> {
        self.ranking.lowest()
    }

    fn removed(&mut self, slot: u32, departure: Departure) {
        let priority = self.ranking.remove(slot);
        if departure == Departure::Evicted {
            self.age = priority;
        }
    }
}
