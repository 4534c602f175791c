//! Popularity: requests by a document's rank, and the slope of Zipf's law.
//!
//! The slope is the maximum-likelihood exponent over all ranks, not a line through log-log points, which would depend
//! on the many documents requested once or twice. Ranks come from the same counts, which makes the slope of a short log
//! slightly too steep.

use serde::Serialize;

use super::fit::Goodness;

/// The rank plot has about this many points per factor of ten.
const POINTS_PER_DECADE: f64 = 30.0;

/// Newton's method stops when the slope changes by less.
const SLOPE_TOLERANCE: f64 = 1e-9;

/// The most rounds of Newton's method, which needs about six.
const ROUNDS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Popularity {
    /// The exponent s of `P[rank r] ∝ r^-s`; `None` with fewer than two documents.
    pub slope: Option<f64>,
    /// The largest difference between the fitted and the logged share of the first r ranks.
    pub kolmogorov_smirnov: Option<f64>,
    pub goodness: Option<Goodness>,
    /// The fraction of documents requested exactly once.
    pub once_fraction: f64,
    /// The fraction of requests that go to the first hundredth of documents (at least one).
    pub share_of_first_percent: f64,
    /// The fraction of requests that go to the first tenth of documents (at least one).
    pub share_of_first_ten_percent: f64,
    /// The number of requests of some ranks, evenly spaced in their logarithm.
    pub ranks: Vec<RankPoint>,
}

/// A document's rank and its number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankPoint {
    /// The rank, 1 for the most requested document.
    pub rank: u64,
    pub requests: u32,
}

impl Popularity {
    /// Computes popularity from the number of requests for each document.
    pub fn new(mut counts: Vec<u32>) -> Self {
        counts.retain(|&count| count > 0);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let share = |first: usize| {
            let covered: u64 = counts[..first].iter().map(|&count| u64::from(count)).sum();
            covered as f64 / total as f64
        };
        let slope = slope(&counts, total);
        let distance = slope.map(|slope| distance(&counts, total, slope));
        let once = counts.len() - counts.partition_point(|&count| count > 1);
        Popularity {
            slope,
            kolmogorov_smirnov: distance,
            goodness: distance.map(Goodness::of),
            once_fraction: once as f64 / counts.len() as f64,
            share_of_first_percent: share(counts.len().div_ceil(100)),
            share_of_first_ten_percent: share(counts.len().div_ceil(10)),
            ranks: points(&counts),
        }
    }
}

/// Maximum likelihood: the mean of ln r under Zipf's law equals that of the log. Newton's method; the derivative of the
/// mean is minus the variance of ln r.
fn slope(counts: &[u32], total: u64) -> Option<f64> {
    if counts.len() < 2 {
        return None;
    }
    let logarithm = |rank: usize| ((rank + 1) as f64).ln();
    let weighted = counts.iter().enumerate().map(|(rank, &count)| f64::from(count) * logarithm(rank));
    let observed = weighted.sum::<f64>() / total as f64;
    let mut slope = 1.0_f64;
    for _ in 0..ROUNDS_MAX {
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for rank in 0..counts.len() {
            let x = logarithm(rank);
            let weight = (-slope * x).exp();
            sum += weight;
            first += weight * x;
            second += weight * x * x;
        }
        let (mean, variance) = (first / sum, second / sum - (first / sum).powi(2));
        let next = (slope + (mean - observed) / variance).clamp(slope - 1.0, slope + 1.0);
        let change = (next - slope).abs();
        slope = next;
        if change < SLOPE_TOLERANCE {
            break;
        }
    }
    slope.is_finite().then_some(slope)
}

fn distance(counts: &[u32], total: u64, slope: f64) -> f64 {
    let weight = |rank: usize| ((rank + 1) as f64).powf(-slope);
    let norm: f64 = (0..counts.len()).map(weight).sum();
    let (mut by_law, mut by_log, mut largest) = (0.0, 0.0, 0.0_f64);
    for (rank, &count) in counts.iter().enumerate() {
        by_law += weight(rank) / norm;
        by_log += f64::from(count) / total as f64;
        largest = largest.max(f64::abs(by_law - by_log));
    }
    largest
}

fn points(counts: &[u32]) -> Vec<RankPoint> {
    let mut points = Vec::new();
    let mut rank = 1;
    while rank <= counts.len() {
        points.push(RankPoint { rank: rank as u64, requests: counts[rank - 1] });
        let factor = 10_f64.powf(1.0 / POINTS_PER_DECADE);
        let next = (rank + 1).max((rank as f64 * factor) as usize);
        rank = if rank < counts.len() { next.min(counts.len()) } else { next };
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(alpha: f64) {
        let counts = (1..=2000).map(|rank| (1e6 * f64::from(rank).powf(-alpha)) as u32).collect();
        let popularity = Popularity::new(counts);
        assert!((popularity.slope.unwrap() - alpha).abs() < 0.005, "{alpha}: {popularity:?}");
        assert_eq!(popularity.goodness, Some(Goodness::Close));
        assert_eq!(popularity.ranks.last().unwrap().rank, 2000);
    }

    #[test]
    fn a_zipf_law_gives_its_exponent_back() {
        for alpha in [0.0, 0.5, 0.8, 1.0, 1.3] {
            check(alpha);
        }
    }

    #[test]
    fn a_single_document_has_no_slope() {
        let popularity = Popularity::new(vec![0, 5]);
        assert_eq!((popularity.slope, popularity.share_of_first_percent), (None, 1.0));
        assert_eq!(popularity.ranks, [RankPoint { rank: 1, requests: 5 }]);
    }
}
