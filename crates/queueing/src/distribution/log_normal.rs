//! Log-normal: the distribution of document sizes in the thesis (μ = 7.811, σ = 1.573 of ln bytes).

use super::{
    DistributionError, RandomVariable, non_negative, normal_cdf, normal_quantile, parameter, positive,
};
use crate::random::Random;

/// ln X is normal with mean `mu` and standard deviation `sigma`.
#[derive(Debug, Clone, PartialEq)]
pub struct LogNormal {
    mu: f64,
    sigma: f64,
}

impl LogNormal {
    /// From the mean and standard deviation of ln X.
    ///
    /// # Errors
    /// When `mu` is not finite or `sigma` is negative.
    pub fn new(mu: f64, sigma: f64) -> Result<Self, DistributionError> {
        if !mu.is_finite() {
            return Err(parameter("mu", "finite", mu));
        }
        Ok(Self { mu, sigma: non_negative("sigma", sigma)? })
    }

    /// From the mean and the squared coefficient of variation.
    ///
    /// # Errors
    /// When `mean` is not positive or `scv` is negative.
    pub fn from_mean_scv(mean: f64, scv: f64) -> Result<Self, DistributionError> {
        let variance = non_negative("scv", scv)?.ln_1p();
        Self::new(positive("mean", mean)?.ln() - variance / 2.0, variance.sqrt())
    }
}

impl RandomVariable for LogNormal {
    fn mean(&self) -> f64 {
        (self.mu + self.sigma * self.sigma / 2.0).exp()
    }
    fn second_moment(&self) -> f64 {
        (2.0 * (self.mu + self.sigma * self.sigma)).exp()
    }
    fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        if self.sigma == 0.0 {
            return if x.ln() >= self.mu { 1.0 } else { 0.0 };
        }
        normal_cdf((x.ln() - self.mu) / self.sigma)
    }
    fn excess(&self, x: f64) -> f64 {
        if x <= 0.0 || self.sigma == 0.0 {
            return (self.mean() - x).max(0.0);
        }
        let standard = (x.ln() - self.mu) / self.sigma;
        (self.mean() * normal_cdf(self.sigma - standard) - x * normal_cdf(-standard)).max(0.0)
    }
    fn quantile(&self, p: f64) -> f64 {
        if p <= 0.0 { 0.0 } else { (self.mu + self.sigma * normal_quantile(p)).exp() }
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        (self.mu + self.sigma * random.normal()).exp()
    }
}
