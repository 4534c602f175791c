//! A weighted sample of values, the basis of all size statistics.

/// Distinct values in ascending order with their weights.
pub struct WeightedSample {
    pub pairs: Vec<(u64, u64)>,
    pub total: u64,
}

impl WeightedSample {
    pub fn new(pairs: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut pairs: Vec<_> = pairs.filter(|&(_, weight)| weight > 0).collect();
        pairs.sort_unstable();
        pairs.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 += later.1;
            }
            same
        });
        let total = pairs.iter().map(|&(_, weight)| weight).sum();
        WeightedSample { pairs, total }
    }

    /// The mean of a function of the value.
    pub fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        let sum: f64 = self.pairs.iter().map(|&(value, weight)| weight as f64 * of(value as f64)).sum();
        sum / self.total as f64
    }

    /// The smallest value that the fraction `q` of the sample does not exceed.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = (q * self.total as f64).ceil() as u64;
        let mut sum = 0;
        let reached = self.pairs.iter().find(|&&(_, weight)| {
            sum += weight;
            sum >= wanted
        });
        reached.or(self.pairs.last()).map_or(0, |&(value, _)| value)
    }

    /// The Kolmogorov–Smirnov distance between the sample and another distribution function, checked on both sides of
    /// every step.
    pub fn distance(&self, distribution: impl Fn(f64) -> f64) -> f64 {
        distance(&self.pairs, self.total, distribution)
    }
}

/// The Kolmogorov–Smirnov distance of a part of a sample.
pub fn distance(pairs: &[(u64, u64)], total: u64, distribution: impl Fn(f64) -> f64) -> f64 {
    let mut below = 0;
    let mut largest = 0.0_f64;
    for &(value, weight) in pairs {
        let expected = distribution(value as f64);
        let (before, after) = (below as f64 / total as f64, (below + weight) as f64 / total as f64);
        largest = largest.max(expected - before).max(after - expected);
        below += weight;
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_merge_and_weights_count() {
        let sample = WeightedSample::new([(5, 1), (1, 2), (5, 1), (9, 0)].into_iter());
        assert_eq!(sample.pairs, [(1, 2), (5, 2)]);
        assert_eq!(sample.mean(|value| value), 3.0);
        let check = |q, expected| assert_eq!(sample.quantile(q), expected, "{q}");
        check(0.0, 1);
        check(0.5, 1);
        check(0.51, 5);
        check(1.0, 5);
        // Uniform on [0, 10]: F(1) = 0.1 against 0 and 0.5, F(5) = 0.5 against 0.5 and 1.
        assert_eq!(sample.distance(|value| value / 10.0), 0.5);
    }
}
