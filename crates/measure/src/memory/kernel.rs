//! The inner loops of the memory sweep.
//!
//! Loads and stores are volatile, so every stride runs the same instructions, one word at a time. Otherwise the
//! compiler would vectorise only stride 1, or call a library, and the curve would show the compiler. `copy-block`
//! measures that library call.

use std::hint::black_box;
use std::ops::Range;
use std::ptr;

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Loads each word and adds it to one of four sums, so that no load waits for an addition.
    LoadSum,
    /// Stores a constant in each word.
    ConstStore,
    /// Loads with the stride from one half, stores contiguously in the other.
    CopyStridedLoad,
    /// Loads contiguously from one half, stores with the stride in the other.
    CopyStridedStore,
    /// Copies one half to the other with the library's copy; only with stride 1.
    CopyBlock,
}

impl Kernel {
    /// Every kernel, in the order of the documentation.
    pub const ALL: [Kernel; 5] = [
        Kernel::LoadSum,
        Kernel::ConstStore,
        Kernel::CopyStridedLoad,
        Kernel::CopyStridedStore,
        Kernel::CopyBlock,
    ];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::LoadSum => "load-sum",
            Kernel::ConstStore => "const-store",
            Kernel::CopyStridedLoad => "copy-strided-load",
            Kernel::CopyStridedStore => "copy-strided-store",
            Kernel::CopyBlock => "copy-block",
        }
    }

    /// True if it copies one half of the working set to the other.
    pub fn copies(self) -> bool {
        !matches!(self, Kernel::LoadSum | Kernel::ConstStore)
    }

    /// True if it supports this stride.
    pub fn supports(self, stride: usize) -> bool {
        self != Kernel::CopyBlock || stride == 1
    }

    /// Walks these rows of `front` (and of `back`, of equal length, if it copies) `passes` times.
    ///
    /// # Panics
    /// If a row begins outside, or a copy's halves differ in length.
    pub fn walk(self, front: &mut [u64], back: &mut [u64], stride: usize, rows: Range<usize>, passes: usize) {
        assert!(rows.end <= front.len() && stride > 0);
        assert!(!self.copies() || front.len() == back.len());
        for _ in 0..passes {
            match self {
                Kernel::LoadSum => load_sum(front, stride, rows.clone()),
                Kernel::ConstStore => const_store(front, stride, rows.clone()),
                Kernel::CopyStridedLoad => copy_strided_load(front, back, stride, rows.clone()),
                Kernel::CopyStridedStore => copy_strided_store(front, back, stride, rows.clone()),
                Kernel::CopyBlock => back.copy_from_slice(black_box(front)),
            }
            black_box(&mut *back);
        }
    }
}

fn load_sum(words: &[u64], stride: usize, rows: Range<usize>) {
    let start = words.as_ptr();
    let mut sums = [0_u64; 4];
    for row in rows {
        let mut index = row;
        while index + 3 * stride < words.len() {
            for (place, sum) in sums.iter_mut().enumerate() {
                // SAFETY: index + 3 * stride is within the slice.
                *sum = sum.wrapping_add(unsafe { ptr::read_volatile(start.add(index + place * stride)) });
            }
            index += 4 * stride;
        }
        while index < words.len() {
            // SAFETY: index is within the slice.
            sums[0] = sums[0].wrapping_add(unsafe { ptr::read_volatile(start.add(index)) });
            index += stride;
        }
    }
    black_box(sums);
}

fn const_store(words: &mut [u64], stride: usize, rows: Range<usize>) {
    let (start, value) = (words.as_mut_ptr(), black_box(0x5ec7_0a11_u64));
    for row in rows {
        let mut index = row;
        while index + 3 * stride < words.len() {
            for place in 0..4 {
                // SAFETY: index + 3 * stride is within the slice.
                unsafe { ptr::write_volatile(start.add(index + place * stride), value) };
            }
            index += 4 * stride;
        }
        while index < words.len() {
            // SAFETY: index is within the slice.
            unsafe { ptr::write_volatile(start.add(index), value) };
            index += stride;
        }
    }
}

fn copy_strided_load(from: &[u64], to: &mut [u64], stride: usize, rows: Range<usize>) {
    let mut next = words_before(from.len(), stride, rows.start);
    for row in rows {
        let count = row_words(from.len(), stride, row);
        // SAFETY: the row is within `from`; all rows together fill `to`, which has the same length.
        unsafe { copy(from.as_ptr().add(row), stride, to.as_mut_ptr().add(next), 1, count) };
        next += count;
    }
}

fn copy_strided_store(from: &[u64], to: &mut [u64], stride: usize, rows: Range<usize>) {
    let mut next = words_before(from.len(), stride, rows.start);
    for row in rows {
        let count = row_words(from.len(), stride, row);
        // SAFETY: the row is within `to`; all rows together read all of `from`, which has the same length.
        unsafe { copy(from.as_ptr().add(next), 1, to.as_mut_ptr().add(row), stride, count) };
        next += count;
    }
}

/// # Safety
/// `count` words with their strides lie within what the pointers may be used for.
unsafe fn copy(from: *const u64, from_stride: usize, to: *mut u64, to_stride: usize, count: usize) {
    let move_word = |index: usize| {
        // SAFETY: the index is below the count.
        unsafe {
            let word = ptr::read_volatile(from.add(index * from_stride));
            ptr::write_volatile(to.add(index * to_stride), word);
        }
    };
    let mut index = 0;
    while index + 4 <= count {
        (index..index + 4).for_each(move_word);
        index += 4;
    }
    (index..count).for_each(move_word);
}

/// The number of words in a row.
pub fn row_words(words: usize, stride: usize, row: usize) -> usize {
    (words - row).div_ceil(stride)
}

/// The number of words in the rows before this one.
pub fn words_before(words: usize, stride: usize, row: usize) -> usize {
    // If the stride does not divide the number of words, the first rows have one word more.
    row * (words / stride) + row.min(words % stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_moved_once_whatever_the_stride() {
        for words in [1, 2, 63, 64, 1000] {
            for stride in [1, 2, 3, 7, 64, 192] {
                let rows = stride.min(words);
                for kernel in [Kernel::CopyStridedLoad, Kernel::CopyStridedStore] {
                    let mut from: Vec<u64> = (1..=words as u64).collect();
                    let mut to = vec![0; words];
                    // In two pieces, as the walks do it.
                    kernel.walk(&mut from, &mut to, stride, 0..rows / 2, 1);
                    kernel.walk(&mut from, &mut to, stride, rows / 2..rows, 1);
                    to.sort_unstable();
                    assert_eq!(to, from, "{kernel:?} of {words} words with stride {stride}");
                }
            }
        }
    }

    #[test]
    fn a_store_reaches_every_word() {
        let mut words = vec![0; 1001];
        Kernel::ConstStore.walk(&mut words, &mut [], 8, 0..8, 1);
        assert!(words.iter().all(|&word| word == words[0] && word != 0));
    }

    #[test]
    fn rows_add_up_to_the_whole() {
        for (words, stride) in [(64, 1), (64, 192), (1000, 7)] {
            let rows = stride.min(words);
            let total: usize = (0..rows).map(|row| row_words(words, stride, row)).sum();
            assert_eq!(total, words);
            assert_eq!(words_before(words, stride, rows), words);
        }
    }
}
