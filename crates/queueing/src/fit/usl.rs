//! The universal scalability law fitted to measured throughputs: X(n) = γn / (1 + α(n−1) + βn(n−1)).
//!
//! Least squares on X with γ > 0, 0 ≤ α ≤ 1 and β ≥ 0, all three at once. Gunther's transform n/C(n) − 1 would need a
//! measurement at n = 1, divide all others by its error, and might return negative coefficients. Confidence intervals
//! are by profile (Bates & Watts 1988, chapter 6): they stop at the bounds and need not be symmetric.

use serde::Serialize;

use super::FitError;
use super::least_squares::{Minimum, Problem};
use crate::distribution::student_quantile;
use crate::speed::{Speed, SpeedError};

/// The fewest measurements: three parameters and one degree of freedom.
pub const USL_POINTS_MIN: usize = 4;
/// α and β from which the search starts; for each, γ is known.
const STARTS: [f64; 6] = [0.0, 1e-4, 1e-3, 1e-2, 0.1, 0.5];
/// The largest β tried: two jobs run at a twentieth of the pace of one.
const BETA_MAX: f64 = 10.0;
const BISECTIONS: usize = 40;

/// A parameter with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub estimate: f64,
    /// Lower end; the bound of the parameter when the data do not exclude it.
    pub low: f64,
    pub high: f64,
}

/// A fitted universal scalability law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UslFit {
    /// γ: throughput of one job alone, in the unit of the throughputs; the service demand is 1/γ.
    pub gamma: Interval,
    /// α: contention.
    pub alpha: Interval,
    /// β: coherency; when its interval includes 0 the data do not show that throughput ever falls.
    pub beta: Interval,
    /// √((1−α)/β): where throughput peaks; `None` when it never falls.
    pub peak_load: Option<f64>,
    /// Throughput at the peak; with β = 0 the ceiling γ/α; `None` when there is neither.
    pub peak_throughput: Option<f64>,
    /// 1 − residual over total sum of squares.
    pub r_squared: f64,
    /// Standard deviation of a measurement around the curve, in the unit of the throughputs (at weight 1).
    pub residual_standard_deviation: f64,
}

impl UslFit {
    /// Throughput at load n, in the unit of the measured throughputs.
    pub fn throughput(&self, load: f64) -> f64 {
        curve(&[self.gamma.estimate, self.alpha.estimate, self.beta.estimate], load)
    }

    /// The same curve as the speed of a station whose demand is 1/γ.
    ///
    /// # Errors
    /// Never for a fit: α and β are within their bounds.
    pub fn speed(&self) -> Result<Speed, SpeedError> {
        Speed::usl(self.alpha.estimate, self.beta.estimate)
    }
}

/// Fits the curve to `throughputs` at `loads` (jobs, threads, users), with `weights` (1/variance) if they differ.
///
/// # Errors
/// [`FitError`] when the columns differ in length, a value is not positive and finite, or fewer than
/// [`USL_POINTS_MIN`] different loads were measured.
pub fn fit_usl(loads: &[f64], throughputs: &[f64], weights: Option<&[f64]>) -> Result<UslFit, FitError> {
    let ones = vec![1.0; loads.len()];
    let weights = weights.unwrap_or(&ones);
    for column in [throughputs, weights] {
        if column.len() != loads.len() {
            return Err(FitError::Columns { loads: loads.len(), values: column.len() });
        }
    }
    for column in [loads, throughputs, weights] {
        super::positive(column)?;
    }
    let mut different = loads.to_vec();
    different.sort_by(f64::total_cmp);
    different.dedup();
    if different.len() < USL_POINTS_MIN {
        return Err(FitError::TooFewLoads(different.len()));
    }
    let roots: Vec<f64> = weights.iter().map(|weight| weight.sqrt()).collect();
    Ok(Data { loads, throughputs, roots }.fit())
}

fn curve(parameters: &[f64], load: f64) -> f64 {
    let [gamma, alpha, beta] = [parameters[0], parameters[1], parameters[2]];
    gamma * load / (1.0 + (load - 1.0) * (alpha + beta * load)).max(f64::MIN_POSITIVE)
}

struct Data<'d> {
    loads: &'d [f64],
    throughputs: &'d [f64],
    /// Square roots of the weights.
    roots: Vec<f64>,
}

impl Data<'_> {
    fn residuals(&self, parameters: &[f64]) -> Vec<f64> {
        let points = self.loads.iter().zip(self.throughputs).zip(&self.roots);
        points.map(|((load, throughput), root)| root * (curve(parameters, *load) - throughput)).collect()
    }

    fn fit(&self) -> UslFit {
        let best = self.minimise([None; 3], &self.start());
        let freedom = (self.loads.len() - 3) as f64;
        let t = student_quantile(0.975, freedom);
        let threshold = best.squares * (1.0 + t * t / freedom);
        let interval = |index: usize| Interval {
            estimate: best.parameters[index],
            low: self.end(&best, index, threshold, self.low()[index]),
            high: self.end(&best, index, threshold, self.high()[index]),
        };
        let (gamma, alpha, beta) = (best.parameters[0], best.parameters[1], best.parameters[2]);
        let peak_load = (beta > 0.0).then(|| ((1.0 - alpha) / beta).sqrt().max(1.0));
        let ceiling = (alpha > 0.0).then(|| gamma / alpha);
        UslFit {
            gamma: interval(0),
            alpha: interval(1),
            beta: interval(2),
            peak_load,
            peak_throughput: peak_load.map_or(ceiling, |load| Some(curve(&best.parameters, load))),
            r_squared: 1.0 - best.squares / self.total_squares().max(f64::MIN_POSITIVE),
            residual_standard_deviation: (best.squares / freedom).sqrt(),
        }
    }

    fn low(&self) -> [f64; 3] {
        [self.gamma_scale() * 1e-6, 0.0, 0.0]
    }

    fn high(&self) -> [f64; 3] {
        [self.gamma_scale() * 1e6, 1.0, BETA_MAX]
    }

    /// The largest measured throughput per job.
    fn gamma_scale(&self) -> f64 {
        self.throughputs.iter().zip(self.loads).map(|(x, n)| x / n).fold(0.0, f64::max)
    }

    fn total_squares(&self) -> f64 {
        let weight: f64 = self.roots.iter().map(|root| root * root).sum();
        let weighted = |(x, root): (&f64, &f64)| root * root * x;
        let mean = self.throughputs.iter().zip(&self.roots).map(weighted).sum::<f64>() / weight;
        self.throughputs.iter().zip(&self.roots).map(|(x, root)| (root * (x - mean)).powi(2)).sum()
    }

    /// The best of a grid of α and β, γ being a linear regression for each.
    fn start(&self) -> [f64; 3] {
        let candidates = STARTS.iter().flat_map(|alpha| STARTS.iter().map(move |beta| (*alpha, *beta)));
        let with_gamma = |(alpha, beta): (f64, f64)| {
            let unit: Vec<f64> = self.loads.iter().map(|load| curve(&[1.0, alpha, beta], *load)).collect();
            let points = || unit.iter().zip(self.throughputs).zip(&self.roots);
            let product: f64 = points().map(|((u, x), root)| root * root * u * x).sum();
            let square: f64 = points().map(|((u, _), root)| (root * u).powi(2)).sum();
            let parameters = [product / square, alpha, beta];
            (self.residuals(&parameters).iter().map(|r| r * r).sum::<f64>(), parameters)
        };
        let best = candidates.map(with_gamma).min_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or([self.gamma_scale(), 0.0, 0.0], |(_, parameters)| parameters)
    }

    /// The least sum of squares with some parameters held fixed.
    fn minimise(&self, fixed: [Option<f64>; 3], start: &[f64]) -> Minimum {
        let bound = |free: [f64; 3]| (0..3).map(|index| fixed[index].unwrap_or(free[index])).collect();
        let problem = Problem {
            residuals: &|parameters| self.residuals(parameters),
            low: bound(self.low()),
            high: bound(self.high()),
            scale: vec![self.gamma_scale(), 0.1, 0.01],
        };
        let start: Vec<f64> = (0..3).map(|index| fixed[index].unwrap_or(start[index])).collect();
        problem.minimise(&start)
    }

    /// The end of a confidence interval: moves towards `bound` until the best fit with the parameter held there becomes
    /// worse than `threshold`.
    fn end(&self, best: &Minimum, index: usize, threshold: f64, bound: f64) -> f64 {
        let worse = |value: f64| {
            let mut fixed = [None; 3];
            fixed[index] = Some(value);
            self.minimise(fixed, &best.parameters).squares > threshold
        };
        if !worse(bound) {
            return bound;
        }
        let (mut inside, mut outside) = (best.parameters[index], bound);
        for _ in 0..BISECTIONS {
            let middle = (inside + outside) / 2.0;
            if worse(middle) { outside = middle } else { inside = middle }
        }
        inside
    }
}
