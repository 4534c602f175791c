//! Slots ranked by a number that changes with use; the lowest is next to go, among equals the one ranked first.

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
    /// When it was placed: breaks ties, and makes every rank a different one.
    placement: u64,
    slot: u32,
}

impl Ranking {
    /// Ranks `slot`, anew if it was ranked.
    pub fn place(&mut self, slot: u32, priority: f64) {
        self.placements += 1;
        let rank = Rank { priority, placement: self.placements, slot };
        if let Some(old) = self.ranks.at(slot).replace(rank) {
            self.order.remove(&old);
        }
        self.order.insert(rank);
    }

    /// The slot of the lowest priority.
    pub fn lowest(&self) -> Option<u32> {
        self.order.first().map(|rank| rank.slot)
    }

    /// Takes `slot` out and says what its priority was.
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
