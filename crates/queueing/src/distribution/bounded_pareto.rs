//! Bounded Pareto: a power tail between a smallest and a largest value, so that every moment exists.

use super::{DistributionError, RandomVariable, parameter, positive};
use crate::random::Random;

/// P(X > x) falls as x^−shape between `low` and `high`.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedPareto {
    shape: f64,
    low: f64,
    high: f64,
    /// 1 − (low/high)^shape: the probability that the unbounded Pareto law gives to `low` … `high`.
    mass: f64,
}

impl BoundedPareto {
    /// From the tail index and the bounds.
    ///
    /// # Errors
    /// When a parameter is not positive or `high` is not above `low`.
    pub fn new(shape: f64, low: f64, high: f64) -> Result<Self, DistributionError> {
        positive("shape", shape)?;
        positive("low", low)?;
        positive("high", high)?;
        if high <= low {
            return Err(parameter("high", "above low", high));
        }
        Ok(Self { shape, low, high, mass: -(shape * (low / high).ln()).exp_m1() })
    }

    fn moment(&self, k: f64) -> f64 {
        let exponent = k - self.shape;
        // shape·lowˢ·∫ x^(k−s−1) dx over the bounds; the integral is a logarithm where k = shape.
        let ratio = (self.high / self.low).ln();
        let integral =
            if exponent.abs() * ratio < 1e-9 { ratio } else { (exponent * ratio).exp_m1() / exponent };
        self.shape * self.low.powf(k) * integral / self.mass
    }
}

impl RandomVariable for BoundedPareto {
    fn mean(&self) -> f64 {
        self.moment(1.0)
    }
    fn second_moment(&self) -> f64 {
        self.moment(2.0)
    }
    fn cdf(&self, x: f64) -> f64 {
        if x <= self.low {
            return 0.0;
        }
        (-(self.shape * (self.low / x).ln()).exp_m1() / self.mass).min(1.0)
    }
    fn excess(&self, x: f64) -> f64 {
        if x <= self.low {
            return self.mean() - x;
        }
        if x >= self.high {
            return 0.0;
        }
        // P(X > u) = ((low/u)ˢ − (low/high)ˢ) / mass, integrated from x to high.
        let (exponent, ratio) = (1.0 - self.shape, (self.high / x).ln());
        let integral =
            if exponent.abs() * ratio < 1e-9 { ratio } else { (exponent * ratio).exp_m1() / exponent };
        let power = (self.low / x).powf(self.shape) * x * integral;
        ((power - (1.0 - self.mass) * (self.high - x)) / self.mass).max(0.0)
    }
    fn quantile(&self, p: f64) -> f64 {
        (self.low * (1.0 - p * self.mass).powf(-1.0 / self.shape)).min(self.high)
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        self.quantile(random.uniform())
    }
}
