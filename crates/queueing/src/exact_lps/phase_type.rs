//! Phase-type demands: the time to absorption of a small Markov chain.

use crate::distribution::{Distribution, HyperExponential, RandomVariable, stages_for};

/// The most phases an exact solution takes.
const PHASES_MAX: usize = 8;

/// A phase-type distribution: initial probabilities of the phases and rates between them.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseType {
    initial: Vec<f64>,
    /// rates[i][j]: from phase i to phase j, 1/s; the diagonal is 0.
    rates: Vec<Vec<f64>>,
    /// From phase i to the end, 1/s.
    exit: Vec<f64>,
}

impl PhaseType {
    /// The phase-type form of an exponential, Erlang or hyper-exponential distribution or a mixture of these, also of one
    /// that a station's speed scales; `None` for any other, and for more than eight phases.
    pub fn of(distribution: &Distribution) -> Option<Self> {
        match distribution {
            Distribution::Exponential(distribution) => {
                Some(Self::parallel(&[1.0], &[1.0 / distribution.mean()]))
            }
            Distribution::HyperExponential(distribution) => {
                let (p, [first, second]) = (distribution.probability(), distribution.means());
                Some(Self::parallel(&[p, 1.0 - p], &[1.0 / first, 1.0 / second]))
            }
            Distribution::Erlang(distribution) => {
                let stages = distribution.stages() as usize;
                (stages <= PHASES_MAX).then(|| Self::series(stages, stages as f64 / distribution.mean()))
            }
            Distribution::Mixture(distribution) => {
                let parts =
                    distribution.parts().iter().map(|(weight, part)| Some((*weight, Self::of(part)?)));
                Self::choice(&parts.collect::<Option<Vec<_>>>()?)
            }
            Distribution::Affine(distribution) => match distribution.parts() {
                (inner, factor, 0.0) if factor > 0.0 => Some(Self::of(inner)?.slowed(factor)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Multiplies all times by `factor`.
    fn slowed(mut self, factor: f64) -> Self {
        self.rates.iter_mut().flatten().chain(&mut self.exit).for_each(|rate| *rate /= factor);
        self
    }

    /// The phase-type distribution with this mean and squared coefficient of variation: balanced hyper-exponential for
    /// C² ≥ 1, a mixture of k − 1 and k exponential stages below (Tijms 1986). `None` below 1/8.
    pub fn from_mean_scv(mean: f64, scv: f64) -> Option<Self> {
        if !(mean.is_finite() && mean > 0.0 && scv.is_finite()) {
            return None;
        }
        if scv >= 1.0 {
            return Self::of(&HyperExponential::balanced(mean, scv).ok()?.into());
        }
        // Skipping the first stage with this probability leaves one stage less.
        let (stages, skip) = stages_for(scv).filter(|(stages, _)| *stages <= PHASES_MAX as f64)?;
        let mut phases = Self::series(stages as usize, (stages - skip) / mean);
        (phases.initial[0], phases.initial[1]) = (1.0 - skip, skip);
        Some(phases)
    }

    fn parallel(initial: &[f64], exit: &[f64]) -> Self {
        let phases = initial.len();
        Self { initial: initial.to_vec(), rates: vec![vec![0.0; phases]; phases], exit: exit.to_vec() }
    }

    /// A choice among distributions, each with its own phases; `None` when that gives too many phases.
    fn choice(parts: &[(f64, Self)]) -> Option<Self> {
        let phases = parts.iter().map(|(_, part)| part.phases()).sum();
        if phases > PHASES_MAX {
            return None;
        }
        let mut chain = Self::parallel(&vec![0.0; phases], &vec![0.0; phases]);
        let mut first = 0;
        for (weight, part) in parts {
            for phase in 0..part.phases() {
                chain.initial[first + phase] = weight * part.initial[phase];
                chain.exit[first + phase] = part.exit[phase];
                chain.rates[first + phase][first..first + part.phases()].copy_from_slice(&part.rates[phase]);
            }
            first += part.phases();
        }
        Some(chain)
    }

    fn series(stages: usize, rate: f64) -> Self {
        let mut chain = Self::parallel(&vec![0.0; stages], &vec![0.0; stages]);
        chain.initial[0] = 1.0;
        (1..stages).for_each(|stage| chain.rates[stage - 1][stage] = rate);
        chain.exit[stages - 1] = rate;
        chain
    }

    pub fn phases(&self) -> usize {
        self.initial.len()
    }

    /// The probability that a job starts in each phase.
    pub fn initial(&self) -> &[f64] {
        &self.initial
    }

    /// Rates from `phase` to every other, 1/s.
    pub fn rates(&self, phase: usize) -> &[f64] {
        &self.rates[phase]
    }

    /// The rate from `phase` to the end, 1/s.
    pub fn exit(&self, phase: usize) -> f64 {
        self.exit[phase]
    }

    /// The sum of all rates out of `phase`, 1/s.
    pub fn total_rate(&self, phase: usize) -> f64 {
        self.exit[phase] + self.rates[phase].iter().sum::<f64>()
    }

    /// The largest of the total rates, 1/s.
    pub fn rate_max(&self) -> f64 {
        (0..self.phases()).map(|phase| self.total_rate(phase)).fold(0.0, f64::max)
    }

    /// `E[S]` in seconds.
    pub fn mean(&self) -> f64 {
        dot(&self.initial, &self.times_to_absorption(&vec![1.0; self.phases()]))
    }

    /// `E[S²]` in s²: twice the mean time weighted by the mean remaining time.
    pub fn second_moment(&self) -> f64 {
        let first = self.times_to_absorption(&vec![1.0; self.phases()]);
        2.0 * dot(&self.initial, &self.times_to_absorption(&first))
    }

    /// Solves (−T)·x = `reward` by back substitution, for phases that only go forward.
    fn times_to_absorption(&self, reward: &[f64]) -> Vec<f64> {
        let mut x = vec![0.0; self.phases()];
        for phase in (0..self.phases()).rev() {
            x[phase] = (reward[phase] + dot(&self.rates[phase], &x)) / self.total_rate(phase);
        }
        x
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
