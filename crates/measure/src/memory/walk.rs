//! Times walks that are long enough for the clock, each starting where the last one ended.

use std::time::{Duration, Instant};

use super::WORD_BYTES;
use super::kernel::{Kernel, words_before};

/// Words between two readings of the clock, so that reading it costs less than a thousandth.
const PIECE_WORDS_MIN: usize = 64 * 1024;

/// With this gap, no word has the same low twelve address bits as its copy. Processors mistake such a load for one of
/// the pending store and wait (4K aliasing).
const HALVES_GAP_WORDS: usize = 33 * 8;

/// The shortest row; with shorter ones the change of rows would dominate. A set so small that this shortens its stride
/// is in the nearest cache, where the stride does not matter.
const ROW_WORDS_MIN: usize = 32;

/// The words that a working set needs, including the gap between its halves.
pub fn words_needed(kernel: Kernel, working_set_bytes: usize) -> usize {
    working_set_bytes / WORD_BYTES + if kernel.copies() { HALVES_GAP_WORDS } else { 0 }
}

pub struct Walk<'a> {
    kernel: Kernel,
    stride: usize,
    front: &'a mut [u64],
    back: &'a mut [u64],
    /// The next row. Sets too large for one walk are covered by several.
    next_row: usize,
}

impl<'a> Walk<'a> {
    /// Prepares a walk over `words`, which must have [`words_needed`].
    pub fn new(kernel: Kernel, stride: usize, words: &'a mut [u64], first_row: usize) -> Walk<'a> {
        let (front, back) = if kernel.copies() {
            let half = (words.len() - HALVES_GAP_WORDS) / 2;
            let (front, rest) = words.split_at_mut(half);
            (front, &mut rest[HALVES_GAP_WORDS..HALVES_GAP_WORDS + half])
        } else {
            (words, &mut [][..])
        };
        let stride = stride.min(front.len() / ROW_WORDS_MIN).max(1);
        let next_row = first_row % stride;
        Walk { kernel, stride, front, back, next_row }
    }

    /// Loads into the caches what they can hold.
    pub fn warm(&mut self) {
        if self.front.len() <= PIECE_WORDS_MIN {
            self.kernel.walk(self.front, self.back, self.stride, 0..self.stride, 1);
        } else {
            // Stride 1 is the fastest way through a large set.
            self.kernel.walk(self.front, self.back, 1, 0..1, 1);
        }
    }

    /// Walks for about this long; returns bytes moved per second. A copied byte counts once.
    pub fn timed(&mut self, about: Duration) -> f64 {
        let started = Instant::now();
        let mut words = 0;
        loop {
            words += self.piece();
            let elapsed = started.elapsed();
            if elapsed >= about {
                return (words * WORD_BYTES) as f64 / elapsed.as_secs_f64();
            }
        }
    }

    /// Walks the next rows, or the whole set several times; returns the number of words.
    fn piece(&mut self) -> usize {
        let (length, rows) = (self.front.len(), self.stride);
        if length <= PIECE_WORDS_MIN {
            let passes = PIECE_WORDS_MIN.div_ceil(length);
            self.kernel.walk(self.front, self.back, self.stride, 0..rows, passes);
            return passes * length;
        }
        let first = self.next_row;
        let end = rows.min(first + PIECE_WORDS_MIN.div_ceil(length / rows));
        self.kernel.walk(self.front, self.back, self.stride, first..end, 1);
        self.next_row = end % rows;
        words_before(length, self.stride, end) - words_before(length, self.stride, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_working_set_and_begin_again() {
        for stride in [1, 7, 192] {
            let mut words = vec![0; 3 * PIECE_WORDS_MIN + 11];
            let length = words.len();
            let mut walk = Walk::new(Kernel::ConstStore, stride, &mut words, 0);
            let mut walked = 0;
            while walked < length {
                walked += walk.piece();
            }
            assert_eq!((walked, walk.next_row), (length, 0), "stride {stride}");
            assert!(words.iter().all(|&word| word != 0), "stride {stride}");
        }
    }

    #[test]
    fn a_small_set_is_walked_many_times_between_two_looks_at_the_clock() {
        let mut words = vec![0; 64];
        let mut walk = Walk::new(Kernel::LoadSum, 192, &mut words, 0);
        assert_eq!(walk.piece(), PIECE_WORDS_MIN);
        assert!(walk.timed(Duration::from_millis(1)) > 1e6);
    }
}
