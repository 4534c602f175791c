//! Pareto distributions of measured values: bounded at both ends, or a tail index for the largest values alone.

use serde::Serialize;

use super::Candidate;
use crate::distribution::BoundedPareto;

/// Range of shapes tried. Below it the distribution is log-uniform, above it a constant.
const SHAPES: (f64, f64) = (1e-3, 1e3);
const BISECTIONS: usize = 100;

pub(super) fn fit_bounded(sorted: &[f64]) -> Option<Candidate> {
    let (low, high, count) = (sorted[0], sorted[sorted.len() - 1], sorted.len() as f64);
    // Equal values have no density.
    if high <= low {
        return None;
    }
    let range = (low / high).ln();
    let excess = sorted.iter().map(|value| (value / low).ln()).sum::<f64>() / count;
    // The derivative of the mean log-likelihood, falling in the shape.
    let slope = |shape: f64| {
        let left = shape * range;
        1.0 / shape + range * left.exp() / -left.exp_m1() - excess
    };
    let (mut smaller, mut larger) = SHAPES;
    // Values whose density grows towards the upper end have no power tail.
    if slope(smaller) <= 0.0 || slope(larger) >= 0.0 {
        return None;
    }
    for _ in 0..BISECTIONS {
        let middle = (smaller + larger) / 2.0;
        if slope(middle) > 0.0 { smaller = middle } else { larger = middle }
    }
    let shape = (smaller + larger) / 2.0;
    let mass = -(shape * range).exp_m1();
    Some(Candidate {
        distribution: BoundedPareto::new(shape, low, high).ok()?.into(),
        parameters: vec![("shape".to_owned(), shape), ("min".to_owned(), low), ("max".to_owned(), high)],
        log_likelihood: count * (shape.ln() - low.ln() - mass.ln() - (shape + 1.0) * excess),
    })
}

/// P(X > x) ∝ x^−shape beyond `start`: the tail index of the largest values (Hill 1975), which is maximum likelihood
/// for a Pareto tail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ParetoTail {
    /// The tail index; below 2 the variance would be infinite, below 1 the mean.
    pub shape: f64,
    /// Asymptotic standard error of the shape: shape/√k.
    pub shape_standard_error: f64,
    /// Where the tail begins, in the unit of the values.
    pub start: f64,
    /// The fraction of values beyond `start`.
    pub fraction: f64,
    /// sup |F − Fₙ| within the tail.
    pub kolmogorov_smirnov: f64,
}

impl ParetoTail {
    /// `tail` is ascending; its first value is where the tail starts.
    pub(super) fn of(tail: &[f64], fraction: f64) -> Self {
        let (start, beyond) = (tail[0], (tail.len() - 1) as f64);
        let logarithms: f64 = tail.iter().map(|value| (value / start).ln()).sum();
        let shape = beyond / logarithms.max(f64::MIN_POSITIVE);
        let gap = |(index, value): (usize, &f64)| {
            let cdf = 1.0 - (start / value).powf(shape);
            (cdf - index as f64 / beyond).abs()
        };
        Self {
            shape,
            shape_standard_error: shape / beyond.sqrt(),
            start,
            fraction,
            kolmogorov_smirnov: tail.iter().enumerate().map(gap).fold(0.0, f64::max),
        }
    }
}
