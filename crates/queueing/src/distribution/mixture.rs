//! A choice among laws: a log-normal body with a Pareto tail, or an atom at zero beside an exponential.

use super::{Distribution, DistributionError, Law, non_negative, positive};
use crate::random::Random;

/// Each part with its probability.
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
        Ok(Self { parts: parts.into_iter().map(|(weight, law)| (weight / total, law)).collect() })
    }

    /// The parts with their probabilities.
    pub fn parts(&self) -> &[(f64, Distribution)] {
        &self.parts
    }

    fn expect(&self, of: impl Fn(&Distribution) -> f64) -> f64 {
        self.parts.iter().map(|(probability, law)| probability * of(law)).sum()
    }
}

impl Law for Mixture {
    fn mean(&self) -> f64 {
        self.expect(Law::mean)
    }
    fn second_moment(&self) -> f64 {
        self.expect(Law::second_moment)
    }
    fn cdf(&self, x: f64) -> f64 {
        self.expect(|law| law.cdf(x))
    }
    fn sample(&self, random: &mut Random) -> f64 {
        let mut left = random.uniform();
        for (probability, law) in &self.parts[..self.parts.len() - 1] {
            if left < *probability {
                return law.sample(random);
            }
            left -= probability;
        }
        self.parts[self.parts.len() - 1].1.sample(random)
    }
}
