//! The distribution functions of a sum with its parts rounded down and rounded up, as power series.
//!
//! A time rounded down to the lattice has a series f(z), rounded up z·f(z). Their sums are products, those of a geometric
//! number (1 − ρ)/(1 − ρf(z)). Coefficients are recovered from the values on a circle of radius r < 1 at twice as many
//! points as the lattice has: what lies beyond comes back less than e⁻ᴬ (Abate & Whitt, 1992), because no coefficient
//! is negative and their sum is 1.

use std::collections::HashMap;
use std::rc::Rc;

use super::fourier::{self, Fourier};
use super::{Kind, Part};
use crate::complex::Complex;

/// The most memory of values that are kept for sums to come.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// A: mass beyond the lattice folds back with weight e⁻ᴬ; errors of coefficients grow by e^(A/2).
const FOLDED: f64 = 20.0;

/// Distribution functions at 0, 1, 2, … steps.
pub(super) struct Sums {
    /// The sum with every part rounded down: at least the true distribution function.
    pub(super) below: Vec<f64>,
    /// The sum with every part rounded up: at most the true distribution function.
    pub(super) above: Vec<f64>,
    /// The largest error of either.
    pub(super) error_bound: f64,
}

/// Computes [`Sums`]; keeps the twiddle factors and the values of numbered parts between calls.
#[derive(Default)]
pub(crate) struct Series {
    fourier: Option<(usize, Fourier)>,
    /// By the part's number, the bits of the step, and the points.
    kept: HashMap<(usize, u64, usize), Rc<Values>>,
    kept_bytes: usize,
}

/// The values of one part's two series on the circle, where the index is not above its conjugate's.
struct Values {
    below: Vec<Complex>,
    above: Vec<Complex>,
    /// A bound of their error: Euclidean norm / √length.
    error: f64,
}

impl Series {
    pub(super) fn sums(&mut self, parts: &[Part<'_>], step: f64, points: usize) -> Sums {
        let length = 2 * points;
        let radius = (-FOLDED / length as f64).exp();
        let mut circle = Circle::new(length, radius);
        let key = |part: &Part<'_>| part.number.map(|number| (number, step.to_bits(), points));
        let mut missing = Vec::new();
        for part in parts {
            match key(part).and_then(|key| self.kept.get(&key)) {
                Some(values) => circle.multiply(values),
                None => missing.push(part),
            }
        }
        // One transform carries two real series.
        for pair in missing.chunks(2) {
            let found = Values::of(pair, step, points, radius, self.of_length(length));
            for (part, values) in pair.iter().zip(found) {
                circle.multiply(&values);
                if let Some(key) = key(part) {
                    self.keep(key, values);
                }
            }
        }
        circle.sums(points, self.of_length(length), parts)
    }

    fn keep(&mut self, key: (usize, u64, usize), values: Values) {
        let bytes = 2 * values.below.len() * size_of::<Complex>();
        if self.kept_bytes + bytes > KEPT_BYTES_MAX {
            self.kept.clear();
            self.kept_bytes = 0;
        }
        self.kept_bytes += bytes;
        self.kept.insert(key, Rc::new(values));
    }

    fn of_length(&mut self, length: usize) -> &Fourier {
        if self.fourier.as_ref().is_none_or(|(longest, _)| *longest < length) {
            self.fourier = Some((length, Fourier::new(length)));
        }
        &self.fourier.as_ref().expect("it was just put there").1
    }
}

/// The indices that are not above their conjugates.
fn halves(length: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..length).map(|index| (index, fourier::conjugate_of(index))).filter(|(index, other)| index <= other)
}

impl Values {
    /// The series of one or two parts.
    fn of(pair: &[&Part<'_>], step: f64, points: usize, radius: f64, fourier: &Fourier) -> Vec<Self> {
        let length = 2 * points;
        let mut values = vec![Complex::ZERO; length];
        let mut square = 0.0;
        for (number, part) in pair.iter().enumerate() {
            let weights = part.rounded_down(step, points, radius);
            square += weights.iter().map(|weight| weight * weight).sum::<f64>();
            for (value, weight) in values.iter_mut().zip(weights) {
                *(if number == 0 { &mut value.re } else { &mut value.im }) = weight;
            }
        }
        fourier.forward(&mut values);
        // All terms are positive at the real point, so it has the largest value.
        let largest = [values[0].re, values[0].im];
        let of_part = |(part, largest): (&&Part<'_>, f64)| Self {
            below: Vec::with_capacity(points + 1),
            above: Vec::with_capacity(points + 1),
            error: part.steepness(largest) * fourier::error(length) * square.sqrt(),
        };
        let mut found: Vec<Self> = pair.iter().zip(largest).map(of_part).collect();
        for (index, conjugate) in halves(length) {
            let z = fourier::point(index) * radius;
            let (here, there) = (values[index], values[conjugate].conjugate());
            let second = here - there;
            let series = [(here + there) * 0.5, Complex { re: second.im * 0.5, im: -second.re * 0.5 }];
            for ((part, series), found) in pair.iter().zip(series).zip(&mut found) {
                found.below.push(part.sum(series));
                found.above.push(part.sum(series * z));
            }
        }
        found
    }
}

/// The values of both series of a sum on the circle, where the index is not above its conjugate's.
struct Circle {
    length: usize,
    radius: f64,
    below: Vec<Complex>,
    above: Vec<Complex>,
    /// As in [`Values`].
    error: f64,
}

impl Circle {
    fn new(length: usize, radius: f64) -> Self {
        let ones = || vec![Complex::ONE; length / 2 + 1];
        Self { length, radius, below: ones(), above: ones(), error: 0.0 }
    }

    fn multiply(&mut self, part: &Values) {
        self.error += part.error;
        self.below.iter_mut().zip(&part.below).for_each(|(own, other)| *own = *own * *other);
        self.above.iter_mut().zip(&part.above).for_each(|(own, other)| *own = *own * *other);
    }

    fn sums(self, points: usize, fourier: &Fourier, parts: &[Part<'_>]) -> Sums {
        let length = self.length;
        let mut values = vec![Complex::ZERO; length];
        for ((index, conjugate), (below, above)) in halves(length).zip(self.below.iter().zip(&self.above)) {
            // below + i·above: the real and the imaginary part of what comes back.
            values[index] = Complex { re: below.re - above.im, im: below.im + above.re };
            values[conjugate] = Complex { re: below.re + above.im, im: above.re - below.im };
        }
        fourier.inverse(&mut values);
        let norm = values.iter().map(|value| value.re * value.re + value.im * value.im).sum::<f64>().sqrt();
        let error = self.error + (1.0 + parts.len() as f64) * fourier::error(length) * norm;
        let (mut below, mut above) = (Vec::with_capacity(points), Vec::with_capacity(points));
        let (mut sum_below, mut sum_above) = (0.0_f64, 0.0_f64);
        let (growth, mut grown, mut square) = (1.0 / self.radius, 1.0, 0.0);
        for value in &values[..points] {
            sum_below += (value.re * grown).max(0.0);
            sum_above += (value.im * grown).max(0.0);
            below.push(sum_below);
            above.push(sum_above);
            square += grown * grown;
            grown *= growth;
        }
        let error_bounds: f64 = parts.iter().map(Part::error_bound).sum();
        // By Cauchy and Schwarz, the errors of the coefficients add up to at most this.
        let rounding = error * square.sqrt() + points as f64 * f64::EPSILON;
        Sums { below, above, error_bound: error_bounds + rounding + (-FOLDED).exp() }
    }
}

impl Part<'_> {
    /// rᵏ P(k steps < X ≤ k + 1 steps); an atom at 0 counts to the first.
    fn rounded_down(&self, step: f64, points: usize, radius: f64) -> Vec<f64> {
        let (mut beyond, mut weight) = (1.0_f64, 1.0);
        let rounded = (1..=points).map(|k| {
            let next = (self.survival)(k as f64 * step).clamp(0.0, beyond);
            let own = (beyond - next) * weight;
            beyond = next;
            weight *= radius;
            own
        });
        rounded.collect()
    }

    /// The series of the part, given the series of its law.
    fn sum(&self, series: Complex) -> Complex {
        match self.kind {
            Kind::Time { .. } => series,
            Kind::Geometric { utilisation } => {
                Complex::from(1.0 - utilisation) / (Complex::ONE - series * utilisation)
            }
        }
    }

    /// The largest derivative of [`Part::sum`] over values no larger than `largest`.
    fn steepness(&self, largest: f64) -> f64 {
        match self.kind {
            Kind::Time { .. } => 1.0,
            Kind::Geometric { utilisation } => {
                let distance = 1.0 - utilisation * largest;
                (1.0 - utilisation) * utilisation / (distance * distance)
            }
        }
    }

    fn error_bound(&self) -> f64 {
        match self.kind {
            Kind::Time { error_bound } => error_bound,
            Kind::Geometric { .. } => 0.0,
        }
    }
}
