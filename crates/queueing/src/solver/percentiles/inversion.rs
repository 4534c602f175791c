//! Numerical inversion of a Laplace transform: Euler summation (Abate & Whitt, ORSA J. Computing 7, 1995).

use std::f64::consts::PI;

use crate::complex::Complex;

/// A in the formula of Abate & Whitt; the discretisation error is e⁻ᴬ.
const A: f64 = 18.4;
/// The number of plain terms; the terms after them are averaged with binomial weights.
const TERMS: usize = 30;
const BINOMIAL: [f64; 12] = [1.0, 11.0, 55.0, 165.0, 330.0, 462.0, 462.0, 330.0, 165.0, 55.0, 11.0, 1.0];
/// A bracket is doubled at most this often.
const DOUBLINGS_MAX: usize = 200;
const STEPS_MAX: usize = 40;
/// The relative error of the tail probability at which the search for a quantile ends.
const TOLERANCE_OF_TAIL: f64 = 1e-5;
/// The relative error of a quantile at which the search ends.
const TOLERANCE: f64 = 1e-4;

/// How many values of a transform a probability takes.
pub(super) const VALUES: usize = TERMS + BINOMIAL.len();

/// The arguments at which [`survival`] takes the transform E[exp(−sR)] for a time > 0.
pub(super) fn arguments(time: f64) -> [Complex; VALUES] {
    std::array::from_fn(|k| Complex { re: A / (2.0 * time), im: k as f64 * PI / time })
}

/// P(R > time) of the non-negative R from the values of its transform at the [`arguments`].
pub(super) fn survival(values: &[Complex; VALUES], time: f64) -> f64 {
    let arguments = arguments(time);
    let tail = |k: usize| ((Complex::ONE - values[k]) / arguments[k]).re;
    let mut sum = tail(0) / 2.0;
    let mut sign = -1.0;
    for k in 1..=TERMS {
        sum += sign * tail(k);
        sign = -sign;
    }
    let mut average = BINOMIAL[0] * sum;
    for (extra, weight) in BINOMIAL.iter().enumerate().skip(1) {
        sum += sign * tail(TERMS + extra);
        sign = -sign;
        average += weight * sum;
    }
    let total: f64 = BINOMIAL.iter().sum();
    ((A / 2.0).exp() / time * average / total).clamp(0.0, 1.0)
}

/// The time that is exceeded with probability 1 − p: false position on the logarithm of the tail, which is nearly
/// straight, with the Illinois rule against one end that stays. `from` is a time and the smaller probability that it is
/// the quantile of.
pub(super) fn quantile(survival: &dyn Fn(f64) -> f64, p: f64, from: (f64, f64), mean: f64) -> f64 {
    let (floor, below) = from;
    let goal = (1.0 - p).ln();
    let excess = |time: f64| survival(time).max(1e-300).ln() - goal;
    let mut high = mean.max(floor);
    for _ in 0..DOUBLINGS_MAX {
        if excess(high) < 0.0 {
            break;
        }
        high = floor + 2.0 * (high - floor).max(mean * 1e-3).max(f64::MIN_POSITIVE);
    }
    let (mut low, mut at_low, mut at_high) = (floor, (1.0 - below).ln() - goal, excess(high));
    for _ in 0..STEPS_MAX {
        if high - low <= TOLERANCE * high {
            break;
        }
        let middle = (low * at_high - high * at_low) / (at_high - at_low);
        let found = excess(middle);
        if found > 0.0 {
            (low, at_low) = (middle, found);
            at_high /= 2.0;
        } else {
            (high, at_high) = (middle, found);
            at_low /= 2.0;
        }
        if found.abs() < TOLERANCE_OF_TAIL {
            return middle;
        }
    }
    (low + high) / 2.0
}
