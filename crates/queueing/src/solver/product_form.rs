//! Product-form weights of a station, as logarithms, for the open and the load-dependent solver.
//!
//! n jobs at a processor-sharing station of speed v weigh (work)ⁿ / Π v(j), j = 1 … n, whatever the distribution of
//! demand. With at most r jobs in service the station is taken as PS at v(min(j, r)): exact for exponential demand or
//! fewer jobs than r.

use crate::station::Service;

/// The most open jobs that are summed over: more would need a load within 1e-5 of saturation.
const OPEN_JOBS_MAX: usize = 2_000_000;
/// The fraction that the sum over open jobs may leave out.
const TAIL: f64 = 1e-13;
/// Terms further below the largest than this (in logarithms) vanish in a double.
const LOG_NEGLIGIBLE: f64 = 40.0;

/// Weights of a station with 0 … N closed jobs and any number of open ones.
pub(super) struct Weights {
    /// ln of the weight of n closed jobs, summed over the open ones.
    pub(super) closed: Vec<f64>,
    /// Mean open jobs beside n closed ones.
    pub(super) open: Vec<f64>,
}

impl Weights {
    /// `demand` is that of a closed job in seconds; `work` is the work of open classes per second.
    pub(super) fn new(demand: f64, work: f64, service: &Service, users: usize) -> Result<Self, String> {
        let speed = |jobs: usize| service.speed.at(jobs.min(service.limit));
        let mut weights = Self { closed: Vec::with_capacity(users + 1), open: Vec::with_capacity(users + 1) };
        let mut log_weight = 0.0;
        for jobs in 0..=users {
            if jobs > 0 {
                log_weight += (demand / speed(jobs)).ln();
            }
            let (log_factor, present) = open_jobs(work, jobs, &speed)?;
            weights.closed.push(log_weight + log_factor);
            weights.open.push(present);
        }
        Ok(weights)
    }
}

/// P(n jobs), n = 0 … K, at an open station that is offered `work` per second and refuses jobs beyond K.
pub(super) fn finite_levels(work: f64, service: &Service, capacity: usize) -> Vec<f64> {
    let mut logarithms = Vec::with_capacity(capacity + 1);
    logarithms.push(0.0_f64);
    for jobs in 1..=capacity {
        logarithms.push(logarithms[jobs - 1] + (work / service.speed.at(jobs.min(service.limit))).ln());
    }
    let top = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Mean jobs present at an open station that receives `work` per second.
pub(super) fn open_mean(work: f64, service: &Service) -> Result<f64, String> {
    open_jobs(work, 0, &|jobs| service.speed.at(jobs.min(service.limit))).map(|found| found.1)
}

/// Mean jobs in service and mean jobs that wait at an open, stable station with a limit r that receives `work` per
/// second.
pub(super) fn open_limited(work: f64, service: &Service) -> Result<(f64, f64), String> {
    let limit = service.limit;
    if limit > OPEN_JOBS_MAX {
        return Ok((open_mean(work, service)?, 0.0));
    }
    let ratio = work / service.speed.at(limit);
    let levels = finite_levels(work, service, limit);
    // Beyond r the speed stays, so each further job is as much less likely.
    let beyond = levels[limit] * ratio / (1.0 - ratio);
    let in_service: f64 = levels.iter().enumerate().map(|(jobs, level)| jobs as f64 * level).sum();
    let total = 1.0 + beyond;
    Ok(((in_service + limit as f64 * beyond) / total, beyond / (1.0 - ratio) / total))
}

/// ln Σ_m C(n+m, m) workᵐ / Π_{j=n+1}^{n+m} v(j), and the mean of m under these weights.
fn open_jobs(work: f64, beside: usize, speed: &dyn Fn(usize) -> f64) -> Result<(f64, f64), String> {
    if work == 0.0 {
        return Ok((0.0, 0.0));
    }
    let (mut term, mut sum, mut weighted, mut scale) = (1.0_f64, 1.0_f64, 0.0_f64, 0.0_f64);
    for jobs in 1..OPEN_JOBS_MAX {
        let all = beside + jobs;
        let ratio = work * all as f64 / jobs as f64 / speed(all);
        term *= ratio;
        sum += term;
        weighted += jobs as f64 * term;
        // Large numbers of jobs may be likelier than the empty station; rescaling keeps the sums within a double.
        if sum > 1e200 {
            scale += sum.ln();
            (term, weighted, sum) = (term / sum, weighted / sum, 1.0);
        }
        let left = term * ratio / (1.0 - ratio);
        if ratio < 1.0 && jobs as f64 * left < TAIL * weighted {
            return Ok((scale + sum.ln(), weighted / sum));
        }
    }
    Err("the load is too close to saturation: simulate".to_owned())
}

/// ln Σ exp.
pub(super) fn log_sum<const N: usize>(terms: [f64; N]) -> f64 {
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + terms.iter().map(|term| (term - top).exp()).sum::<f64>().ln()
}

/// ln of the convolution of two sequences given as logarithms, as long as the first.
pub(super) fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let at = |jobs: usize| {
        let terms = || a[..=jobs].iter().zip(b[..=jobs].iter().rev()).map(|(x, y)| x + y);
        let top = terms().fold(f64::NEG_INFINITY, f64::max);
        if top == f64::NEG_INFINITY {
            return top;
        }
        let sum: f64 =
            terms().filter(|term| *term > top - LOG_NEGLIGIBLE).map(|term| (term - top).exp()).sum();
        top + sum.ln()
    };
    (0..a.len()).map(at).collect()
}
