//! Mean and percentiles of the response times after the warm-up, each with its half-width.
//!
//! Percentiles by sectioning (Asmussen & Glynn 2007, III.5): the run is cut into sections, and the spread of the
//! sections' quantiles around the overall quantile gives the half-width, widened by the correlation of neighbours.

use super::estimate::{Estimate, half_width, lag_one};
use super::histogram::Histogram;
use super::recorder::Recorder;
use super::result::{ResponseTime, Target};
use super::sequential::Look;

/// Sections are merged until there are fewer than twice as many: long sections are nearly independent.
const SECTIONS: usize = 16;
/// The fewest sections for a half-width.
const SECTIONS_MIN: usize = 8;
/// The fewest observations beyond a percentile, per section.
const BEYOND_MIN: f64 = 10.0;

/// Mean and percentiles; `delta` seconds are added to each.
pub(super) fn response_time(recorder: &Recorder, estimate: &Estimate, delta: f64) -> ResponseTime {
    let sections = sections(recorder.segments_after(estimate.warm_up_batches));
    let mut all = recorder.unfinished().clone();
    sections.iter().for_each(|section| all.merge(section));
    let quantile = |p: f64| all.quantile(p) + delta;
    let half_width = |p: f64| half_width_of(&sections, p, all.quantile(p));
    ResponseTime {
        mean: estimate.mean + delta,
        p50: quantile(0.5),
        p90: quantile(0.9),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: if all.total() == 0 { 0.0 } else { all.max() + delta },
        mean_half_width: estimate.half_width,
        p50_half_width: half_width(0.5),
        p90_half_width: half_width(0.9),
        p95_half_width: half_width(0.95),
        p99_half_width: half_width(0.99),
        p999_half_width: half_width(0.999),
    }
}

/// The target's current estimate.
pub(super) fn look(recorder: &Recorder, estimate: &Estimate, delta: f64, target: Target) -> Look {
    let settled = estimate.is_settled();
    if target == Target::Mean {
        let (value, relative_half_width) = (estimate.mean + delta, estimate.relative_half_width());
        return Look { value, relative_half_width, settled };
    }
    let response = response_time(recorder, estimate, delta);
    let relative_half_width = response.relative_half_width(target).unwrap_or(f64::INFINITY);
    Look { value: response.target(target).0, relative_half_width, settled }
}

fn sections(segments: &[Histogram]) -> Vec<Histogram> {
    let merged = |chunk: &[Histogram]| {
        let mut section = chunk[0].clone();
        chunk[1..].iter().for_each(|segment| section.merge(segment));
        section
    };
    segments.chunks((segments.len() / SECTIONS).max(1)).map(merged).collect()
}

fn half_width_of(sections: &[Histogram], p: f64, overall: f64) -> Option<f64> {
    let enough = |section: &Histogram| section.total() as f64 * (1.0 - p) >= BEYOND_MIN;
    if sections.len() < SECTIONS_MIN || !sections.iter().all(enough) {
        return None;
    }
    let quantiles: Vec<f64> = sections.iter().map(|section| section.quantile(p)).collect();
    let count = quantiles.len() as f64;
    // Around the quantile of all, not the average of the sections': their common bias belongs to the error.
    let squares: f64 = quantiles.iter().map(|quantile| (quantile - overall).powi(2)).sum();
    let correlation = lag_one(&quantiles, overall, 1);
    Some(half_width(squares / (count - 1.0) / count, count - 1.0, correlation))
}
