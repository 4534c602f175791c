//! Always the same value: the least variable demand, and the one that shows what exponential service hides.

use super::{DistributionError, Law, non_negative};
use crate::random::Random;

/// X = value.
#[derive(Debug, Clone, PartialEq)]
pub struct Deterministic {
    value: f64,
}

impl Deterministic {
    /// The law of a constant.
    ///
    /// # Errors
    /// When `value` is negative or not finite.
    pub fn new(value: f64) -> Result<Self, DistributionError> {
        Ok(Self { value: non_negative("value", value)? })
    }
}

impl Law for Deterministic {
    fn mean(&self) -> f64 {
        self.value
    }
    fn second_moment(&self) -> f64 {
        self.value * self.value
    }
    fn cdf(&self, x: f64) -> f64 {
        if x >= self.value { 1.0 } else { 0.0 }
    }
    fn quantile(&self, _p: f64) -> f64 {
        self.value
    }
    fn sample(&self, _random: &mut Random) -> f64 {
        self.value
    }
}
