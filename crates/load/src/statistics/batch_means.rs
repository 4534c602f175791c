//! The confidence interval of a mean over many windows, by batch means.
//!
//! Consecutive windows are correlated, because queues outlast them; treating them as independent would make the
//! interval too narrow. Longer batches of windows are less correlated, but fewer. So the interval is computed for
//! several batch lengths and the widest is used. The mean is that of all requests, a ratio of two sums: a batch counts
//! by the difference between its sum and what its requests would contribute at the overall mean.

use sojourn_measure::Nanos;

/// The most batches kept; beyond that, pairs are merged.
const BATCHES_MAX: usize = 1024;
/// The numbers of batches for which an interval is computed, with Student's t for 97.5 % and one degree of freedom
/// less.
const GROUPINGS: [(usize, f64); 3] = [(40, 2.0227), (20, 2.0930), (10, 2.2622)];

#[derive(Clone, Debug)]
pub struct Batches {
    ended: Vec<Batch>,
    length: u32,
    open: Batch,
    open_length: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    requests: f64,
    seconds: f64,
}

impl Default for Batches {
    fn default() -> Self {
        Batches { ended: Vec::new(), length: 1, open: Batch::default(), open_length: 0 }
    }
}

impl Batches {
    /// Adds a window: the number of requests and the sum of their latencies.
    pub fn push(&mut self, requests: u64, sum: Nanos) {
        self.open = self.open.and(Batch { requests: requests as f64, seconds: sum.seconds() });
        self.open_length += 1;
        if self.open_length < self.length {
            return;
        }
        self.ended.push(std::mem::take(&mut self.open));
        self.open_length = 0;
        if self.ended.len() == BATCHES_MAX {
            self.ended = self.ended.chunks(2).map(|pair| pair[0].and(pair[1])).collect();
            self.length *= 2;
        }
    }

    /// The half-width of the mean's 95 % confidence interval in seconds; `None` with too few windows.
    pub fn half_width_seconds(&self) -> Option<f64> {
        let possible = GROUPINGS.iter().filter(|(groups, _)| *groups <= self.ended.len());
        possible.filter_map(|&(groups, t)| Some(t * self.deviation(groups)?)).max_by(f64::total_cmp)
    }

    /// The standard deviation of the mean, from this many groups of windows.
    fn deviation(&self, groups: usize) -> Option<f64> {
        let count = self.ended.len();
        let group = |number: usize| &self.ended[number * count / groups..(number + 1) * count / groups];
        let sums = (0..groups).map(|number| Batch::sum(group(number)));
        let whole = Batch::sum(&self.ended);
        let mean = (whole.requests > 0.0).then(|| whole.seconds / whole.requests)?;
        let squares: f64 = sums.map(|sum| (sum.seconds - mean * sum.requests).powi(2)).sum();
        let groups = groups as f64;
        Some((groups / (groups - 1.0) * squares).sqrt() / whole.requests)
    }
}

impl Batch {
    fn and(self, other: Batch) -> Batch {
        Batch { requests: self.requests + other.requests, seconds: self.seconds + other.seconds }
    }

    fn sum(batches: &[Batch]) -> Batch {
        batches.iter().fold(Batch::default(), |sum, batch| sum.and(*batch))
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// The share of intervals that contain the true mean of 100 ms, for windows whose means have this correlation.
    fn coverage(correlation: f64, windows: usize) -> f64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut normal = move || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let trials = 500;
        let held = (0..trials).filter(|_| {
            let (mut batches, mut level) = (Batches::default(), normal());
            let (mut requests, mut sum) = (0, 0.0);
            for _ in 0..windows {
                level = correlation * level + (1.0 - correlation * correlation).sqrt() * normal();
                // Busy windows are slow ones, as with a queue.
                let count = (200.0 + 30.0 * level).max(1.0) as u64;
                let seconds = count as f64 * 0.1 + 2.0 * level;
                batches.push(count, Nanos::from_seconds(seconds));
                (requests, sum) = (requests + count, sum + seconds);
            }
            let half_width = batches.half_width_seconds().unwrap();
            (sum / requests as f64 - 0.1).abs() <= half_width
        });
        held.count() as f64 / f64::from(trials)
    }

    #[test]
    fn intervals_hold_the_mean_also_where_windows_hang_together() {
        for (correlation, windows, least) in [(0.0, 60, 0.93), (0.5, 200, 0.93), (0.9, 600, 0.9)] {
            let held = coverage(correlation, windows);
            assert!(held >= least, "{held} of the intervals with correlation {correlation}");
        }
    }

    #[test]
    fn equal_windows_leave_no_doubt_and_few_windows_no_answer() {
        let mut batches = Batches::default();
        (0..9).for_each(|_| batches.push(10, Nanos(1_000_000)));
        assert_eq!(batches.half_width_seconds(), None);
        batches.push(10, Nanos(1_000_000));
        assert!(batches.half_width_seconds().is_some_and(|width| width < 1e-12));
        let mut idle = Batches::default();
        (0..20).for_each(|_| idle.push(0, Nanos::ZERO));
        assert_eq!(idle.half_width_seconds(), None);
    }

    #[test]
    fn a_day_of_windows_is_kept_in_bounded_memory() {
        let mut batches = Batches::default();
        (0..864_000_u64).for_each(|number| batches.push(10, Nanos(1_000_000 * (number % 2))));
        assert!(batches.ended.len() <= BATCHES_MAX && batches.length >= 844);
        assert!(batches.half_width_seconds().is_some());
    }
}
