//! The memoryless law.

use super::{DistributionError, Law, positive};
use crate::random::Random;

/// P(X > x) = exp(−x / mean).
#[derive(Debug, Clone, PartialEq)]
pub struct Exponential {
    mean: f64,
}

impl Exponential {
    /// The exponential law of this mean.
    ///
    /// # Errors
    /// When `mean` is not positive and finite.
    pub fn new(mean: f64) -> Result<Self, DistributionError> {
        Ok(Self { mean: positive("mean", mean)? })
    }
}

impl Law for Exponential {
    fn mean(&self) -> f64 {
        self.mean
    }
    fn second_moment(&self) -> f64 {
        2.0 * self.mean * self.mean
    }
    fn cdf(&self, x: f64) -> f64 {
        -(-x.max(0.0) / self.mean).exp_m1()
    }
    fn quantile(&self, p: f64) -> f64 {
        -self.mean * (-p).ln_1p()
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        self.mean * random.exponential()
    }
}
