//! Estimates from recorded batches: MSER warm-up, overlapping batch means, and an optional control variate.
//!
//! Response times of consecutive jobs are strongly correlated: a confidence interval that ignores it covers 7 %
//! instead of 95 %. With thirty batches, and their lag-1 correlation tested and allowed for, coverage is about 92 %.

use super::recorder::{Batch, Recorder};
use crate::distribution::student_quantile;

/// Batches for the variance of the mean.
const BATCH_COUNT: usize = 30;
/// Above this lag-1 correlation the batches are too short to trust, and the run goes on.
pub(super) const LAG_ONE_MAX: f64 = 0.3;

/// An estimate of a mean, with the evidence for its half-width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    /// 95 %; `None` with too few batches.
    pub(super) half_width: Option<f64>,
    /// Batches dropped at the start.
    pub(super) warm_up_batches: usize,
    /// Correlation of neighbouring batch means.
    pub(super) lag_one: f64,
    /// Variance without the control variate over variance with it; 1 without one.
    pub(super) variance_reduction: f64,
}

impl Estimate {
    /// Estimates the mean after the warm-up; `control_mean` is the exact mean of the control variable.
    pub(super) fn of(recorder: &Recorder, control_mean: Option<f64>) -> Self {
        Self::after(recorder, mser(recorder.batches()), control_mean)
    }

    /// Estimates the mean of everything recorded: a trace has no warm-up.
    pub(super) fn whole(recorder: &Recorder) -> Self {
        Self::after(recorder, 0, None)
    }

    fn after(recorder: &Recorder, warm_up_batches: usize, control_mean: Option<f64>) -> Self {
        let steady = &recorder.batches()[warm_up_batches..];
        if steady.len() < 2 * BATCH_COUNT {
            let (mean, lag_one) = (recorder.mean_overall(), 0.0);
            return Self { mean, half_width: None, warm_up_batches: 0, lag_one, variance_reduction: 1.0 };
        }
        let plain: Vec<f64> = steady.iter().map(|batch| batch.mean).collect();
        let Some(expected) = control_mean else {
            return Self::from_values(&plain, warm_up_batches, BATCH_COUNT - 1);
        };
        let slope = control_slope(steady);
        let controlled: Vec<f64> =
            steady.iter().map(|batch| batch.mean - slope * (batch.control - expected)).collect();
        let without = Self::from_values(&plain, warm_up_batches, BATCH_COUNT - 1);
        let with = Self::from_values(&controlled, warm_up_batches, BATCH_COUNT - 2);
        let ratio = without.half_width.unwrap_or(1.0) / with.half_width.unwrap_or(1.0);
        Self { variance_reduction: ratio * ratio, ..with }
    }

    /// The half-width as a fraction of the mean; infinite when unknown.
    pub(super) fn relative_half_width(&self) -> f64 {
        self.half_width
            .map_or(f64::INFINITY, |half_width| half_width / self.mean.abs().max(f64::MIN_POSITIVE))
    }

    /// True if the batches are long enough to trust the half-width.
    pub(super) fn is_settled(&self) -> bool {
        self.half_width.is_some() && self.lag_one < LAG_ONE_MAX
    }

    fn from_values(values: &[f64], warm_up_batches: usize, degrees: usize) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let width = values.len() / BATCH_COUNT;
        let variance = overlapping_variance(values, mean, width);
        let lag_one = lag_one(values, mean, width);
        // Overlapping batches are worth half as many degrees again (Meketon & Schmeiser 1984).
        let half_width = half_width(variance, 1.5 * degrees as f64, lag_one);
        Self { mean, half_width: Some(half_width), warm_up_batches, lag_one, variance_reduction: 1.0 }
    }
}

/// The half-width of a 95 % confidence interval around an average of this variance. The correlation left between
/// neighbouring batches is allowed for as in Skart (Tafazzoli et al. 2011).
pub(super) fn half_width(variance: f64, degrees: f64, lag_one: f64) -> f64 {
    let correlation = lag_one.clamp(0.0, 0.8);
    student_quantile(0.975, degrees) * (variance * (1.0 + correlation) / (1.0 - correlation)).sqrt()
}

/// The number of batches to drop as warm-up, by MSER (White 1997): the cut within the first half that minimises the
/// standard error of the rest.
fn mser(batches: &[Batch]) -> usize {
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    let (mut best, mut best_cut) = (f64::INFINITY, 0);
    // Sums of deviations from a value inside the data: no cancellation for long runs.
    let origin = batches.last().map_or(0.0, |batch| batch.mean);
    for (cut, batch) in batches.iter().enumerate().rev() {
        let value = batch.mean - origin;
        sum += value;
        squares += value * value;
        count += 1.0;
        let error = (squares - sum * sum / count) / (count * count);
        if cut <= batches.len() / 2 && error <= best {
            (best, best_cut) = (error, cut);
        }
    }
    best_cut
}

/// The variance of the mean by overlapping batches of `width` values.
fn overlapping_variance(values: &[f64], mean: f64, width: usize) -> f64 {
    let count = values.len();
    let mut window: f64 = values[..width].iter().sum();
    let mut squares = (window / width as f64 - mean).powi(2);
    for end in width..count {
        window += values[end] - values[end - width];
        squares += (window / width as f64 - mean).powi(2);
    }
    squares * width as f64 / ((count - width + 1) as f64 * (count - width) as f64)
}

/// The correlation of the means of neighbouring, disjoint batches.
pub(super) fn lag_one(values: &[f64], mean: f64, width: usize) -> f64 {
    let deviations: Vec<f64> =
        values.chunks_exact(width).map(|chunk| chunk.iter().sum::<f64>() / width as f64 - mean).collect();
    let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let squares: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// The regression of batch means on the control variable, over batches long enough to be independent.
fn control_slope(steady: &[Batch]) -> f64 {
    let width = steady.len() / BATCH_COUNT;
    let average = |chunk: &[Batch], of: fn(&Batch) -> f64| chunk.iter().map(of).sum::<f64>() / width as f64;
    let pairs: Vec<(f64, f64)> = steady
        .chunks_exact(width)
        .map(|chunk| (average(chunk, |batch| batch.mean), average(chunk, |batch| batch.control)))
        .collect();
    let count = pairs.len() as f64;
    let mean = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
    let control = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
    let covariance: f64 = pairs.iter().map(|(y, c)| (y - mean) * (c - control)).sum();
    let variance: f64 = pairs.iter().map(|(_, c)| (c - control).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}
