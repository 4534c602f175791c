//! For experiments: draws hits and misses at random with a chosen hit ratio, regardless of the caching rules.
//!
//! One draw per request in order of arrival, from a seeded sequence. An object that is not stored yet cannot be a hit.

use std::sync::{Mutex, PoisonError};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[derive(Debug)]
pub struct ForcedHits {
    ratio: f64,
    random: Mutex<Xoshiro256PlusPlus>,
}

impl ForcedHits {
    /// A hit `ratio` from 0 to 1.
    pub fn new(ratio: f64, seed: u64) -> ForcedHits {
        ForcedHits { ratio, random: Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed)) }
    }

    /// Returns true if the next request must be a hit.
    pub fn draw(&self) -> bool {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        random.random::<f64>() < self.ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_the_ratio_and_the_sequence_the_seed() {
        let draws = |ratio, seed| {
            let forced = ForcedHits::new(ratio, seed);
            (0..10_000).map(|_| forced.draw()).collect::<Vec<_>>()
        };
        let hits = draws(0.4, 1).into_iter().filter(|is_hit| *is_hit).count();
        // Six standard deviations.
        assert!((3_706..4_294).contains(&hits), "{hits}");
        assert_eq!(draws(0.4, 1), draws(0.4, 1));
        assert_ne!(draws(0.4, 1), draws(0.4, 2));
        assert!(draws(1.0, 1).iter().all(|is_hit| *is_hit) && !draws(0.0, 1).contains(&true));
    }
}
