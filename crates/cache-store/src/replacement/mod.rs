//! Replacement policies, which choose the object to evict when a cache is full: one file each, and their table.
//!
//! A policy knows objects by *slot*, a small number that the cache assigns and reuses, so a policy can keep its records
//! in vectors without allocating per object. It never sees bytes, keys or a clock, and serves the memory tier, the disk
//! tier and the simulator alike.

mod fifo;
mod gdsf;
mod lfu_da;
mod list;
mod lru;
mod ranking;
mod s3_fifo;
mod sieve;
#[cfg(test)]
mod tests;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The object's index in the cache.
    pub slot: u32,
    /// Identifies the object even while it is not cached; some policies remember evicted ones.
    pub identity: u64,
    pub size_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    Evicted,
    Removed,
}

/// A replacement policy of one cache. [`insert`](Policy::insert) precedes every other call about a slot.
pub trait Policy: Send {
    /// A new object was added.
    fn insert(&mut self, item: Item);

    /// The object at `slot` was requested and found.
    fn touch(&mut self, slot: u32);

    /// The object to evict next; `None` if there is none. It stays until [`removed`](Policy::removed).
    fn choose(&mut self) -> Option<u32>;

    /// The object at `slot` was removed.
    fn removed(&mut self, slot: u32, departure: Departure);
}

#[derive(Clone, Copy)]
pub struct Kind {
    /// The name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    pub start: fn(budget_bytes: u64) -> Box<dyn Policy>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

pub const ALL: &[Kind] = &[lru::KIND, fifo::KIND, gdsf::KIND, lfu_da::KIND, s3_fifo::KIND, sieve::KIND];

/// The policy called `name` in [`ALL`].
pub fn by_name(name: &str) -> Option<Kind> {
    ALL.iter().copied().find(|kind| kind.name == name)
}

/// The default policy of both tiers.
pub const DEFAULT: Kind = s3_fifo::KIND;
