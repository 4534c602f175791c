//! Distributions made of others: a choice among several, and a·X + b of one.

use super::{Distribution, DistributionError, RandomVariable, non_negative, positive};
use crate::random::Random;

/// A choice among distributions: a log-normal body with a Pareto tail, or an atom at zero beside an exponential.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    parts: Vec<(f64, Distribution)>,
}

impl Mixture {
    /// From parts and their weights, which are normalised.
    ///
    /// # Errors
    /// When there is no part, or a weight is negative, or all are zero.
    pub fn new(parts: Vec<(f64, Distribution)>) -> Result<Self, DistributionError> {
        if parts.is_empty() {
            return Err(DistributionError::Empty { name: "a mixture" });
        }
        for &(weight, _) in &parts {
            non_negative("weight", weight)?;
        }
        let total = positive("sum of the weights", parts.iter().map(|part| part.0).sum())?;
        Ok(Self {
            parts: parts.into_iter().map(|(weight, distribution)| (weight / total, distribution)).collect(),
        })
    }

    pub fn parts(&self) -> &[(f64, Distribution)] {
        &self.parts
    }

    /// The same weights over transformed parts.
    pub(super) fn mapped(&self, of: impl Fn(&Distribution) -> Distribution) -> Self {
        Self { parts: self.parts.iter().map(|(probability, part)| (*probability, of(part))).collect() }
    }

    fn expect(&self, of: impl Fn(&Distribution) -> f64) -> f64 {
        self.parts.iter().map(|(probability, distribution)| probability * of(distribution)).sum()
    }
}

impl RandomVariable for Mixture {
    fn mean(&self) -> f64 {
        self.expect(RandomVariable::mean)
    }
    fn second_moment(&self) -> f64 {
        self.expect(RandomVariable::second_moment)
    }
    fn cdf(&self, x: f64) -> f64 {
        self.expect(|distribution| distribution.cdf(x))
    }
    fn excess(&self, x: f64) -> f64 {
        self.expect(|distribution| distribution.excess(x))
    }
    fn sample(&self, random: &mut Random) -> f64 {
        let mut left = random.uniform();
        for (probability, distribution) in &self.parts[..self.parts.len() - 1] {
            if left < *probability {
                return distribution.sample(random);
            }
            left -= probability;
        }
        self.parts[self.parts.len() - 1].1.sample(random)
    }
}

/// `factor`·X + `offset`: the service demand g(x) of a random document (thesis, Eq. 2.5 and 2.6).
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    inner: Box<Distribution>,
    factor: f64,
    offset: f64,
}

impl Affine {
    /// # Errors
    /// When `factor` or `offset` is negative or not finite.
    pub fn new(inner: Distribution, factor: f64, offset: f64) -> Result<Self, DistributionError> {
        let (factor, offset) = (non_negative("factor", factor)?, non_negative("offset", offset)?);
        Ok(Self { inner: Box::new(inner), factor, offset })
    }

    /// As [`Affine::new`] without the check: the caller guarantees that no value becomes negative.
    pub(super) fn unchecked(inner: Distribution, factor: f64, offset: f64) -> Self {
        Self { inner: Box::new(inner), factor, offset }
    }

    /// X, the factor and the offset.
    pub(crate) fn parts(&self) -> (&Distribution, f64, f64) {
        (&self.inner, self.factor, self.offset)
    }
}

impl RandomVariable for Affine {
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
    fn excess(&self, x: f64) -> f64 {
        if x < self.offset || self.factor == 0.0 {
            return (self.mean() - x).max(0.0);
        }
        self.factor * self.inner.excess((x - self.offset) / self.factor)
    }
    fn quantile(&self, p: f64) -> f64 {
        self.factor * self.inner.quantile(p) + self.offset
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        // The simulator draws the demand of a log-normal document for every job, so this case avoids the second
        // dispatch.
        let value = match &*self.inner {
            Distribution::LogNormal(distribution) => distribution.sample(random),
            other => other.sample(random),
        };
        self.factor * value + self.offset
    }
}
