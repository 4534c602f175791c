//! Hyper-exponential with two branches: C² ≥ 1, the textbook's very variable demand, and phase type.

use super::{DistributionError, Law, parameter, positive};
use crate::random::Random;

/// Exponential of mean `means[0]` with `probability`, else of mean `means[1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperExponential {
    probability: f64,
    means: [f64; 2],
}

impl HyperExponential {
    /// From the branches.
    ///
    /// # Errors
    /// When `probability` is not in [0, 1] or a mean is not positive.
    pub fn new(probability: f64, means: [f64; 2]) -> Result<Self, DistributionError> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(parameter("probability", "from 0 to 1", probability));
        }
        Ok(Self { probability, means: [positive("mean", means[0])?, positive("mean", means[1])?] })
    }

    /// From the mean and the squared coefficient of variation, with balanced means: each branch brings half
    /// of the work.
    ///
    /// # Errors
    /// When `mean` is not positive or `scv` is below 1.
    pub fn balanced(mean: f64, scv: f64) -> Result<Self, DistributionError> {
        positive("mean", mean)?;
        if !(scv.is_finite() && scv >= 1.0) {
            return Err(parameter("scv", "at least 1 for a hyper-exponential law", scv));
        }
        let probability = (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt()) / 2.0;
        Self::new(probability, [mean / (2.0 * probability), mean / (2.0 * (1.0 - probability))])
    }

    /// The probability of the first branch.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// The mean of each branch.
    pub fn means(&self) -> [f64; 2] {
        self.means
    }
}

impl Law for HyperExponential {
    fn mean(&self) -> f64 {
        self.probability * self.means[0] + (1.0 - self.probability) * self.means[1]
    }
    fn second_moment(&self) -> f64 {
        let [first, second] = self.means;
        2.0 * (self.probability * first * first + (1.0 - self.probability) * second * second)
    }
    fn cdf(&self, x: f64) -> f64 {
        let x = x.max(0.0);
        -self.probability * (-x / self.means[0]).exp_m1()
            - (1.0 - self.probability) * (-x / self.means[1]).exp_m1()
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        let branch = usize::from(random.uniform() >= self.probability);
        self.means[branch] * random.exponential()
    }
}
