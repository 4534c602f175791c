//! Log-normal, with and without a shift, by maximum likelihood: mean and deviation of the logarithms.
//!
//! Raw moments would not do: at σ = 1.573 three million values still miss the second moment by 8 %. With a shift the
//! likelihood has no largest value (it grows without bound as the shift nears the least observation), so the estimate
//! is its highest interior maximum along the shift (Hill 1963; Cohen & Whitten 1980).

use std::f64::consts::TAU;

use super::Candidate;
use crate::distribution::{Distribution, LogNormal};

/// Distances between the shift and the least value that are tried, from all of it down to this part of it.
const DISTANCE_MIN: f64 = 1e-7;
const DISTANCES: usize = 64;
const REFINEMENTS: usize = 60;
/// Least variance of the logarithms, relative to their square.
const VARIANCE_MIN: f64 = 1e-24;

pub(super) fn fit(sorted: &[f64]) -> Option<Candidate> {
    let (mu, sigma, log_likelihood) = of_shifted(sorted, 0.0)?;
    Some(Candidate {
        distribution: LogNormal::new(mu, sigma).ok()?.into(),
        parameters: vec![("mu".to_owned(), mu), ("sigma".to_owned(), sigma)],
        log_likelihood,
    })
}

pub(super) fn fit_shifted(sorted: &[f64]) -> Option<Candidate> {
    let least = sorted[0];
    let likelihood = |log_distance: f64| {
        of_shifted(sorted, least * (1.0 - log_distance.exp())).map_or(f64::NEG_INFINITY, |found| found.2)
    };
    let step = DISTANCE_MIN.ln() / (DISTANCES - 1) as f64;
    let tried: Vec<f64> = (0..DISTANCES).map(|index| likelihood(step * index as f64)).collect();
    // Without an interior maximum there is no shift to speak of, or nothing but a shift.
    let inside = (1..DISTANCES - 1).filter(|&i| tried[i] > tried[i - 1] && tried[i] >= tried[i + 1]);
    let best = inside.max_by(|a, b| tried[*a].total_cmp(&tried[*b]))?;
    let log_distance = highest(&likelihood, step * (best + 1) as f64, step * (best - 1) as f64);
    let shift = least * (1.0 - log_distance.exp());
    let (mu, sigma, log_likelihood) = of_shifted(sorted, shift)?;
    Some(Candidate {
        distribution: Distribution::shifted_log_normal(mu, sigma, 1.0, shift).ok()?,
        parameters: vec![("mu".to_owned(), mu), ("sigma".to_owned(), sigma), ("shift".to_owned(), shift)],
        log_likelihood,
    })
}

/// μ, σ and the log-likelihood of values that are `shift` plus log-normal; `None` where all are equal.
fn of_shifted(sorted: &[f64], shift: f64) -> Option<(f64, f64, f64)> {
    let count = sorted.len() as f64;
    let logarithms = || sorted.iter().map(|value| (value - shift).ln());
    let mu = logarithms().sum::<f64>() / count;
    let variance = logarithms().map(|logarithm| (logarithm - mu).powi(2)).sum::<f64>() / count;
    // Equal values leave rounding, not variance.
    (variance > VARIANCE_MIN * (1.0 + mu * mu))
        .then(|| (mu, variance.sqrt(), -count * (mu + 0.5 * (TAU * variance).ln() + 0.5)))
}

/// Golden-section search for a maximum between `low` and `high`.
fn highest(of: &dyn Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let (mut a, mut b) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut at_a, mut at_b) = (of(a), of(b));
    for _ in 0..REFINEMENTS {
        if high - low < 1e-9 {
            break;
        }
        if at_a > at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - GOLDEN * (high - low);
            at_a = of(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + GOLDEN * (high - low);
            at_b = of(b);
        }
    }
    (low + high) / 2.0
}
