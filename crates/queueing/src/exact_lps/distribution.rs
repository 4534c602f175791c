//! The distribution of the response time: a tagged job, followed event by event.
//!
//! Arrivals (rate λ) and service events (uniformised at rate μ) are independent Poisson streams. The wait of the
//! tagged job depends on service events only, so the number of arrivals behind it during j service events is negative
//! binomial, and the waiting job needs no state for them. In service the job is followed together with the phases of
//! the others. With sₖ the probability that the job is still present after k events, P(R > t) = Σ Poisson(k; (λ+μ)t)
//! sₖ.

use super::tagged::{InService, Waiting};
use super::{ExactError, ExactLps};
use crate::complex::Complex;
use crate::lattice::Between;

/// Events are followed until the job is still present with at most this probability.
pub(super) const SURVIVAL_TAIL: f64 = 1e-7;
/// Limits the work of one distribution to a few seconds: the most probabilities stepped over all events.
const STEPS_MAX: usize = 400_000_000;
/// Events between two estimates of the remaining work. The computation gives up when the estimate exceeds the limit
/// many times over, because the tail may fall faster later on.
const EVENTS_PER_LOOK: usize = 256;
const HOPELESS: usize = 4;
/// Weights of the negative binomial below this are left out.
const WEIGHT_MIN: f64 = 1e-18;

/// P(R > t), as a Poisson mixture.
#[derive(Debug, Clone)]
pub struct ResponseDistribution {
    /// Events per second.
    rate: f64,
    /// Probability that the job is still present after k events.
    survival: Vec<f64>,
    /// The most that P(R > t) may be too small: jobs far back in the queue, and the tail that was not followed.
    error_bound: f64,
}

impl ResponseDistribution {
    pub(super) fn new(rate: f64, error_bound: f64, survival: Vec<f64>) -> Self {
        Self { rate, error_bound, survival }
    }

    /// P(R > t), t in seconds.
    pub fn survival(&self, time: f64) -> f64 {
        let events = self.rate * time.max(0.0);
        let spread = 8.0 * events.sqrt() + 20.0;
        let first = (events - spread).max(0.0) as usize;
        let last = (((events + spread) as usize) + 1).min(self.survival.len());
        let Some(window) = self.survival.get(first..last) else { return 0.0 };
        let mut log_weight =
            first as f64 * events.max(f64::MIN_POSITIVE).ln() - events - libm::lgamma(first as f64 + 1.0);
        let mut sum = 0.0;
        for (offset, survival) in window.iter().enumerate() {
            sum += log_weight.exp() * survival;
            log_weight += (events / (first + offset + 1) as f64).max(f64::MIN_POSITIVE).ln();
        }
        sum.clamp(0.0, 1.0)
    }

    /// The quantile p in seconds, for 0 ≤ p ≤ 0.9999.
    pub fn quantile(&self, p: f64) -> f64 {
        self.time_of(1.0 - p)
    }

    /// Lower and upper bounds of the quantile p.
    pub(crate) fn between(&self, p: f64) -> Between {
        let least = 1.0 - p - self.error_bound;
        let high = if least > 0.0 { self.time_of(least) } else { f64::INFINITY };
        let low = self.quantile(p);
        Between { low, high, best: low }
    }

    /// The most by which [`ResponseDistribution::survival`] may be too small.
    pub(crate) fn error_bound(&self) -> f64 {
        self.error_bound
    }

    fn time_of(&self, survival: f64) -> f64 {
        let (mut low, mut high) = (0.0, self.survival.len() as f64 / self.rate);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.survival(middle) > survival {
                low = middle;
            } else {
                high = middle;
            }
        }
        (low + high) / 2.0
    }

    /// E[exp(−sR)], for s with a positive real part: each event is a step of an exponential clock.
    pub(crate) fn transform(&self, s: Complex) -> Complex {
        let step = Complex::from(self.rate) / (s + Complex::from(self.rate));
        let sum = self.survival.iter().rev().fold(Complex::ZERO, |sum, p| sum * step + Complex::from(*p));
        Complex::ONE - s / (s + Complex::from(self.rate)) * sum
    }

    /// ∫ P(R > t) dt in seconds: must equal the mean from Little's law.
    pub fn mean(&self) -> f64 {
        self.survival.iter().sum::<f64>() / self.rate
    }
}

pub(super) fn solve(model: &ExactLps) -> Result<ResponseDistribution, ExactError> {
    let (arrival, event) = (model.arrival_rate, model.event_rate());
    let (rate, arrival_share) = (arrival + event, arrival / (arrival + event));
    let mut waiting = Waiting::new(model);
    let mut service = InService::new(model, arrival_share);
    let mut not_entered = waiting.mass();
    // entered[j − 1]: the probability of entering service at service event j, by the phases of the others.
    let mut entered: Vec<Vec<f64>> = Vec::new();
    let mut survival = vec![not_entered + service.mass()];
    // Jobs that arrive above the highest level are not followed.
    let lost = (1.0 - survival[0]).max(0.0);
    let mut steps = 0;
    if lost > SURVIVAL_TAIL {
        return Err(ExactError::TooNearSaturation);
    }
    while survival[survival.len() - 1] > SURVIVAL_TAIL {
        steps += waiting.size() + service.size();
        if steps > STEPS_MAX || steps_left(&survival, service.size()) > HOPELESS * STEPS_MAX {
            return Err(ExactError::TooNearSaturation);
        }
        entered.push(waiting.step());
        service.step();
        not_entered -= admit(&entered, &mut service, arrival_share);
        survival.push(not_entered.max(0.0) + service.mass());
    }
    Ok(ResponseDistribution::new(rate, lost + SURVIVAL_TAIL, survival))
}

/// Estimates how many probabilities remain to be stepped, from how fast the tail fell since the last estimate.
fn steps_left(survival: &[f64], size: usize) -> usize {
    let events = survival.len() - 1;
    if events == 0 || !events.is_multiple_of(EVENTS_PER_LOOK) {
        return 0;
    }
    let fall = (survival[events - EVENTS_PER_LOOK] / survival[events]).ln();
    let left = (survival[events] / SURVIVAL_TAIL).ln() / fall * EVENTS_PER_LOOK as f64;
    (left.max(0.0) * size as f64) as usize
}

/// Moves jobs into service at event m = `entered.len()`: those that enter at service event j with probability C(m−1,
/// j−1) (1−β)ʲ βᵐ⁻ʲ, m − j jobs having arrived behind. Returns the probability moved.
fn admit(entered: &[Vec<f64>], service: &mut InService<'_>, arrival_share: f64) -> f64 {
    let events = entered.len() as f64;
    let expected = (1.0 - arrival_share) * events;
    let spread = 9.0 * (events * arrival_share * (1.0 - arrival_share)).sqrt() + 10.0;
    let first = ((expected - spread).max(1.0) as usize).min(entered.len());
    let last = ((expected + spread) as usize).min(entered.len());
    let log_factorial = |n: f64| libm::lgamma(n + 1.0);
    let mut moved = 0.0;
    for j in first..=last {
        let (own, behind) = (j as f64, events - j as f64);
        let log_weight = log_factorial(events - 1.0) - log_factorial(own - 1.0) - log_factorial(behind)
            + own * (1.0 - arrival_share).ln()
            + behind * arrival_share.ln();
        let weight = log_weight.exp();
        if weight > WEIGHT_MIN {
            moved += service.admit(&entered[j - 1], weight, entered.len() - j);
        }
    }
    moved
}
