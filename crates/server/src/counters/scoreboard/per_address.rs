//! Counts open connections: all of them, and per client address.
//!
//! Addresses are not stored. Each is counted in two cells of a table, found by a keyed hash that clients cannot know.
//! The smaller of the two counts is never too low, and too high only if other addresses share both cells. With `k`
//! addresses at their limit, another address is mistaken for one of them with a probability of about (k / 32,768)², so
//! a thousand of them cause one wrong refusal in a thousand (a counting Bloom filter with two hashes: Fan et al. 2000).

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Cells in each half of the table.
pub const HALF: usize = if cfg!(miri) { 1024 } else { 32 * 1024 };

/// The right to one open connection, to be returned when it closes; it fits into one cell of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permit(u64);

const TAKEN: u64 = 1 << 63;
const OF_ADDRESS: u64 = 1 << 62;
const PLACE_BITS: u32 = 16;

impl Permit {
    /// A permit that is not counted per address.
    pub const ANY: Permit = Permit(TAKEN);

    /// The permit stored in a cell.
    pub fn from_cell(cell: u64) -> Permit {
        Permit(cell)
    }

    /// The permit as a cell; zero if there is none.
    pub fn cell(self) -> u64 {
        self.0
    }

    /// Returns true if it is counted per address.
    pub fn is_taken(self) -> bool {
        self.0 & TAKEN != 0
    }

    fn at([first, second]: [usize; 2]) -> Permit {
        Permit(TAKEN | OF_ADDRESS | (first as u64) << PLACE_BITS | second as u64)
    }

    fn places(self) -> Option<[usize; 2]> {
        let mask = (1 << PLACE_BITS) - 1;
        (self.0 & OF_ADDRESS != 0)
            .then_some([(self.0 >> PLACE_BITS & mask) as usize, (self.0 & mask) as usize])
    }
}

/// The table of counts, two halves of [`HALF`] cells, and its hash function.
pub struct PerAddress<'a> {
    pub counts: &'a [AtomicU32],
    pub hashing: &'a RandomState,
}

impl PerAddress<'_> {
    /// Counts one more connection from `peer`, unless it already has `max`.
    pub fn acquire(&self, peer: IpAddr, max: u32) -> Option<Permit> {
        let permit = Permit::at(places(self.hashing.hash_one(network(peer))));
        let before = self.counts_of(permit).map(|count| count.fetch_add(1, Ordering::Relaxed));
        if before.min() < Some(max) {
            return Some(permit);
        }
        self.release(permit);
        None
    }

    pub fn release(&self, permit: Permit) {
        self.counts_of(permit).for_each(|count| {
            count.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn counts_of(&self, permit: Permit) -> impl Iterator<Item = &AtomicU32> {
        let places = permit.places().into_iter();
        places.flat_map(|[first, second]| [&self.counts[first % HALF], &self.counts[HALF + second % HALF]])
    }
}

/// What counts as one client: an IPv4 address, or an IPv6 /64 network, the least that one customer gets (RFC 6177) and
/// may use freely.
pub fn network(peer: IpAddr) -> (bool, u64) {
    match peer {
        IpAddr::V4(address) => (false, u64::from(address.to_bits())),
        IpAddr::V6(address) => (true, (address.to_bits() >> 64) as u64),
    }
}

fn places(hash: u64) -> [usize; 2] {
    [hash as usize % HALF, (hash >> 32) as usize % HALF]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(test: impl Fn(&PerAddress<'_>)) {
        let counts: Vec<AtomicU32> = (0..2 * HALF).map(|_| AtomicU32::new(0)).collect();
        let hashing = RandomState::new();
        test(&PerAddress { counts: &counts, hashing: &hashing });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 0), "somebody is still counted");
    }

    #[test]
    fn each_address_has_its_own_limit() {
        check(|per_address| {
            let peers: [IpAddr; 3] =
                ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|text| text.parse().unwrap());
            let permits: Vec<Permit> = peers
                .iter()
                .flat_map(|peer| [per_address.acquire(*peer, 2), per_address.acquire(*peer, 2)])
                .flatten()
                .collect();
            assert_eq!(permits.len(), 6);
            assert!(peers.iter().all(|peer| per_address.acquire(*peer, 2).is_none()));
            // The same network, and another.
            assert!(per_address.acquire("2001:db8::ffff:1".parse().unwrap(), 2).is_none());
            per_address.release(per_address.acquire("2001:db8:0:1::1".parse().unwrap(), 2).unwrap());
            permits.iter().for_each(|permit| per_address.release(Permit::from_cell(permit.cell())));
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn strangers_are_hardly_ever_turned_away() {
        check(|per_address| {
            let peers = || (0..1000u32).map(|number| IpAddr::V4((0x0a00_0000 + number).into()));
            let permits: Vec<Permit> = peers().filter_map(|peer| per_address.acquire(peer, 1)).collect();
            let strangers = (0..1000u32).map(|number| IpAddr::V4((0x0b00_0000 + number).into()));
            let let_in: Vec<Permit> = strangers.filter_map(|peer| per_address.acquire(peer, 1)).collect();
            // About one and four are expected to be mistaken.
            assert!(permits.len() > 980 && let_in.len() > 970, "{} and {}", permits.len(), let_in.len());
            permits.into_iter().chain(let_in).for_each(|permit| per_address.release(permit));
        });
    }

    #[test]
    fn whoever_is_not_counted_by_address_leaves_nothing() {
        check(|per_address| per_address.release(Permit::ANY));
        assert!(Permit::ANY.is_taken() && !Permit::default().is_taken());
    }
}
