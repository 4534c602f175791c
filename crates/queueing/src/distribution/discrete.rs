//! Distributions of single values: a constant, and measured values with weights.

use super::{DistributionError, RandomVariable, non_negative, positive};
use crate::random::Random;

/// Always the same value: the demand that shows what exponential service hides.
#[derive(Debug, Clone, PartialEq)]
pub struct Deterministic {
    value: f64,
}

impl Deterministic {
    /// # Errors
    /// When `value` is negative or not finite.
    pub fn new(value: f64) -> Result<Self, DistributionError> {
        Ok(Self { value: non_negative("value", value)? })
    }

    /// As [`Deterministic::new`] without the check: the caller guarantees a non-negative value.
    pub(super) fn unchecked(value: f64) -> Self {
        Self { value }
    }
}

impl RandomVariable for Deterministic {
    fn mean(&self) -> f64 {
        self.value
    }
    fn second_moment(&self) -> f64 {
        self.value * self.value
    }
    fn cdf(&self, x: f64) -> f64 {
        if x >= self.value { 1.0 } else { 0.0 }
    }
    fn excess(&self, x: f64) -> f64 {
        (self.value - x).max(0.0)
    }
    fn quantile(&self, _p: f64) -> f64 {
        self.value
    }
    fn sample(&self, _random: &mut Random) -> f64 {
        self.value
    }
}

/// Measured values, each with a weight: the documents of a log, or the demands of a measurement. Sampling is Walker's
/// alias method (Vose 1991): one draw and one comparison, however many values there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical {
    values: Vec<f64>,
    /// P(X ≤ values[i]).
    cumulative: Vec<f64>,
    /// P(X ≥ values[i]) and `E[X; X ≥ values[i]]`; both 0 beyond the last.
    beyond: Vec<(f64, f64)>,
    /// Alias table: keep column i with this probability, else take `alias[i]`.
    keep: Vec<f64>,
    alias: Vec<u32>,
    mean: f64,
    second_moment: f64,
}

impl Empirical {
    /// Takes each value with a probability proportional to its weight.
    ///
    /// # Errors
    /// When there is no value, a value is negative or not finite, or the weights do not match or sum to zero.
    pub fn weighted(values: &[f64], weights: &[f64]) -> Result<Self, DistributionError> {
        if values.len() != weights.len() {
            return Err(DistributionError::WeightCount { values: values.len(), weights: weights.len() });
        }
        if values.is_empty() {
            return Err(DistributionError::Empty { name: "an empirical distribution" });
        }
        for (&value, &weight) in values.iter().zip(weights) {
            non_negative("value", value)?;
            non_negative("weight", weight)?;
        }
        let total = positive("sum of the weights", weights.iter().sum())?;
        let mut pairs: Vec<(f64, f64)> = values.iter().zip(weights).map(|(&v, &w)| (v, w / total)).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(Self::from_probabilities(&pairs))
    }

    /// Takes each value with the same probability.
    ///
    /// # Errors
    /// As [`Empirical::weighted`].
    pub fn new(values: &[f64]) -> Result<Self, DistributionError> {
        Self::weighted(values, &vec![1.0; values.len()])
    }

    pub(super) fn mapped(&self, of: impl Fn(f64) -> f64) -> Self {
        let probability = |index: usize| self.beyond[index].0 - self.beyond[index + 1].0;
        let mut pairs: Vec<(f64, f64)> =
            self.values.iter().enumerate().map(|(index, value)| (of(*value), probability(index))).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self::from_probabilities(&pairs)
    }

    fn from_probabilities(pairs: &[(f64, f64)]) -> Self {
        let mut sum = 0.0;
        let cumulative = pairs.iter().map(|&(_, p)| {
            sum += p;
            sum
        });
        let mut beyond = vec![(0.0, 0.0); pairs.len() + 1];
        for (index, &(value, probability)) in pairs.iter().enumerate().rev() {
            let (mass, sum) = beyond[index + 1];
            beyond[index] = (mass + probability, sum + probability * value);
        }
        let (keep, alias) = alias_table(pairs.iter().map(|&(_, p)| p * pairs.len() as f64).collect());
        Self {
            cumulative: cumulative.collect(),
            beyond,
            values: pairs.iter().map(|pair| pair.0).collect(),
            keep,
            alias,
            mean: pairs.iter().map(|(v, p)| v * p).sum(),
            second_moment: pairs.iter().map(|(v, p)| v * v * p).sum(),
        }
    }
}

/// Vose's construction: columns below average height borrow from those above.
fn alias_table(mut heights: Vec<f64>) -> (Vec<f64>, Vec<u32>) {
    let mut alias: Vec<u32> = (0..heights.len() as u32).collect();
    let (mut small, mut large): (Vec<u32>, Vec<u32>) =
        (0..heights.len() as u32).partition(|&column| heights[column as usize] < 1.0);
    while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
        small.pop();
        alias[low as usize] = high;
        heights[high as usize] -= 1.0 - heights[low as usize];
        if heights[high as usize] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    // Columns left on either stack are full up to rounding.
    small.into_iter().chain(large).for_each(|column| heights[column as usize] = 1.0);
    (heights, alias)
}

impl RandomVariable for Empirical {
    fn mean(&self) -> f64 {
        self.mean
    }
    fn second_moment(&self) -> f64 {
        self.second_moment
    }
    fn cdf(&self, x: f64) -> f64 {
        let below = self.values.partition_point(|&value| value <= x);
        if below == 0 { 0.0 } else { self.cumulative[below - 1].min(1.0) }
    }
    fn excess(&self, x: f64) -> f64 {
        let (mass, sum) = self.beyond[self.values.partition_point(|&value| value <= x)];
        (sum - x * mass).max(0.0)
    }
    fn quantile(&self, p: f64) -> f64 {
        let index = self.cumulative.partition_point(|&cumulative| cumulative < p);
        self.values[index.min(self.values.len() - 1)]
    }
    #[inline]
    fn sample(&self, random: &mut Random) -> f64 {
        let column = random.index(self.values.len());
        let kept = self.keep[column] >= 1.0 || random.uniform() < self.keep[column];
        self.values[if kept { column } else { self.alias[column] as usize }]
    }
}
