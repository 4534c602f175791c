//! Laws of sizes and times: exact moments, distribution function, quantiles and sampling.
//!
//! A file per law; the enum [`Distribution`] is the table. Values are non-negative and carry the unit of the
//! caller (seconds or bytes). Moments are exact even where a sample would lie: the raw second moment of three
//! million log-normal sizes with σ = 1.573 is still 8 % off.

mod affine;
mod bounded_pareto;
mod deterministic;
mod empirical;
mod erlang;
mod exponential;
mod hyper_exponential;
mod log_normal;
mod mixture;
mod normal;

use thiserror::Error;

use crate::random::Random;
pub use affine::Affine;
pub use bounded_pareto::BoundedPareto;
pub use deterministic::Deterministic;
pub use empirical::Empirical;
pub use erlang::{ERLANG_STAGES_MAX, Erlang};
pub use exponential::Exponential;
pub use hyper_exponential::HyperExponential;
pub use log_normal::LogNormal;
pub use mixture::Mixture;
pub use normal::{normal_cdf, normal_quantile, student_quantile};

/// Why a law cannot be built.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DistributionError {
    /// A parameter is out of its domain.
    #[error("{name} must be {requirement}, not {value}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What it must satisfy.
        requirement: &'static str,
        /// What it was.
        value: f64,
    },
    /// An empirical law or a mixture of nothing.
    #[error("{name} needs at least one value")]
    Empty {
        /// The law.
        name: &'static str,
    },
    /// Values and weights differ in number.
    #[error("{values} values but {weights} weights: give one weight per value")]
    WeightCount {
        /// Number of values.
        values: usize,
        /// Number of weights.
        weights: usize,
    },
}

/// What every law can answer.
pub trait Law {
    /// `E[X]`.
    fn mean(&self) -> f64;
    /// `E[X²]`.
    fn second_moment(&self) -> f64;
    /// P(X ≤ x).
    fn cdf(&self, x: f64) -> f64;
    /// One value.
    fn sample(&self, random: &mut Random) -> f64;
    /// The smallest x with P(X ≤ x) ≥ p, for 0 ≤ p < 1; by bisection unless the law has a closed form.
    fn quantile(&self, p: f64) -> f64 {
        invert(|x| self.cdf(x), p, self.mean())
    }
}

/// A law of a non-negative quantity.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same value.
    Deterministic(Deterministic),
    /// Memoryless.
    Exponential(Exponential),
    /// A sum of equal exponential stages: less variable than exponential.
    Erlang(Erlang),
    /// A choice among exponentials: more variable than exponential.
    HyperExponential(HyperExponential),
    /// The usual law of document sizes.
    LogNormal(LogNormal),
    /// A power tail, cut at both ends.
    BoundedPareto(BoundedPareto),
    /// Measured values.
    Empirical(Empirical),
    /// A choice among laws.
    Mixture(Mixture),
    /// a·X + b of another law, such as the demand of a random document.
    Affine(Affine),
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

    /// The law of `factor`·X + `offset`.
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

    fn law(&self) -> &dyn Law {
        match self {
            Self::Deterministic(law) => law,
            Self::Exponential(law) => law,
            Self::Erlang(law) => law,
            Self::HyperExponential(law) => law,
            Self::LogNormal(law) => law,
            Self::BoundedPareto(law) => law,
            Self::Empirical(law) => law,
            Self::Mixture(law) => law,
            Self::Affine(law) => law,
        }
    }
}

impl Law for Distribution {
    fn mean(&self) -> f64 {
        self.law().mean()
    }
    fn second_moment(&self) -> f64 {
        self.law().second_moment()
    }
    fn cdf(&self, x: f64) -> f64 {
        self.law().cdf(x)
    }
    fn quantile(&self, p: f64) -> f64 {
        self.law().quantile(p)
    }
    // Sampling is the simulator's inner loop: a match, so that it is inlined, not a virtual call.
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        match self {
            Self::Deterministic(law) => law.sample(random),
            Self::Exponential(law) => law.sample(random),
            Self::Erlang(law) => law.sample(random),
            Self::HyperExponential(law) => law.sample(random),
            Self::LogNormal(law) => law.sample(random),
            Self::BoundedPareto(law) => law.sample(random),
            Self::Empirical(law) => law.sample(random),
            Self::Mixture(law) => law.sample(random),
            Self::Affine(law) => law.sample(random),
        }
    }
}

macro_rules! wrap {
    ($($law:ident),*) => {$(
        impl From<$law> for Distribution {
            fn from(law: $law) -> Self {
                Self::$law(law)
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
    Affine
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
