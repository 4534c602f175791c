//! The tail index of the largest values (Hill 1975), which is maximum likelihood for a Pareto tail.

use serde::Serialize;

/// P(X > x) ∝ x^−shape beyond `start`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ParetoTail {
    /// The tail index; below 2 the variance would be infinite, below 1 the mean.
    pub shape: f64,
    /// Of the shape, asymptotic: shape/√k.
    pub shape_standard_error: f64,
    /// Where the tail begins, in the unit of the values.
    pub start: f64,
    /// The share of values beyond.
    pub fraction: f64,
    /// sup |F − Fₙ| within the tail.
    pub kolmogorov_smirnov: f64,
}

impl ParetoTail {
    /// Of values in ascending order; the first is where the tail starts.
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
