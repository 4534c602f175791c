//! The transform of a distribution: in closed form, or by a few weighted values that are denser in the tail and keep
//! its mean.

use crate::complex::Complex;
use crate::distribution::{Distribution, RandomVariable};

/// Pairs of an upper probability and the number of strata up to it.
const STRATA: [(f64, usize); 9] = [
    (0.5, 16),
    (0.9, 16),
    (0.99, 16),
    (0.999, 12),
    (0.999_9, 8),
    (0.999_99, 8),
    (0.999_999, 8),
    (0.999_999_9, 8),
    (0.999_999_99, 8),
];

/// Probabilities and values.
pub(super) type Nodes = Vec<(f64, f64)>;

pub(super) fn nodes(distribution: &Distribution) -> Nodes {
    if let Distribution::Deterministic(distribution) = distribution {
        return vec![(1.0, distribution.mean())];
    }
    let (mut nodes, mut low) = (Nodes::new(), 0.0);
    for (high, strata) in STRATA {
        let width = (high - low) / strata as f64;
        nodes.extend(
            (0..strata).map(|stratum| (width, distribution.quantile(low + (stratum as f64 + 0.5) * width))),
        );
        low = high;
    }
    // The last node represents the rest of the tail; its value corrects the mean.
    let left: f64 = 1.0 - low;
    let sum: f64 = nodes.iter().map(|(weight, value)| weight * value).sum();
    let largest = nodes[nodes.len() - 1].1;
    nodes.push((
        left,
        ((distribution.mean() - sum) / left).clamp(largest, 100.0 * largest.max(f64::MIN_POSITIVE)),
    ));
    nodes
}

/// A mixture whose transform is evaluated for many arguments.
#[derive(Default)]
pub(super) struct Transform {
    closed: Vec<(f64, Distribution)>,
    points: Nodes,
}

impl Transform {
    pub(super) fn of(distribution: &Distribution) -> Self {
        let mut found = Self::default();
        match distribution {
            Distribution::Mixture(mixture) => {
                mixture.parts().iter().for_each(|(weight, part)| found.add(*weight, part));
            }
            single => found.add(1.0, single),
        }
        found
    }
    fn add(&mut self, weight: f64, distribution: &Distribution) {
        if closed_form(distribution, Complex::ONE).is_some() {
            self.closed.push((weight, distribution.clone()));
        } else {
            let points = nodes(distribution).into_iter();
            self.points.extend(points.map(|(probability, value)| (weight * probability, value)));
        }
    }

    /// E[exp(−sX)].
    pub(super) fn at(&self, s: Complex) -> Complex {
        let closed = self
            .closed
            .iter()
            .filter_map(|(weight, distribution)| Some(closed_form(distribution, s)? * *weight));
        let points = self.points.iter().map(|(weight, value)| (s * -value).exp() * *weight);
        closed.chain(points).fold(Complex::ZERO, |sum, part| sum + part)
    }
}

fn closed_form(distribution: &Distribution, s: Complex) -> Option<Complex> {
    let exponential = |mean: f64| Complex::ONE / (Complex::ONE + s * mean);
    match distribution {
        Distribution::Deterministic(distribution) => Some((s * -distribution.mean()).exp()),
        Distribution::Exponential(distribution) => Some(exponential(distribution.mean())),
        Distribution::Erlang(distribution) => {
            let stages = f64::from(distribution.stages());
            Some(exponential(distribution.mean() / stages).powf(stages))
        }
        Distribution::HyperExponential(distribution) => {
            let (p, [first, second]) = (distribution.probability(), distribution.means());
            Some(exponential(first) * p + exponential(second) * (1.0 - p))
        }
        _ => None,
    }
}
