//! The distribution functions of a sum with its parts rounded down and rounded up, as power series.
//!
//! A time rounded down to the lattice has a series f(z), rounded up z·f(z). Their sums are products, those of a geometric
//! number (1 − ρ)/(1 − ρf(z)). Coefficients are recovered from the values on a circle of radius r < 1 at twice as many
//! points as the lattice has: what lies beyond comes back less than e⁻ᴬ (Abate & Whitt, 1992), because no coefficient
//! is negative and their sum is 1.

use super::Part;
use super::fourier::{self, Fourier};
use crate::complex::Complex;

/// A: mass beyond the lattice folds back with weight e⁻ᴬ; errors of coefficients grow by e^(A/2).
const FOLDED: f64 = 20.0;

/// Distribution functions at 0, 1, 2, … steps.
pub(super) struct Sums {
    /// The sum with every part rounded down: at least the true distribution function.
    pub(super) below: Vec<f64>,
    /// The sum with every part rounded up: at most the true distribution function.
    pub(super) above: Vec<f64>,
    /// The largest error of either.
    pub(super) doubt: f64,
}

/// Computes [`Sums`] and keeps the twiddle factors between calls.
#[derive(Default)]
pub(super) struct Series {
    fourier: Option<(usize, Fourier)>,
}

impl Series {
    pub(super) fn sums(&mut self, parts: &[Part<'_>], step: f64, points: usize) -> Sums {
        let length = 2 * points;
        let radius = (-FOLDED / length as f64).exp();
        let fourier = self.of_length(length);
        let mut circle = Circle::new(length, radius);
        // One transform carries two real series.
        for pair in parts.chunks(2) {
            circle.multiply(pair, step, points, fourier);
        }
        circle.sums(points, fourier, parts)
    }

    fn of_length(&mut self, length: usize) -> &Fourier {
        if self.fourier.as_ref().is_none_or(|(longest, _)| *longest < length) {
            self.fourier = Some((length, Fourier::new(length)));
        }
        &self.fourier.as_ref().expect("it was just put there").1
    }
}

/// The values of both series on the circle.
struct Circle {
    radius: f64,
    below: Vec<Complex>,
    above: Vec<Complex>,
    /// A bound on the error of `below` and `above`: Euclidean norm / √length.
    error: f64,
}

impl Circle {
    fn new(length: usize, radius: f64) -> Self {
        Self { radius, below: vec![Complex::ONE; length], above: vec![Complex::ONE; length], error: 0.0 }
    }

    /// Multiplies by one or two parts.
    fn multiply(&mut self, pair: &[Part<'_>], step: f64, points: usize, fourier: &Fourier) {
        let length = self.below.len();
        let mut values = vec![Complex::ZERO; length];
        let mut square = 0.0;
        for (number, part) in pair.iter().enumerate() {
            let weights = part.rounded_down(step, points, self.radius);
            square += weights.iter().map(|weight| weight * weight).sum::<f64>();
            for (value, weight) in values.iter_mut().zip(weights) {
                *(if number == 0 { &mut value.re } else { &mut value.im }) = weight;
            }
        }
        fourier.forward(&mut values);
        // All terms are positive at the real point, so it has the largest value.
        let largest = [values[0].re, values[0].im];
        for (part, largest) in pair.iter().zip(largest) {
            self.error += part.steepness(largest) * fourier::error(length) * square.sqrt();
        }
        for index in 0..length {
            let conjugate = fourier::conjugate_of(index);
            if conjugate < index {
                continue;
            }
            let z = fourier::point(index) * self.radius;
            let (here, there) = (values[index], values[conjugate].conjugate());
            let second = here - there;
            let series = [(here + there) * 0.5, Complex { re: second.im * 0.5, im: -second.re * 0.5 }];
            for (part, series) in pair.iter().zip(series) {
                self.below[index] = self.below[index] * part.sum(series);
                self.above[index] = self.above[index] * part.sum(series * z);
            }
        }
    }

    fn sums(self, points: usize, fourier: &Fourier, parts: &[Part<'_>]) -> Sums {
        let length = self.below.len();
        let mut values = vec![Complex::ZERO; length];
        for index in 0..length {
            let conjugate = fourier::conjugate_of(index);
            if conjugate < index {
                continue;
            }
            // below + i·above: the real and the imaginary part of what comes back.
            let (below, above) = (self.below[index], self.above[index]);
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
        let doubts: f64 = parts.iter().map(Part::doubt).sum();
        // By Cauchy and Schwarz, the errors of the coefficients add up to at most this.
        let rounding = error * square.sqrt() + points as f64 * f64::EPSILON;
        Sums { below, above, doubt: doubts + rounding + (-FOLDED).exp() }
    }
}

impl Part<'_> {
    /// rᵏ P(k steps < X ≤ k + 1 steps); an atom at 0 counts to the first.
    fn rounded_down(&self, step: f64, points: usize, radius: f64) -> Vec<f64> {
        let (Self::Time { survival, .. } | Self::Geometric { survival, .. }) = self;
        let (mut beyond, mut weight) = (1.0_f64, 1.0);
        let rounded = (1..=points).map(|k| {
            let next = survival(k as f64 * step).clamp(0.0, beyond);
            let own = (beyond - next) * weight;
            beyond = next;
            weight *= radius;
            own
        });
        rounded.collect()
    }

    /// The series of the part, given the series of its law.
    fn sum(&self, series: Complex) -> Complex {
        match self {
            Self::Time { .. } => series,
            Self::Geometric { utilisation, .. } => {
                Complex::from(1.0 - utilisation) / (Complex::ONE - series * *utilisation)
            }
        }
    }

    /// The largest derivative of [`Part::sum`] over values no larger than `largest`.
    fn steepness(&self, largest: f64) -> f64 {
        match self {
            Self::Time { .. } => 1.0,
            Self::Geometric { utilisation, .. } => {
                let distance = 1.0 - utilisation * largest;
                (1.0 - utilisation) * utilisation / (distance * distance)
            }
        }
    }

    fn doubt(&self) -> f64 {
        match self {
            Self::Time { doubt, .. } => *doubt,
            Self::Geometric { .. } => 0.0,
        }
    }
}
