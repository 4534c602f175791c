//! Mixtures of Erlang branches by expectation-maximisation (Thümmler, Buchholz & Telek 2006).
//!
//! With one stage per branch this is the hyper-exponential distribution. The numbers of stages are tried and the most
//! likely kept; for given stages the likelihood never falls from one step to the next.

use super::Candidate;
use crate::distribution::{Distribution, Erlang, HyperExponential, Mixture};

const STEPS_MAX: usize = 500;
/// The search stops once a step gains less log-likelihood than this per value.
const GAIN_MIN: f64 = 1e-7;
/// The numbers of stages of the two branches that the fit tries.
const STAGES: [[u32; 2]; 9] = [[1, 1], [1, 2], [2, 2], [1, 4], [2, 4], [4, 4], [1, 8], [4, 8], [8, 8]];
/// Larger samples are thinned evenly for the search, because a step costs two exponentials per value.
const VALUES_MAX: usize = 20_000;

/// `stages` exponential stages, chosen with a probability.
#[derive(Clone, Copy)]
pub(super) struct Branch {
    pub(super) probability: f64,
    pub(super) stages: u32,
    pub(super) rate: f64,
}

impl Branch {
    fn log_density(&self, value: f64, log_factorial: f64) -> f64 {
        let stages = f64::from(self.stages);
        self.probability.ln() + stages * self.rate.ln() + (stages - 1.0) * value.ln()
            - self.rate * value
            - log_factorial
    }

    fn log_factorial(&self) -> f64 {
        libm::lgamma(f64::from(self.stages))
    }

    pub(super) fn mean(&self) -> f64 {
        f64::from(self.stages) / self.rate
    }
}

pub(super) fn hyper_exponential(sorted: &[f64]) -> Option<Candidate> {
    let branches = maximise(&thinned(sorted), [1, 1]).0;
    let [first, second] = branches;
    let distribution = HyperExponential::new(first.probability, [first.mean(), second.mean()]).ok()?;
    let parameters = vec![
        ("probability".to_owned(), first.probability),
        ("mean_first".to_owned(), first.mean()),
        ("mean_second".to_owned(), second.mean()),
    ];
    Some(Candidate {
        distribution: distribution.into(),
        parameters,
        log_likelihood: log_likelihood(sorted, &branches),
    })
}

pub(super) fn hyper_erlang(sorted: &[f64]) -> Option<Candidate> {
    let values = thinned(sorted);
    let fits = STAGES.iter().map(|stages| maximise(&values, *stages));
    let (branches, _) = fits.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut parts: Vec<(f64, Distribution)> = Vec::new();
    for branch in branches {
        parts.push((branch.probability, Erlang::new(branch.mean(), branch.stages).ok()?.into()));
    }
    let [first, second] = branches;
    let parameters = vec![
        ("probability".to_owned(), first.probability),
        ("stages_first".to_owned(), f64::from(first.stages)),
        ("mean_first".to_owned(), first.mean()),
        ("stages_second".to_owned(), f64::from(second.stages)),
        ("mean_second".to_owned(), second.mean()),
    ];
    let distribution = Mixture::new(parts).ok()?.into();
    Some(Candidate { distribution, parameters, log_likelihood: log_likelihood(sorted, &branches) })
}

/// Keeps every n-th value of a sorted sample, the middle one of n neighbours.
fn thinned(sorted: &[f64]) -> Vec<f64> {
    let step = sorted.len().div_ceil(VALUES_MAX).max(1);
    sorted.iter().skip(step / 2).step_by(step).copied().collect()
}

fn maximise(values: &[f64], stages: [u32; 2]) -> ([Branch; 2], f64) {
    let mut branches = start(values, stages);
    let mut likelihood = f64::NEG_INFINITY;
    for _ in 0..STEPS_MAX {
        let (next, found) = step(values, branches);
        let gain = found - likelihood;
        (branches, likelihood) = (next, found);
        if gain < GAIN_MIN * values.len() as f64 {
            break;
        }
    }
    (branches, likelihood)
}

/// Starts with the lower nine tenths in one branch and the rest in the other.
fn start(values: &[f64], stages: [u32; 2]) -> [Branch; 2] {
    let split = (values.len() * 9 / 10).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let branch = |probability: f64, stages: u32, part: &[f64]| Branch {
        probability,
        stages,
        rate: f64::from(stages) / mean(part).max(f64::MIN_POSITIVE),
    };
    [branch(0.9, stages[0], &values[..split]), branch(0.1, stages[1], &values[split..])]
}

/// One step of expectation and maximisation. Returns the new branches and the log-likelihood of the old ones.
fn step(values: &[f64], branches: [Branch; 2]) -> ([Branch; 2], f64) {
    let factorials = branches.map(|branch| branch.log_factorial());
    let (mut weights, mut sums, mut likelihood) = ([0.0; 2], [0.0; 2], 0.0);
    for &value in values {
        let logs = [0, 1].map(|index| branches[index].log_density(value, factorials[index]));
        let top = logs[0].max(logs[1]);
        let densities = logs.map(|log| (log - top).exp());
        let total = densities[0] + densities[1];
        likelihood += top + total.ln();
        for index in 0..2 {
            let share = densities[index] / total;
            weights[index] += share;
            sums[index] += share * value;
        }
    }
    let count = values.len() as f64;
    let next = [0, 1].map(|index| Branch {
        // A branch may fade out, but its logarithm must exist.
        probability: (weights[index] / count).clamp(1e-12, 1.0),
        stages: branches[index].stages,
        rate: f64::from(branches[index].stages) * weights[index].max(1e-12)
            / sums[index].max(f64::MIN_POSITIVE),
    });
    (next, likelihood)
}

pub(super) fn log_likelihood(values: &[f64], branches: &[Branch; 2]) -> f64 {
    step(values, *branches).1
}
