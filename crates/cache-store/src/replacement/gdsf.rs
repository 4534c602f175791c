//! GreedyDual-Size with Frequency (Cherkasova, HPL-98-69R1): prefers small and frequently used objects, with ageing so
//! that former favourites leave.
//!
//! An object's priority is L + frequency / size, where L is the priority of the object evicted last. Every miss has the
//! same cost, so the policy favours the hit ratio over the byte hit ratio.

use super::list::PerSlot;
use super::ranking::Ranking;
use super::{Departure, Item, Kind, Policy};

pub const KIND: Kind = Kind {
    name: "gdsf",
    summary: "GreedyDual-Size-Frequency: keeps small, frequently used objects",
    start: |_| Box::new(Gdsf::default()),
};

#[derive(Debug, Default)]
struct Gdsf {
    ranking: Ranking,
    uses: PerSlot<Use>,
    /// L: the priority of the object evicted last.
    inflation: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    frequency: u64,
    size_bytes: u64,
}

impl Gdsf {
    fn rank(&mut self, slot: u32) {
        let Use { frequency, size_bytes } = *self.uses.at(slot);
        // The unit of cost is arbitrary; a million keeps the cost per byte above L's rounding error.
        let value = 1e6 * frequency as f64 / size_bytes.max(1) as f64;
        self.ranking.place(slot, self.inflation + value);
    }
}

impl Policy for Gdsf {
    fn insert(&mut self, item: Item) {
        self.uses.set(item.slot, Use { frequency: 1, size_bytes: item.size_bytes });
        self.rank(item.slot);
    }

    fn touch(&mut self, slot: u32) {
        self.uses.at(slot).frequency += 1;
        self.rank(slot);
    }

    fn choose(&mut self) -> Option<u32> {
        self.ranking.lowest()
    }

    fn removed(&mut self, slot: u32, departure: Departure) {
        let priority = self.ranking.remove(slot);
        if departure == Departure::Evicted {
            self.inflation = priority;
        }
    }
}
