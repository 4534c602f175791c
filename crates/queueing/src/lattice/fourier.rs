//! The discrete Fourier transform of a length 2ᵗ, in place, with its values in bit-reversed order.
//!
//! The transform halves a polynomial modulo xⁿ − c² into two modulo x^(n/2) ∓ c, so every block has one twiddle factor
//! and the same table serves all lengths. The inverse undoes the steps; nothing is ever put in order.

use std::f64::consts::PI;

use crate::complex::Complex;

/// The unit roundoff of a double.
const ROUNDOFF: f64 = f64::EPSILON / 2.0;
/// Roundoffs per butterfly: 1 + γ₄(√2 + μ) with factors as accurate as sine and cosine (Higham, Accuracy and Stability of
/// Numerical Algorithms, 2002, Theorem 24.2), rounded up.
const ROUNDOFFS_PER_STAGE: f64 = 9.0;

/// Precomputed twiddle factors for all lengths up to a maximum.
pub(super) struct Fourier {
    factors: Vec<Complex>,
}

impl Fourier {
    /// Prepares for lengths up to `length`, a power of two.
    pub(super) fn new(length: usize) -> Self {
        Self { factors: (0..(length / 2).max(1)).map(|block| turned(block, 0.5)).collect() }
    }

    /// Replaces coefficients by the values of their polynomial at [`point`] 0, 1, ….
    pub(super) fn forward(&self, values: &mut [Complex]) {
        self.split(values, 0);
    }

    /// Inverts [`Fourier::forward`].
    pub(super) fn inverse(&self, values: &mut [Complex]) {
        self.join(values, 0);
        let scale = 1.0 / values.len() as f64;
        values.iter_mut().for_each(|value| *value = *value * scale);
    }

    fn split(&self, values: &mut [Complex], block: usize) {
        let (low, high) = values.split_at_mut(values.len() / 2);
        if low.is_empty() {
            return;
        }
        let factor = self.factors[block];
        for (low, high) in low.iter_mut().zip(high.iter_mut()) {
            let turned = *high * factor;
            (*low, *high) = (*low + turned, *low - turned);
        }
        // Depth first, so that the halves soon fit into the processor's caches.
        self.split(low, 2 * block);
        self.split(high, 2 * block + 1);
    }

    fn join(&self, values: &mut [Complex], block: usize) {
        let (low, high) = values.split_at_mut(values.len() / 2);
        if low.is_empty() {
            return;
        }
        self.join(low, 2 * block);
        self.join(high, 2 * block + 1);
        let factor = self.factors[block].conjugate();
        for (low, high) in low.iter_mut().zip(high.iter_mut()) {
            (*low, *high) = (*low + *high, (*low - *high) * factor);
        }
    }
}

/// The root of unity at which value `index` is taken.
pub(super) fn point(index: usize) -> Complex {
    turned(index, 1.0)
}

/// exp(2πi · turns · x), where the bits of x behind the point are those of `index` in reverse.
fn turned(index: usize, turns: f64) -> Complex {
    let fraction = (index as u64).reverse_bits() as f64 / 2_f64.powi(64);
    let (im, re) = (2.0 * PI * turns * fraction).sin_cos();
    Complex { re, im }
}

pub(super) fn conjugate_of(index: usize) -> usize {
    if index == 0 { 0 } else { index ^ ((1 << index.ilog2()) - 1) }
}

/// The largest relative error of a transform or its inverse, in the Euclidean norm.
pub(super) fn error(length: usize) -> f64 {
    ROUNDOFFS_PER_STAGE * ROUNDOFF * f64::from(length.max(2).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_polynomial_and_come_back() {
        let length = 64;
        let coefficients: Vec<Complex> =
            (0..length).map(|k| Complex { re: (k as f64 * 0.7).sin(), im: (k as f64 * 1.3).cos() }).collect();
        let mut values = coefficients.clone();
        let fourier = Fourier::new(length);
        fourier.forward(&mut values);
        for (index, value) in values.iter().enumerate() {
            let at = |point: Complex| {
                coefficients.iter().rev().fold(Complex::ZERO, |sum, each| sum * point + *each)
            };
            let difference = *value - at(point(index));
            assert!(difference.re.hypot(difference.im) < 1e-12, "{index}");
            let conjugate = point(conjugate_of(index)) - point(index).conjugate();
            assert!(conjugate.re.hypot(conjugate.im) < 1e-12, "{index}");
        }
        fourier.inverse(&mut values);
        for (value, expected) in values.iter().zip(&coefficients) {
            let difference = *value - *expected;
            assert!(difference.re.hypot(difference.im) < error(length) * 10.0);
        }
    }
}
