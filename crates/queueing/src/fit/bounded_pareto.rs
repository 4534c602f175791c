//! Bounded Pareto by maximum likelihood (Aban, Meerschaert & Panorska, JASA 101, 2006): the bounds are the extremes.

use super::Candidate;
use crate::distribution::BoundedPareto;

/// The shapes sought: below the first the law is log-uniform, above the last it is a constant.
const SHAPES: (f64, f64) = (1e-3, 1e3);
const BISECTIONS: usize = 100;

pub(super) fn fit(sorted: &[f64]) -> Option<Candidate> {
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
    // Mass that grows towards the upper end has no power tail.
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
        law: BoundedPareto::new(shape, low, high).ok()?.into(),
        parameters: vec![("shape".to_owned(), shape), ("min".to_owned(), low), ("max".to_owned(), high)],
        log_likelihood: count * (shape.ln() - low.ln() - mass.ln() - (shape + 1.0) * excess),
    })
}
