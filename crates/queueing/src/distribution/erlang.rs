//! Erlang: a sum of equal exponential stages, C² = 1/stages. The thesis's law of the backbone's delay.

use super::{DistributionError, Law, parameter, positive};
use crate::random::Random;

/// More stages than this are indistinguishable from a constant (C² < 0.001), and cost a draw each.
pub const ERLANG_STAGES_MAX: u32 = 1_000;

/// The sum of `stages` exponentials.
#[derive(Debug, Clone, PartialEq)]
pub struct Erlang {
    mean: f64,
    stages: u32,
}

impl Erlang {
    /// The Erlang law of this mean over all stages together.
    ///
    /// # Errors
    /// When `mean` is not positive, or `stages` is 0 or above [`ERLANG_STAGES_MAX`].
    pub fn new(mean: f64, stages: u32) -> Result<Self, DistributionError> {
        if !(1..=ERLANG_STAGES_MAX).contains(&stages) {
            return Err(parameter("stages", "from 1 to 1000", f64::from(stages)));
        }
        Ok(Self { mean: positive("mean", mean)?, stages })
    }

    /// The number of stages.
    pub fn stages(&self) -> u32 {
        self.stages
    }
}

impl Law for Erlang {
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
        // 1 − Σ e^(−y) yⁱ / i!, each term in logarithms: y is large where there are many stages.
        let y = x * f64::from(self.stages) / self.mean;
        let mut log_term = -y;
        let mut survival = log_term.exp();
        for stage in 1..self.stages {
            log_term += (y / f64::from(stage)).ln();
            survival += log_term.exp();
        }
        (1.0 - survival).clamp(0.0, 1.0)
    }
    fn sample(&self, random: &mut Random) -> f64 {
        let sum: f64 = (0..self.stages).map(|_| random.exponential()).sum();
        sum * self.mean / f64::from(self.stages)
    }
}
