//! Confidence intervals of ratios from sections of one or more runs, allowing for correlation and skewness.
//!
//! Response times of consecutive jobs are strongly correlated: an interval that ignores it covers 7 % instead of 95 %.
//! Sections are long enough to be nearly independent. What correlation is left widens the interval, and skewness moves
//! it to the side where the rare large values are, both as in Skart (Tafazzoli, Wilson, Lada & Steiger, INFORMS J.
//! Computing 23(4), 2011; the skewness by Willink's form of Johnson's modified t, Comm. Statist. A 34, 2005).

use crate::distribution::student_quantile;

pub(super) const SECTIONS_MIN: usize = 16;
/// The probability that an interval does not cover the truth.
pub(super) const ERROR_PROBABILITY: f64 = 0.05;

/// A ratio Σx / Σy with each section's influence on it.
#[derive(Debug, Clone)]
pub(super) struct Ratio {
    pub(super) value: f64,
    /// (x − ratio · y) / mean y, so that their mean is 0.
    pub(super) influences: Vec<f64>,
}

/// An interval around an estimate, with its diagnostics.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Interval {
    /// How far the truth may lie below the estimate; positive.
    pub(super) below: f64,
    /// How far it may lie above.
    pub(super) above: f64,
    /// The variance of a section's value.
    pub(super) variance: f64,
    /// Correlation of neighbouring sections.
    pub(super) lag_one: f64,
    pub(super) skewness: f64,
    /// Difference between the later and the earlier half over its standard error.
    pub(super) drift: f64,
}

impl Ratio {
    pub(super) fn of(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Self {
        let (x, y) = pairs.clone().fold((0.0, 0.0), |(x, y), pair| (x + pair.0, y + pair.1));
        let count = pairs.clone().count().max(1) as f64;
        let value = if y > 0.0 { x / y } else { 0.0 };
        let influence = |(x, y_own): (f64, f64)| if y > 0.0 { (x - value * y_own) * count / y } else { 0.0 };
        Self { value, influences: pairs.map(influence).collect() }
    }

    /// Applies a control variate: subtracts `slope` times another ratio's influences.
    pub(super) fn control(&mut self, control: &Self, slope: f64) {
        self.influences.iter_mut().zip(&control.influences).for_each(|(own, other)| *own -= slope * other);
    }

    /// The regression coefficient of this ratio on another.
    pub(super) fn slope(&self, on: &Self) -> f64 {
        let covariance: f64 = self.influences.iter().zip(&on.influences).map(|(y, x)| y * x).sum();
        let variance: f64 = on.influences.iter().map(|x| x * x).sum();
        if variance > 0.0 { covariance / variance } else { 0.0 }
    }

    /// Computes the interval. Every `chain` sections are neighbours; each of the `estimated` parameters besides the
    /// mean costs a degree of freedom.
    pub(super) fn interval(&self, chain: usize, estimated: usize) -> Option<Interval> {
        self.interval_at(ERROR_PROBABILITY, chain, estimated)
    }

    /// As [`Ratio::interval`], with another error probability.
    pub(super) fn interval_at(
        &self,
        error_probability: f64,
        chain: usize,
        estimated: usize,
    ) -> Option<Interval> {
        let values = &self.influences;
        let count = values.len() as f64;
        if values.len() < SECTIONS_MIN {
            return None;
        }
        let moment = |power: i32| values.iter().map(|value| value.powi(power)).sum::<f64>() / count;
        let variance = moment(2) * count / (count - 1.0 - estimated as f64);
        if variance <= 0.0 {
            return Some(Interval::default());
        }
        let skewness = moment(3) / moment(2).powf(1.5) * (count * (count - 1.0)).sqrt() / (count - 2.0);
        let lag_one = lag_one(values, chain);
        let correlation = lag_one.clamp(0.0, 0.8);
        let error = (variance / count * (1.0 + correlation) / (1.0 - correlation)).sqrt();
        let t = student_quantile(1.0 - error_probability / 2.0, count - 1.0 - estimated as f64);
        let beta = skewness / (6.0 * count.sqrt());
        // A long upper tail is missing from most samples, so the truth may lie further above than below.
        let (below, above) = (error * modified(t, beta), -error * modified(-t, beta));
        Some(Interval { below, above, variance, lag_one, skewness, drift: drift(values, chain) })
    }
}

impl Interval {
    /// The longer side.
    pub(super) fn half_width(&self) -> f64 {
        self.below.max(self.above)
    }
}

/// The quantile t of Student's distribution, moved by the skewness (Willink 2005, equation 13).
fn modified(t: f64, beta: f64) -> f64 {
    if beta.abs() < 1e-6 {
        return t;
    }
    ((1.0 + 6.0 * beta * (t - beta)).cbrt() - 1.0) / (2.0 * beta)
}

/// The correlation of neighbours within each chain.
fn lag_one(values: &[f64], chain: usize) -> f64 {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    let neighbours = values.chunks(chain.max(1)).flat_map(|chain| chain.windows(2));
    let (products, pairs) =
        neighbours.fold((0.0, 0_usize), |(sum, pairs), pair| (sum + pair[0] * pair[1], pairs + 1));
    if pairs == 0 || squares == 0.0 { 0.0 } else { products / pairs as f64 * values.len() as f64 / squares }
}

/// Compares the later half of every chain with the earlier, in standard errors.
fn drift(values: &[f64], chain: usize) -> f64 {
    let half = chain / 2;
    if half == 0 {
        return 0.0;
    }
    let differences: f64 = values
        .chunks(chain)
        .map(|chain| chain[chain.len() - half..].iter().sum::<f64>() - chain[..half].iter().sum::<f64>())
        .sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    differences / squares.sqrt()
}
