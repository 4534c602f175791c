//! A histogram of a window of a tenth of a second, which is kept as a few counts or discarded.
//!
//! It has the same buckets as [`Histogram`], so no precision is lost, and remembers which ones are in use: clearing
//! costs time per distinct latency, not per bucket.

use crate::{Histogram, Nanos, histogram::LATENCY_MAX};

/// Three significant digits: 2048 buckets of one nanosecond, then 1024 per doubling.
const EXACT_BITS: u32 = 11;
const HALF: usize = 1 << (EXACT_BITS - 1);

#[derive(Debug)]
pub struct WindowHistogram {
    counts: Box<[u32]>,
    used: Vec<u32>,
    count: u64,
    sum: u64,
}

/// The counts of one window, small enough to keep for a while.
#[derive(Debug, Default)]
pub struct WindowCounts {
    /// Bucket numbers with their counts.
    counts: Vec<(u32, u32)>,
    count: u64,
    sum: u64,
}

impl WindowCounts {
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of all latencies.
    pub fn sum(&self) -> Nanos {
        Nanos(self.sum)
    }

    pub fn add_to(&self, whole: &mut Histogram) {
        for &(bucket, count) in &self.counts {
            whole.record_many(least_of(bucket as usize), count.into());
        }
    }
}

impl Default for WindowHistogram {
    fn default() -> Self {
        let counts = vec![0; bucket(LATENCY_MAX) + 1].into_boxed_slice();
        WindowHistogram { counts, used: Vec::new(), count: 0, sum: 0 }
    }
}

impl WindowHistogram {
    pub fn record(&mut self, latency: Nanos) {
        let latency = latency.min(LATENCY_MAX);
        let bucket = bucket(latency);
        let count = &mut self.counts[bucket];
        if *count == 0 {
            self.used.push(bucket as u32);
        }
        *count = count.saturating_add(1);
        self.count += 1;
        self.sum = self.sum.saturating_add(latency.0);
    }

    /// Returns the counts and clears the histogram.
    pub fn take(&mut self) -> WindowCounts {
        let counts = self.used.iter().map(|&bucket| (bucket, self.counts[bucket as usize])).collect();
        let taken = WindowCounts { counts, count: self.count, sum: self.sum };
        self.clear();
        taken
    }

    pub fn clear(&mut self) {
        for bucket in self.used.drain(..) {
            self.counts[bucket as usize] = 0;
        }
        (self.count, self.sum) = (0, 0);
    }
}

fn bucket(latency: Nanos) -> usize {
    let doublings = (u64::BITS - EXACT_BITS).saturating_sub(latency.0.leading_zeros());
    (doublings as usize * HALF) + (latency.0 >> doublings) as usize
}

fn least_of(bucket: usize) -> Nanos {
    let doublings = (bucket / HALF).saturating_sub(1);
    Nanos(((bucket - doublings * HALF) as u64) << doublings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_add_up_to_what_one_histogram_would_have_recorded() {
        let (mut window, mut parts, mut whole) =
            (WindowHistogram::default(), Histogram::default(), Histogram::default());
        let mut sum = 0;
        for number in 0..20_000_u64 {
            let latency = number.wrapping_mul(2_654_435_761) % (1 << (number % 42));
            window.record(Nanos(latency));
            whole.record(Nanos(latency));
            sum += latency;
            if number % 1000 == 999 {
                let counts = window.take();
                assert_eq!((counts.count(), counts.sum()), (1000, Nanos(sum)));
                counts.add_to(&mut parts);
                sum = 0;
            }
        }
        assert_eq!(parts, whole);
        assert_eq!((window.take().count(), window.take().sum()), (0, Nanos::ZERO));
    }

    #[test]
    fn the_ends_of_all_buckets_are_those_of_the_histogram() {
        for exact in [0, 1, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 1 << 41, LATENCY_MAX.0, u64::MAX] {
            let (mut window, mut emptied, mut whole) =
                (WindowHistogram::default(), Histogram::default(), Histogram::default());
            window.record(Nanos(exact));
            window.take().add_to(&mut emptied);
            whole.record(Nanos(exact));
            assert_eq!(emptied, whole, "{exact}");
        }
    }

    #[test]
    fn what_is_cleared_does_not_come_back() {
        let (mut window, mut whole) = (WindowHistogram::default(), Histogram::default());
        window.record(Nanos(5));
        window.clear();
        window.record(Nanos(7));
        window.take().add_to(&mut whole);
        assert_eq!(whole.recorded().collect::<Vec<_>>(), [(Nanos(7), 1)]);
    }
}
