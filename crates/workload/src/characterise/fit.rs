//! Fits two distributions to web document sizes: a log-normal body and a Pareto tail.
//!
//! The goodness of a fit is its Kolmogorov–Smirnov distance and a word for it. There is deliberately no p-value: the
//! parameters come from the same data, sizes repeat, and with a million requests any distribution is rejected however
//! useful it is.

use serde::Serialize;

use super::weighted_sample::{WeightedSample, distance};

/// The most tail starts to try.
const TAIL_STARTS_MAX: usize = 100;

/// The fewest distinct sizes in a fitted tail.
const TAIL_DISTINCT_MIN: usize = 50;

/// A verdict on a Kolmogorov–Smirnov distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goodness {
    /// At most 0.03: invisible in a plot.
    Close,
    /// At most 0.08: good enough for a mean, not for a percentile.
    Fair,
    /// Above 0.08: use the sizes themselves.
    Poor,
}

impl Goodness {
    pub fn of(distance: f64) -> Self {
        match distance {
            ..=0.03 => Goodness::Close,
            ..=0.08 => Goodness::Fair,
            _ => Goodness::Poor,
        }
    }
}

/// The log-normal distribution of the positive sizes, by maximum likelihood.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogNormalFit {
    /// Mean of the logarithm of the size in bytes.
    pub mu: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// The fitted distribution's mean, to compare with the sample's.
    pub implied_mean_bytes: f64,
    pub kolmogorov_smirnov: f64,
    pub goodness: Goodness,
}

/// The Pareto distribution `P[X > x] = (x / minimum)^-alpha` of the largest sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParetoFit {
    /// The exponent; at most 2 means an infinite variance, at most 1 an infinite mean.
    pub alpha: f64,
    /// Standard error of alpha, alpha / sqrt(n), assuming independent sizes.
    pub alpha_standard_error: f64,
    pub minimum_bytes: u64,
    /// The share of the sample in the tail.
    pub tail_fraction: f64,
    /// The number of sizes in the tail, counting repetitions.
    pub tail_count: u64,
    pub kolmogorov_smirnov: f64,
    pub goodness: Goodness,
}

/// Fits a log-normal distribution; `None` with fewer than two distinct positive sizes.
pub fn log_normal(sample: &WeightedSample) -> Option<LogNormalFit> {
    let positive =
        WeightedSample::new(sample.pairs.iter().copied().filter(|&(size_bytes, _)| size_bytes > 0));
    if positive.pairs.len() < 2 {
        return None;
    }
    let mu = positive.mean(f64::ln);
    let sigma = positive.mean(|size_bytes| (size_bytes.ln() - mu).powi(2)).sqrt();
    let kolmogorov_smirnov = positive.distance(|size_bytes| normal_cdf((size_bytes.ln() - mu) / sigma));
    Some(LogNormalFit {
        mu,
        sigma,
        implied_mean_bytes: (mu + sigma * sigma / 2.0).exp(),
        kolmogorov_smirnov,
        goodness: Goodness::of(kolmogorov_smirnov),
    })
}

/// Clauset, Shalizi, Newman, "Power-law distributions in empirical data" (2009), 3.1 and 3.3: for each start of the
/// tail, alpha by maximum likelihood (Hill); the start with the smallest distance wins. Candidate starts lie above the
/// median, evenly among the distinct sizes.
pub fn pareto_tail(sample: &WeightedSample) -> Option<ParetoFit> {
    let pairs = &sample.pairs;
    let median = sample.quantile(0.5).max(1);
    let lowest = pairs.partition_point(|&(size_bytes, _)| size_bytes < median);
    let highest = pairs.len().checked_sub(TAIL_DISTINCT_MIN)?;
    let step = highest.checked_sub(lowest)?.div_ceil(TAIL_STARTS_MAX).max(1);
    let fits = (lowest..=highest).step_by(step).map(|start| pareto_from(&pairs[start..], sample.total));
    fits.min_by(|a, b| a.kolmogorov_smirnov.total_cmp(&b.kolmogorov_smirnov))
}

fn pareto_from(tail: &[(u64, u64)], total: u64) -> ParetoFit {
    let minimum_bytes = tail[0].0;
    let excess = |size_bytes: f64| (size_bytes / minimum_bytes as f64).ln();
    let tail_count: u64 = tail.iter().map(|&(_, weight)| weight).sum();
    let log_sum: f64 =
        tail.iter().map(|&(size_bytes, weight)| weight as f64 * excess(size_bytes as f64)).sum();
    let alpha = tail_count as f64 / log_sum;
    let kolmogorov_smirnov =
        distance(tail, tail_count, |size_bytes| 1.0 - (-alpha * excess(size_bytes)).exp());
    ParetoFit {
        alpha,
        alpha_standard_error: alpha / (tail_count as f64).sqrt(),
        minimum_bytes,
        tail_fraction: tail_count as f64 / total as f64,
        tail_count,
        kolmogorov_smirnov,
        goodness: Goodness::of(kolmogorov_smirnov),
    }
}

/// Abramowitz and Stegun, 26.2.17: within 7.5e-8.
fn normal_cdf(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] = [0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429];
    let t = 1.0 / (1.0 + 0.2316419 * z.abs());
    let polynomial = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let upper = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial;
    if z < 0.0 { upper } else { 1.0 - upper }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::variates;

    fn sample(count: usize, mut size: impl FnMut(&mut Xoshiro256PlusPlus) -> f64) -> WeightedSample {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        WeightedSample::new((0..count).map(|_| (size(&mut random) as u64, 1)))
    }

    #[test]
    fn the_normal_distribution_function_is_right_at_known_points() {
        let check = |z, expected: f64| assert!((normal_cdf(z) - expected).abs() < 1e-7, "{z}");
        check(0.0, 0.5);
        check(1.0, 0.841_344_746);
        check(-1.959_963_985, 0.025);
        check(3.0, 0.998_650_102);
        check(-8.0, 0.0);
    }

    #[test]
    fn a_log_normal_sample_gives_its_parameters_back() {
        let sizes = sample(20_000, |random| (7.811 + 1.573 * variates::normal(random)).exp());
        let fit = log_normal(&sizes).unwrap();
        // Standard errors are sigma / sqrt(n) = 0.011 and sigma / sqrt(2 n) = 0.008.
        assert!((fit.mu - 7.811).abs() < 0.035, "{fit:?}");
        assert!((fit.sigma - 1.573).abs() < 0.025, "{fit:?}");
        assert_eq!(fit.goodness, Goodness::Close);
    }

    #[test]
    fn a_pareto_tail_is_found_where_it_begins() {
        // Half the sample uniform below 10 kB, half Pareto with alpha 1.2 above.
        let sizes = sample(20_000, |random| match random.random::<bool>() {
            true => 10_000.0 * random.random::<f64>(),
            false => 10_000.0 * (1.0 - random.random::<f64>()).powf(-1.0 / 1.2),
        });
        let fit = pareto_tail(&sizes).unwrap();
        assert!((fit.alpha - 1.2).abs() < 0.06, "{fit:?}");
        assert!(fit.minimum_bytes < 40_000, "{fit:?}");
        assert_eq!(fit.goodness, Goodness::Close);
    }

    #[test]
    fn too_little_gives_no_fit() {
        assert_eq!(log_normal(&WeightedSample::new([(0, 9), (5, 9)].into_iter())), None);
        assert_eq!(pareto_tail(&WeightedSample::new((0..49).map(|size_bytes| (size_bytes, 1)))), None);
    }
}
