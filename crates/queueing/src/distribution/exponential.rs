//! Exponential, Erlang and hyper-exponential: sums and choices of exponential stages, which the exact solvers take.

use super::{DistributionError, RandomVariable, parameter, positive};
use crate::random::Random;

/// P(X > x) = exp(−x / mean).
#[derive(Debug, Clone, PartialEq)]
pub struct Exponential {
    mean: f64,
}

impl Exponential {
    /// # Errors
    /// When `mean` is not positive and finite.
    pub fn new(mean: f64) -> Result<Self, DistributionError> {
        Ok(Self { mean: positive("mean", mean)? })
    }
}

impl RandomVariable for Exponential {
    fn mean(&self) -> f64 {
        self.mean
    }
    fn second_moment(&self) -> f64 {
        2.0 * self.mean * self.mean
    }
    fn cdf(&self, x: f64) -> f64 {
        -(-x.max(0.0) / self.mean).exp_m1()
    }
    fn excess(&self, x: f64) -> f64 {
        self.mean * (-x / self.mean).exp()
    }
    fn quantile(&self, p: f64) -> f64 {
        -self.mean * (-p).ln_1p()
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        self.mean * random.exponential()
    }
}

/// More stages than this are indistinguishable from a constant (C² < 0.001), and cost a draw each.
pub const ERLANG_STAGES_MAX: u32 = 1_000;

/// A sum of equal exponential stages: C² = 1/stages. The thesis's distribution of the backbone's delay.
#[derive(Debug, Clone, PartialEq)]
pub struct Erlang {
    mean: f64,
    stages: u32,
}

impl Erlang {
    /// `mean` is that of the sum, not of one stage.
    ///
    /// # Errors
    /// When `mean` is not positive, or `stages` is 0 or above [`ERLANG_STAGES_MAX`].
    pub fn new(mean: f64, stages: u32) -> Result<Self, DistributionError> {
        if !(1..=ERLANG_STAGES_MAX).contains(&stages) {
            return Err(parameter("stages", "from 1 to 1000", f64::from(stages)));
        }
        Ok(Self { mean: positive("mean", mean)?, stages })
    }

    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// P(X > x) = Σ e^(−y) yⁱ / i! over i < k, and the term i = k.
    fn survival(&self, x: f64) -> (f64, f64) {
        let y = x * f64::from(self.stages) / self.mean;
        // Where e^(−y) underflows, the terms are summed as logarithms.
        let logarithms = y > 700.0;
        let (mut term, mut log_term) = ((-y).exp(), -y);
        let mut survival = 0.0;
        for stage in 1..=self.stages {
            survival += term;
            if logarithms {
                log_term += (y / f64::from(stage)).ln();
                term = log_term.exp();
            } else {
                term *= y / f64::from(stage);
            }
        }
        (survival, term)
    }
}

/// The number of stages k, and the probability of k − 1 stages instead, that give this C² < 1 (Tijms 1986); `None` for
/// C² = 0.
pub(crate) fn stages_for(scv: f64) -> Option<(f64, f64)> {
    let stages = (1.0 / scv - 1e-9).ceil().max(2.0);
    let root = (stages * (1.0 + scv) - stages * stages * scv).max(0.0).sqrt();
    (scv > 0.0).then(|| (stages, ((stages * scv - root) / (1.0 + scv)).clamp(0.0, 1.0)))
}

impl RandomVariable for Erlang {
    fn mean(&self) -> f64 {
        self.mean
    }
    fn second_moment(&self) -> f64 {
        self.mean * self.mean * (1.0 + 1.0 / f64::from(self.stages))
    }
    fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        let (survival, _) = self.survival(x);
        (1.0 - survival).clamp(0.0, 1.0)
    }
    fn excess(&self, x: f64) -> f64 {
        // `E[X; X > x]` is the mean times the survival function of one stage more.
        let (survival, next) = self.survival(x);
        (self.mean * (survival + next) - x * survival).max(0.0)
    }
    fn sample(&self, random: &mut Random) -> f64 {
        let sum: f64 = (0..self.stages).map(|_| random.exponential()).sum();
        sum * self.mean / f64::from(self.stages)
    }
}

/// Exponential with mean `means[0]` with `probability`, else with mean `means[1]`: C² ≥ 1, the textbook's very
/// variable demand.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperExponential {
    probability: f64,
    means: [f64; 2],
}

impl HyperExponential {
    /// From the probability of the first branch and the means of both.
    ///
    /// # Errors
    /// When `probability` is not in [0, 1] or a mean is not positive.
    pub fn new(probability: f64, means: [f64; 2]) -> Result<Self, DistributionError> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(parameter("probability", "from 0 to 1", probability));
        }
        Ok(Self { probability, means: [positive("mean", means[0])?, positive("mean", means[1])?] })
    }

    /// From the mean and the squared coefficient of variation. The branches have balanced means: each contributes half
    /// of the mean.
    ///
    /// # Errors
    /// When `mean` is not positive or `scv` is below 1.
    pub fn balanced(mean: f64, scv: f64) -> Result<Self, DistributionError> {
        positive("mean", mean)?;
        if !(scv.is_finite() && scv >= 1.0) {
            return Err(parameter("scv", "at least 1 for a hyper-exponential distribution", scv));
        }
        let probability = (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt()) / 2.0;
        Self::new(probability, [mean / (2.0 * probability), mean / (2.0 * (1.0 - probability))])
    }

    pub fn probability(&self) -> f64 {
        self.probability
    }

    pub fn means(&self) -> [f64; 2] {
        self.means
    }
}

impl RandomVariable for HyperExponential {
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
    fn excess(&self, x: f64) -> f64 {
        let [first, second] = self.means;
        self.probability * first * (-x / first).exp()
            + (1.0 - self.probability) * second * (-x / second).exp()
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        let branch = usize::from(random.uniform() >= self.probability);
        self.means[branch] * random.exponential()
    }
}
