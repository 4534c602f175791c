//! A distribution with a given mean and squared coefficient of variation: phase type, so that exact solvers take it.
//!
//! Two moments fix the mean of PS and of Pollaczek and Khinchine's FIFO exactly. From measured values use them only
//! where C² is small: of heavy tails a sample's second moment is no estimate.

use super::erlang_mixture::{Branch, log_likelihood};
use super::{Candidate, Fit, FitError, checked};
use crate::distribution::{
    Deterministic, Distribution, DistributionError, ERLANG_STAGES_MAX, Erlang, Exponential, HyperExponential,
    Mixture, stages_for,
};

/// The distribution of this mean and C²: constant below 1/1000, k − 1 or k exponential stages below 1 (Tijms 1986),
/// exponential at 1, hyper-exponential with balanced means above.
///
/// # Errors
/// [`DistributionError::Parameter`] when the mean is not positive, or C² negative or not finite.
pub fn two_moments(mean: f64, scv: f64) -> Result<Distribution, DistributionError> {
    if scv >= 1.0 {
        return match scv {
            1.0 => Ok(Exponential::new(mean)?.into()),
            _ => Ok(HyperExponential::balanced(mean, scv)?.into()),
        };
    }
    if !(scv.is_finite() && scv >= 0.0) {
        let (name, requirement) = ("scv", "non-negative and finite");
        return Err(DistributionError::Parameter { name, requirement, value: scv });
    }
    // Refuses a mean that is not positive and finite.
    Exponential::new(mean)?;
    match stages_mixture(mean, scv) {
        None => Ok(Deterministic::new(mean)?.into()),
        Some([fewer, more]) => {
            let part =
                |branch: Branch| Ok((branch.probability, Erlang::new(branch.mean(), branch.stages)?.into()));
            if fewer.probability < 1e-12 {
                return Ok(Erlang::new(mean, more.stages)?.into());
            }
            Ok(Mixture::new(vec![part(fewer)?, part(more)?])?.into())
        }
    }
}

/// k − 1 stages with some probability, else k, all of one rate; `None` for more than [`ERLANG_STAGES_MAX`] stages.
fn stages_mixture(mean: f64, scv: f64) -> Option<[Branch; 2]> {
    let (stages, fewer) = stages_for(scv).filter(|(stages, _)| *stages <= f64::from(ERLANG_STAGES_MAX))?;
    let rate = (stages - fewer) / mean;
    let branch = |probability, stages: f64| Branch { probability, stages: stages as u32, rate };
    Some([branch(fewer, stages - 1.0), branch(1.0 - fewer, stages)])
}

/// The two-moment distribution of measured values, with its goodness of fit.
///
/// # Errors
/// [`FitError`] when there are too few values, one is not positive and finite, or they hardly differ.
pub fn fit_moments(values: &[f64]) -> Result<Fit, FitError> {
    let sorted = checked(values)?;
    let count = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / count;
    let scv = sorted.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>() / (count - 1.0);
    let branches = if scv >= 1.0 {
        let distribution = HyperExponential::balanced(mean, scv).map_err(|_| FitError::Equal)?;
        let branch = |probability, mean: f64| Branch { probability, stages: 1, rate: 1.0 / mean };
        [
            branch(distribution.probability(), distribution.means()[0]),
            branch(1.0 - distribution.probability(), distribution.means()[1]),
        ]
    } else {
        stages_mixture(mean, scv).ok_or(FitError::Equal)?
    };
    let candidate = Candidate {
        distribution: two_moments(mean, scv).map_err(|_| FitError::Equal)?,
        parameters: vec![("mean".to_owned(), mean), ("scv".to_owned(), scv)],
        log_likelihood: log_likelihood(&sorted, &branches),
    };
    Ok(candidate.judged("two-moment", &sorted))
}
