//! a·X + b: the service demand g(x) of a random document (thesis, Eq. 2.5 and 2.6).

use super::{Distribution, DistributionError, Law, non_negative};
use crate::random::Random;

/// `factor`·X + `offset`.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    inner: Box<Distribution>,
    factor: f64,
    offset: f64,
}

impl Affine {
    /// Stretches and shifts a law.
    ///
    /// # Errors
    /// When `factor` or `offset` is negative or not finite.
    pub fn new(inner: Distribution, factor: f64, offset: f64) -> Result<Self, DistributionError> {
        let (factor, offset) = (non_negative("factor", factor)?, non_negative("offset", offset)?);
        Ok(Self { inner: Box::new(inner), factor, offset })
    }
}

impl Law for Affine {
    fn mean(&self) -> f64 {
        self.factor * self.inner.mean() + self.offset
    }
    fn second_moment(&self) -> f64 {
        let (a, b) = (self.factor, self.offset);
        a * a * self.inner.second_moment() + 2.0 * a * b * self.inner.mean() + b * b
    }
    fn cdf(&self, x: f64) -> f64 {
        if self.factor == 0.0 {
            return if x >= self.offset { 1.0 } else { 0.0 };
        }
        if x < self.offset { 0.0 } else { self.inner.cdf((x - self.offset) / self.factor) }
    }
    fn quantile(&self, p: f64) -> f64 {
        self.factor * self.inner.quantile(p) + self.offset
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        // The demand of a log-normal document is drawn for every simulated job: it is spared the second dispatch.
        let value = match &*self.inner {
            Distribution::LogNormal(law) => law.sample(random),
            other => other.sample(random),
        };
        self.factor * value + self.offset
    }
}
