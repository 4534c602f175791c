//! Distributions of sizes and times: exact moments, distribution function, quantiles and sampling.
//!
//! The enum [`Distribution`] is the table of all. Values are non-negative and carry the unit of the caller (seconds or
//! bytes). Moments are exact even where those of a sample would be wrong: the raw second moment of three million
//! log-normal sizes with σ = 1.573 is still 8 % off.

mod bounded_pareto;
mod composite;
mod discrete;
mod exponential;
mod log_normal;
mod normal;
mod piecewise;

use thiserror::Error;

use crate::random::Random;
pub use bounded_pareto::BoundedPareto;
pub use composite::{Affine, Mixture};
pub use discrete::{Deterministic, Empirical};
pub(crate) use exponential::stages_for;
pub use exponential::{ERLANG_STAGES_MAX, Erlang, Exponential, HyperExponential};
pub use log_normal::LogNormal;
pub use normal::{normal_cdf, normal_quantile, student_quantile};
pub(crate) use piecewise::of_size;
pub use piecewise::{Piecewise, Segment};

/// The reason why a distribution cannot be built.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DistributionError {
    /// A parameter is out of its domain.
    #[error("{name} must be {requirement}, not {value}")]
    Parameter {
        name: &'static str,
        /// Completes the sentence "NAME must be …".
        requirement: &'static str,
        value: f64,
    },
    /// An empirical distribution or a mixture of nothing.
    #[error("{name} needs at least one value")]
    Empty { name: &'static str },
    /// Values and weights differ in number.
    #[error("{values} values but {weights} weights: give one weight per value")]
    WeightCount { values: usize, weights: usize },
}

/// Moments, distribution function and samples of a non-negative quantity X.
pub trait RandomVariable {
    fn mean(&self) -> f64;
    fn second_moment(&self) -> f64;
    /// P(X ≤ x).
    fn cdf(&self, x: f64) -> f64;
    /// `E[(X − x)⁺]` for x ≥ 0: the integral of P(X > u) over u > x.
    fn excess(&self, x: f64) -> f64;
    fn sample(&self, random: &mut Random) -> f64;
    /// The smallest x with P(X ≤ x) ≥ p, for 0 ≤ p < 1; by bisection unless the distribution has a closed form.
    fn quantile(&self, p: f64) -> f64 {
        invert(|x| self.cdf(x), p, self.mean())
    }
}

/// A distribution of a non-negative quantity.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    Deterministic(Deterministic),
    /// The memoryless distribution: C² = 1.
    Exponential(Exponential),
    /// A sum of equal exponential stages: C² = 1/stages, less variable than exponential.
    Erlang(Erlang),
    /// A choice between two exponentials: C² ≥ 1, more variable than exponential.
    HyperExponential(HyperExponential),
    /// The usual distribution of document sizes.
    LogNormal(LogNormal),
    /// A power tail, cut at both ends.
    BoundedPareto(BoundedPareto),
    /// Measured values.
    Empirical(Empirical),
    Mixture(Mixture),
    /// a·X + b of another distribution, such as the demand of a random document.
    Affine(Affine),
    /// a·X + b with a and b that depend on where X lies.
    Piecewise(Piecewise),
}

impl Distribution {
    /// b + a·X with X log-normal: the demand of a log-normal document at a server that takes b per request
    /// and a per byte.
    ///
    /// # Errors
    /// [`DistributionError::Parameter`] when a parameter is out of its domain.
    pub fn shifted_log_normal(
        mu: f64,
        sigma: f64,
        factor: f64,
        offset: f64,
    ) -> Result<Self, DistributionError> {
        Self::from(LogNormal::new(mu, sigma)?).affine(factor, offset)
    }

    /// The distribution of `factor`·X + `offset`.
    ///
    /// # Errors
    /// [`DistributionError::Parameter`] when either is negative or not finite.
    pub fn affine(self, factor: f64, offset: f64) -> Result<Self, DistributionError> {
        Ok(Affine::new(self, factor, offset)?.into())
    }

    /// Squared coefficient of variation, `Var[X]` / `E[X]²`.
    pub fn scv(&self) -> f64 {
        let mean = self.mean();
        if mean == 0.0 { 0.0 } else { (self.second_moment() / (mean * mean) - 1.0).max(0.0) }
    }

    fn distribution(&self) -> &dyn RandomVariable {
        match self {
            Self::Deterministic(distribution) => distribution,
            Self::Exponential(distribution) => distribution,
            Self::Erlang(distribution) => distribution,
            Self::HyperExponential(distribution) => distribution,
            Self::LogNormal(distribution) => distribution,
            Self::BoundedPareto(distribution) => distribution,
            Self::Empirical(distribution) => distribution,
            Self::Mixture(distribution) => distribution,
            Self::Affine(distribution) => distribution,
            Self::Piecewise(distribution) => distribution,
        }
    }
}

impl RandomVariable for Distribution {
    fn mean(&self) -> f64 {
        self.distribution().mean()
    }
    fn second_moment(&self) -> f64 {
        self.distribution().second_moment()
    }
    fn cdf(&self, x: f64) -> f64 {
        self.distribution().cdf(x)
    }
    fn excess(&self, x: f64) -> f64 {
        self.distribution().excess(x)
    }
    fn quantile(&self, p: f64) -> f64 {
        self.distribution().quantile(p)
    }
    // Sampling is the simulator's inner loop: a match, so that it is inlined, not a virtual call.
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        match self {
            Self::Deterministic(distribution) => distribution.sample(random),
            Self::Exponential(distribution) => distribution.sample(random),
            Self::Erlang(distribution) => distribution.sample(random),
            Self::HyperExponential(distribution) => distribution.sample(random),
            Self::LogNormal(distribution) => distribution.sample(random),
            Self::BoundedPareto(distribution) => distribution.sample(random),
            Self::Empirical(distribution) => distribution.sample(random),
            Self::Mixture(distribution) => distribution.sample(random),
            Self::Affine(distribution) => distribution.sample(random),
            Self::Piecewise(distribution) => distribution.sample(random),
        }
    }
}

macro_rules! wrap {
    ($($distribution:ident),*) => {$(
        impl From<$distribution> for Distribution {
            fn from(distribution: $distribution) -> Self {
                Self::$distribution(distribution)
            }
        }
    )*};
}
wrap!(
    Deterministic,
    Exponential,
    Erlang,
    HyperExponential,
    LogNormal,
    BoundedPareto,
    Empirical,
    Mixture,
    Affine,
    Piecewise
);

fn positive(name: &'static str, value: f64) -> Result<f64, DistributionError> {
    let valid = value.is_finite() && value > 0.0;
    if valid { Ok(value) } else { Err(parameter(name, "positive and finite", value)) }
}

fn non_negative(name: &'static str, value: f64) -> Result<f64, DistributionError> {
    let valid = value.is_finite() && value >= 0.0;
    if valid { Ok(value) } else { Err(parameter(name, "non-negative and finite", value)) }
}

fn parameter(name: &'static str, requirement: &'static str, value: f64) -> DistributionError {
    DistributionError::Parameter { name, requirement, value }
}

/// The smallest x with `cdf(x)` ≥ p, to a relative 1e-12.
fn invert(cdf: impl Fn(f64) -> f64, p: f64, scale: f64) -> f64 {
    if cdf(0.0) >= p {
        return 0.0;
    }
    let mut high = scale.max(f64::MIN_POSITIVE);
    while cdf(high) < p && high < f64::MAX / 2.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    while high - low > 1e-12 * high {
        let middle = low + (high - low) / 2.0;
        if cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests;
