//! The transform of a distribution: in closed form, or by the means of a few strata, which are narrower in the tail.
//! So the whole keeps its mean, and no value stands for what the others miss.

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
    // The mean of the values beyond the probability p, times 1 − p: the integral of the quantiles from p to one.
    let beyond = |p: f64| {
        let value = distribution.quantile(p);
        (value, distribution.excess(value) + value * (1.0 - p))
    };
    let (mut nodes, mut low, mut from) =
        (Nodes::new(), 0.0, (distribution.quantile(0.0), distribution.mean()));
    for (high, strata) in STRATA {
        let width = (high - low) / strata as f64;
        for stratum in 1..=strata {
            let to = beyond(low + stratum as f64 * width);
            nodes.push((width, ((from.1 - to.1) / width).clamp(from.0, to.0.max(from.0))));
            from = to;
        }
        low = high;
    }
    // The last node stands for the rest of the tail.
    nodes.push((1.0 - low, (from.1 / (1.0 - low)).max(from.0)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{BoundedPareto, LogNormal};

    #[test]
    fn nodes_keep_the_mean_within_the_law() {
        let laws: [Distribution; 3] = [
            LogNormal::new(0.0, 1.7).unwrap().into(),
            LogNormal::new(0.0, 0.1).unwrap().into(),
            BoundedPareto::new(1.1, 1.0, 1000.0).unwrap().into(),
        ];
        for law in laws {
            let nodes = nodes(&law);
            let mean: f64 = nodes.iter().map(|(weight, value)| weight * value).sum();
            assert!((mean / law.mean() - 1.0).abs() < 1e-9, "{mean} {}", law.mean());
            assert!(nodes.windows(2).all(|pair| pair[0].1 <= pair[1].1));
            // A transform is steepest where the last value is: it must not be far beyond the values before it.
            let (last, before) = (nodes[nodes.len() - 1].1, nodes[nodes.len() - 2].1);
            assert!(last <= 2.0 * before, "{last} {before}");
        }
    }
}
