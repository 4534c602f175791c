//! A distribution of sizes: moments, quantiles, its distribution function as points, and two fits.

use serde::Serialize;

use super::fit::{self, LogNormalFit, ParetoFit};
use super::weighted_sample::WeightedSample;

/// Neighbouring points of the CDF are at most this fraction of the sample apart, where the sizes allow it.
const CDF_STEP: f64 = 0.005;

/// In the tail, each point leaves this fraction of what lay above the previous one.
const CDF_TAIL_RATIO: f64 = 0.9;

/// A distribution of document sizes, each weighted by its count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeDistribution {
    pub count: u64,
    /// The number of zero sizes, which no fit includes.
    pub zero_count: u64,
    pub mean_bytes: f64,
    /// C²: variance over squared mean.
    pub squared_coefficient_of_variation: f64,
    /// Sizes at fixed quantiles.
    pub quantiles_bytes: SizeQuantiles,
    /// A few hundred points of the CDF.
    pub cdf: Vec<CdfPoint>,
    pub log_normal: Option<LogNormalFit>,
    pub pareto_tail: Option<ParetoFit>,
}

/// Sizes that the given shares of the sample do not exceed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeQuantiles {
    pub min: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p25: u64,
    pub p50: u64,
    pub p75: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// A point of a distribution function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CdfPoint {
    pub size_bytes: u64,
    /// The fraction of sizes up to this one.
    pub fraction: f64,
}

impl SizeDistribution {
    pub fn new(sizes: impl Iterator<Item = (u64, u64)>) -> Self {
        let sample = WeightedSample::new(sizes);
        let mean_bytes = sample.mean(|size_bytes| size_bytes);
        let variance = sample.mean(|size_bytes| (size_bytes - mean_bytes).powi(2));
        SizeDistribution {
            count: sample.total,
            zero_count: sample.pairs.first().filter(|pair| pair.0 == 0).map_or(0, |pair| pair.1),
            mean_bytes,
            squared_coefficient_of_variation: if mean_bytes > 0.0 {
                variance / mean_bytes.powi(2)
            } else {
                0.0
            },
            quantiles_bytes: quantiles(&sample),
            cdf: cdf(&sample),
            log_normal: fit::log_normal(&sample),
            pareto_tail: fit::pareto_tail(&sample),
        }
    }
}

fn quantiles(sample: &WeightedSample) -> SizeQuantiles {
    let q = |fraction| sample.quantile(fraction);
    SizeQuantiles {
        min: q(0.0),
        p1: q(0.01),
        p5: q(0.05),
        p10: q(0.1),
        p25: q(0.25),
        p50: q(0.5),
        p75: q(0.75),
        p90: q(0.9),
        p95: q(0.95),
        p99: q(0.99),
        p999: q(0.999),
        max: q(1.0),
    }
}

fn cdf(sample: &WeightedSample) -> Vec<CdfPoint> {
    let mut points: Vec<CdfPoint> = Vec::new();
    let mut below = 0;
    for &(size_bytes, weight) in &sample.pairs {
        below += weight;
        let fraction = below as f64 / sample.total as f64;
        let last = points.last().map_or(0.0, |point| point.fraction);
        let far = fraction - last >= CDF_STEP || 1.0 - fraction <= CDF_TAIL_RATIO * (1.0 - last);
        if points.is_empty() || far {
            points.push(CdfPoint { size_bytes, fraction });
        }
    }
    points
}
