//! Times walks: long enough for the clock, each starting where the last one ended.

use std::time::{Duration, Instant};

use super::WORD_BYTES;
use super::kernel::{Kernel, words_before};

/// Words between two looks at the clock, so that looking costs less than a thousandth.
const PIECE_WORDS_MIN: usize = 64 * 1024;

/// Apart by this, no word of one half has the low twelve address bits of the word that is copied to or from it:
/// processors take such a load for one of the pending store, and wait.
const HALVES_GAP_WORDS: usize = 33 * 8;

/// A row has at least so many words: of shorter ones the turn from row to row would be measured. In a set so small
/// that this shortens its stride, all is in the nearest cache and the stride says nothing.
const ROW_WORDS_MIN: usize = 32;

/// The words that a working set needs, including the gap between its halves.
pub fn words_needed(kernel: Kernel, working_set_bytes: usize) -> usize {
    working_set_bytes / WORD_BYTES + if kernel.copies() { HALVES_GAP_WORDS } else { 0 }
}

/// A working set that is walked.
pub struct Walk<'a> {
    kernel: Kernel,
    stride: usize,
    front: &'a mut [u64],
    back: &'a mut [u64],
    /// The row that comes next. Sets too large for one walk are so covered by several.
    next_row: usize,
}

impl<'a> Walk<'a> {
    /// A walk over `words`, which has [`words_needed`].
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

    /// Brings into the caches what they can hold.
    pub fn warm(&mut self) {
        if self.front.len() <= PIECE_WORDS_MIN {
            self.kernel.walk(self.front, self.back, self.stride, 0..self.stride, 1);
        } else {
            // Side by side is the fastest way through a large set.
            self.kernel.walk(self.front, self.back, 1, 0..1, 1);
        }
    }

    /// Walks for about this long; bytes moved per second. A copied byte counts once.
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

    /// The next rows, or the whole several times; how many words that were.
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
