//! Ranks slots by a priority that changes with use. The lowest is evicted next; among equals, the one ranked first.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::list::PerSlot;

#[derive(Debug, Default)]
pub struct Ranking {
    order: BTreeSet<Rank>,
    ranks: PerSlot<Option<Rank>>,
    placements: u64,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    priority: f64,
    /// When it was ranked; breaks ties, so that all ranks differ.
    placement: u64,
    slot: u32,
}

impl Ranking {
    /// Ranks `slot`, replacing its former rank.
    pub fn place(&mut self, slot: u32, priority: f64) {
        self.placements += 1;
        let rank = Rank { priority, placement: self.placements, slot };
        if let Some(old) = self.ranks.at(slot).replace(rank) {
            self.order.remove(&old);
        }
        self.order.insert(rank);
    }

    pub fn lowest(&self) -> Option<u32> {
        self.order.first().map(|rank| rank.slot)
    }

    /// Removes `slot` and returns its priority.
    ///
    /// # Panics
    /// If it is not ranked.
    pub fn remove(&mut self, slot: u32) -> f64 {
        let rank = self.ranks.at(slot).take().expect("a slot that leaves was ranked");
        self.order.remove(&rank);
        rank.priority
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Rank) -> Ordering {
        self.priority.total_cmp(&other.priority).then(self.placement.cmp(&other.placement))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Rank) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Rank) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rank {}
