//! Distributions fitted to measured values by maximum likelihood, ranked, each with its goodness of fit.
//!
//! A table of families, with one function each. The likelihood ranks them (AIC); the Kolmogorov-Smirnov and
//! Anderson-Darling figures say how well the best one fits. Heavy tails are fitted apart, because their raw moments
//! cannot be trusted.

mod erlang_mixture;
mod least_squares;
mod log_normal;
mod moments;
mod pareto;
mod usl;

use serde::Serialize;
use thiserror::Error;

use crate::distribution::{Distribution, Exponential, RandomVariable};
use crate::named::Named;
pub use moments::{fit_moments, two_moments};
pub use pareto::ParetoTail;
pub use usl::{Interval, USL_POINTS_MIN, UslFit, fit_usl};

/// The fewest values that can be fitted.
pub const VALUES_MIN: usize = 10;

/// The reason why nothing can be fitted.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FitError {
    #[error("{0} values are too few: a fit needs at least {VALUES_MIN}")]
    TooFew(usize),
    /// A value is not positive and finite.
    #[error("value number {index} is {value}: values must be positive and finite")]
    Value {
        /// Counted from 0.
        index: usize,
        value: f64,
    },
    /// The number of throughputs or weights differs from the number of loads.
    #[error("{loads} loads but {values} values: give one per load")]
    Columns {
        loads: usize,
        /// Length of the other column.
        values: usize,
    },
    #[error(
        "{0} different loads are too few: the curve has three parameters and needs at least {USL_POINTS_MIN}"
    )]
    TooFewLoads(usize),
    /// All values are equal, up to rounding.
    #[error("the values hardly differ: a constant describes them")]
    Equal,
    /// The fraction of values in the tail is not between 0 and 1.
    #[error("the tail must be a fraction between 0 and 1, not {0}")]
    TailFraction(f64),
}

/// A distribution fitted to values, with its goodness of fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// `exponential`, `log-normal`, `shifted-log-normal`, `bounded-pareto`, `hyper-exponential`, `hyper-erlang`; or
    /// `two-moment` from [`fit_moments`].
    pub family: &'static str,
    /// Parameters by name; times and sizes are in the unit of the values.
    pub parameters: Named<f64>,
    /// Mean of the fitted distribution, in the unit of the values.
    pub mean: f64,
    /// Squared coefficient of variation of the fitted distribution.
    pub scv: f64,
    pub log_likelihood: f64,
    /// Akaike's information criterion: the smallest is best.
    pub aic: f64,
    pub kolmogorov_smirnov: f64,
    /// n ∫ (F − Fₙ)² / F(1 − F) dF: like Kolmogorov-Smirnov, but sensitive to the tails. About 2.5 at the 5 % point of
    /// a distribution that was not fitted to these values (Anderson & Darling 1954), less for one that was.
    pub anderson_darling: f64,
    #[serde(skip)]
    pub distribution: Distribution,
}

/// The result of fitting one family.
struct Candidate {
    distribution: Distribution,
    parameters: Vec<(String, f64)>,
    log_likelihood: f64,
}

/// Fits one family; returns `None` where it cannot describe the values at all.
type Fitter = fn(&[f64]) -> Option<Candidate>;

const FAMILIES: &[(&str, Fitter)] = &[
    ("exponential", exponential),
    ("log-normal", log_normal::fit),
    ("shifted-log-normal", log_normal::fit_shifted),
    ("bounded-pareto", pareto::fit_bounded),
    ("hyper-exponential", erlang_mixture::hyper_exponential),
    ("hyper-erlang", erlang_mixture::hyper_erlang),
];

/// Fits every family to `values`, best first.
///
/// # Errors
/// [`FitError`] when there are too few values or one is not positive and finite.
pub fn fit(values: &[f64]) -> Result<Vec<Fit>, FitError> {
    let sorted = checked(values)?;
    let mut fits: Vec<Fit> = FAMILIES
        .iter()
        .filter_map(|(family, fitter)| Some((*family, fitter(&sorted)?)))
        .map(|(family, candidate)| candidate.judged(family, &sorted))
        .collect();
    fits.sort_by(|a, b| a.aic.total_cmp(&b.aic));
    Ok(fits)
}

/// Fits a power tail to the largest `fraction` of `values`.
///
/// # Errors
/// [`FitError`], also when the fraction is not between 0 and 1.
pub fn fit_tail(values: &[f64], fraction: f64) -> Result<ParetoTail, FitError> {
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(FitError::TailFraction(fraction));
    }
    let sorted = checked(values)?;
    let count = (sorted.len() as f64 * fraction) as usize;
    if count < VALUES_MIN {
        return Err(FitError::TooFew(count));
    }
    Ok(ParetoTail::of(&sorted[sorted.len() - count..], fraction))
}

fn checked(values: &[f64]) -> Result<Vec<f64>, FitError> {
    positive(values)?;
    if values.len() < VALUES_MIN {
        return Err(FitError::TooFew(values.len()));
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(sorted)
}

fn positive(values: &[f64]) -> Result<(), FitError> {
    match values.iter().position(|value| !(value.is_finite() && *value > 0.0)) {
        Some(index) => Err(FitError::Value { index, value: values[index] }),
        None => Ok(()),
    }
}

impl Candidate {
    fn judged(self, family: &'static str, sorted: &[f64]) -> Fit {
        Fit {
            family,
            mean: self.distribution.mean(),
            scv: self.distribution.scv(),
            log_likelihood: self.log_likelihood,
            aic: 2.0 * self.parameters.len() as f64 - 2.0 * self.log_likelihood,
            kolmogorov_smirnov: distance(&self.distribution, sorted),
            anderson_darling: anderson_darling(&self.distribution, sorted),
            parameters: Named(self.parameters),
            distribution: self.distribution,
        }
    }
}

/// The largest gap between the distribution and the steps of the empirical distribution, on both sides of each step.
fn distance(distribution: &Distribution, sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let gap = |(index, value): (usize, &f64)| {
        let cdf = distribution.cdf(*value);
        (cdf - index as f64 / count).abs().max((cdf - (index + 1) as f64 / count).abs())
    };
    sorted.iter().enumerate().map(gap).fold(0.0, f64::max)
}

/// −n − Σ (2i−1) (ln F(xᵢ) + ln(1 − F(xₙ₊₁₋ᵢ))) / n.
fn anderson_darling(distribution: &Distribution, sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    // A value at the end of the support has no finite term, so F is kept one rounding step away from 0 and 1.
    let cdf: Vec<f64> =
        sorted.iter().map(|value| distribution.cdf(*value).clamp(f64::EPSILON, 1.0 - f64::EPSILON)).collect();
    let term =
        |(index, (low, high)): (usize, (&f64, &f64))| (2 * index + 1) as f64 * (low.ln() + (-high).ln_1p());
    -count - cdf.iter().zip(cdf.iter().rev()).enumerate().map(term).sum::<f64>() / count
}

fn exponential(sorted: &[f64]) -> Option<Candidate> {
    let count = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / count;
    Some(Candidate {
        distribution: Exponential::new(mean).ok()?.into(),
        parameters: vec![("mean".to_owned(), mean)],
        log_likelihood: -count * (mean.ln() + 1.0),
    })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod usl_tests;
