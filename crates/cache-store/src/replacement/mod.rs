//! Which object goes when a cache is full: the policies, one file each, and their table.
//!
//! A policy knows objects by *slot*, a small number that the cache gives out and uses again, so that its
//! records of them are a vector; a list or a queue of slots costs no allocation per object. It never sees
//! bytes, keys or a clock, and serves the memory tier, the disk tier and the simulator alike.

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

/// An object as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Where the cache keeps it.
    pub slot: u32,
    /// Identifies the object also while it is not cached: some policies remember evicted ones.
    pub identity: u64,
    pub size_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    Evicted,
    Removed,
}

/// A replacement policy of one cache. A slot is announced by [`insert`](Policy::insert) before any other call about it.
pub trait Policy: Send {
    /// A new object is in the cache.
    fn insert(&mut self, item: Item);

    /// The object at `slot` was asked for and found.
    fn touch(&mut self, slot: u32);

    /// The object to send away next; `None` if there is none. It is not gone before [`leave`](Policy::leave).
    fn choose(&mut self) -> Option<u32>;

    /// The object at `slot` is gone.
    fn leave(&mut self, slot: u32, departure: Departure);
}

/// A row of the table.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The name for the command line.
    pub name: &'static str,
    /// One line for the user.
    pub summary: &'static str,
    pub start: fn(budget_bytes: u64) -> Box<dyn Policy>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

pub const ALL: &[Kind] = &[lru::KIND, fifo::KIND, gdsf::KIND, lfu_da::KIND, s3_fifo::KIND, sieve::KIND];

/// `name` as in [`ALL`]; `None` if there is no such policy.
pub fn by_name(name: &str) -> Option<Kind> {
    ALL.iter().copied().find(|kind| kind.name == name)
}

/// The policy of both tiers unless another is asked for.
pub const DEFAULT: Kind = s3_fifo::KIND;
