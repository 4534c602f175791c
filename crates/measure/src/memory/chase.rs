//! Latency by pointer chasing: each load gives the address of the next, so loads cannot overlap.
//!
//! The chain visits all cache lines of the working set in random order as one cycle (Sattolo's algorithm), so no
//! prefetcher can predict it.

use std::ptr;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::WORD_BYTES;

/// The distance between two elements of the chain: a cache line on all common processors.
const LINE_WORDS: usize = 64 / WORD_BYTES;

/// Loads between two readings of the clock.
const LOADS_PER_PIECE: usize = 4096;

pub struct Chase<'a> {
    words: &'a [u64],
    at: u64,
}

impl<'a> Chase<'a> {
    /// Builds a chain through all cache lines of `words`.
    pub fn new(words: &'a mut [u64], seed: u64) -> Chase<'a> {
        let lines = words.len() / LINE_WORDS;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for line in 0..lines {
            words[line * LINE_WORDS] = (line * LINE_WORDS) as u64;
        }
        for line in (1..lines).rev() {
            let other = random.random_range(0..line);
            words.swap(line * LINE_WORDS, other * LINE_WORDS);
        }
        Chase { words, at: 0 }
    }

    /// Follows the chain for about this long; returns seconds per load.
    pub fn timed(&mut self, about: Duration) -> f64 {
        let started = Instant::now();
        let mut loads = 0;
        loop {
            self.follow(LOADS_PER_PIECE);
            loads += LOADS_PER_PIECE;
            let elapsed = started.elapsed();
            if elapsed >= about {
                return elapsed.as_secs_f64() / loads as f64;
            }
        }
    }

    fn follow(&mut self, loads: usize) {
        for _ in 0..loads {
            assert!((self.at as usize) < self.words.len());
            // SAFETY: within the slice, as just asserted.
            self.at = unsafe { ptr::read_volatile(self.words.as_ptr().add(self.at as usize)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_meets_every_line_once() {
        let mut words = vec![0; 1000 * LINE_WORDS];
        let mut chase = Chase::new(&mut words, 1);
        let mut seen = vec![false; 1000];
        for _ in 0..1000 {
            chase.follow(1);
            let line = &mut seen[chase.at as usize / LINE_WORDS];
            assert!(!*line, "a line is met twice");
            *line = true;
        }
        assert_eq!(chase.at, 0, "the way is a cycle");
    }

    #[test]
    fn one_line_is_a_way_too() {
        let mut words = vec![9; LINE_WORDS];
        assert!(Chase::new(&mut words, 1).timed(Duration::from_micros(1)) > 0.0);
    }
}
