//! Limited processor sharing, M/G/1/PS with at most r jobs in service: Eq. 2.1 and 2.2 of the thesis,
//! after Avi-Itzhak & Halfin (ITC-12, 1989).
//!
//! Written as `E[R|x]` = (x + ρʳ (mₑ − x)) / (1−ρ) with mₑ = `E[S²]`/2`E[S]`. This form shows which jobs a larger r
//! makes faster: those with x < mₑ. The printed Eq. 2.2 lacks the dispatcher's latency Δ; here it is added to every
//! response. The equation is an approximation in general; [`Validity`] bounds its error.

use serde::Serialize;

use super::{ClosedFormError, Mg1};

/// An LPS station: r = 1 is FIFO, r = ∞ ([`None`]) is PS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lps {
    station: Mg1,
    limit: Option<u32>,
    delta: f64,
}

impl Lps {
    /// `limit` is r, the most jobs in service (`None` for no limit); `delta` seconds are added to every response.
    ///
    /// # Errors
    /// When `limit` is 0 or `delta` is negative or not finite.
    pub fn new(station: Mg1, limit: Option<u32>, delta: f64) -> Result<Self, ClosedFormError> {
        if limit == Some(0) {
            return Err(ClosedFormError::Parameter { name: "r", requirement: "at least 1", value: 0.0 });
        }
        if !(delta.is_finite() && delta >= 0.0) {
            let requirement = "non-negative and finite";
            return Err(ClosedFormError::Parameter { name: "delta", requirement, value: delta });
        }
        Ok(Self { station, limit, delta })
    }

    /// The M/G/1 station underneath, without the limit.
    pub fn station(&self) -> &Mg1 {
        &self.station
    }

    /// r; `None` without a limit.
    pub fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// `E[R]`, Eq. 2.2 with Δ.
    pub fn mean_response_time(&self) -> f64 {
        self.conditional_mean(self.station.mean_demand())
    }

    /// `E[R | S = x]`, Eq. 2.1. Its slope for large jobs is too small; see
    /// [`Lps::conditional_slope_asymptotic`].
    pub fn conditional_mean(&self, demand: f64) -> f64 {
        let (full, not_full) = self.probability_full();
        let idle = 1.0 - self.station.utilisation();
        (full * self.station.mean_residual() + not_full * demand) / idle + self.delta
    }

    /// `E[W]`, the mean wait before service starts, without Δ.
    pub fn mean_wait(&self) -> f64 {
        let (full, _) = self.probability_full();
        full * self.station.mean_residual() / (1.0 - self.station.utilisation())
    }

    /// The true slope of `E[R|x]` for large x: min(r, 1/(1−ρ)). A job that stays for ever beside r−1 others is served
    /// at rate 1/r if the others saturate the station, and at 1−ρ if they do not. The slope of Eq. 2.1, (1−ρʳ)/(1−ρ),
    /// is smaller.
    pub fn conditional_slope_asymptotic(&self) -> f64 {
        let unlimited = 1.0 / (1.0 - self.station.utilisation());
        self.limit.map_or(unlimited, |limit| unlimited.min(f64::from(limit)))
    }

    /// The mean response time in heavy traffic, where the workload is exponential (Zhang & Zwart, Queueing Systems 60,
    /// 2008; this closed expression is our reconstruction). It errs low where Eq. 2.2 errs high, so the two bracket
    /// the mean.
    pub fn heavy_traffic_mean_response_time(&self) -> f64 {
        let (rho, mean) = (self.station.utilisation(), self.station.mean_demand());
        let Some(limit) = self.limit.filter(|_| rho > 0.0) else {
            return self.station.ps_mean_response_time() + self.delta;
        };
        let theta = f64::from(limit) * (1.0 - rho) / rho;
        let beyond = (-theta).exp() * self.station.mean_residual();
        (beyond - (-theta).exp_m1() * mean) / (1.0 - rho) + self.delta
    }

    /// The error to expect of [`Lps::mean_response_time`].
    pub fn validity(&self) -> Validity {
        Validity::of(self)
    }

    /// ρʳ and 1 − ρʳ, without cancellation for ρ near 1 and without underflow surprises for large r.
    fn probability_full(&self) -> (f64, f64) {
        let rho = self.station.utilisation();
        let Some(limit) = self.limit.filter(|_| rho > 0.0) else {
            return (0.0, 1.0);
        };
        // ln ρ by way of ln(1 + (ρ − 1)): the argument is exact near 1.
        let exponent = f64::from(limit) * (rho - 1.0).ln_1p();
        (exponent.exp(), -exponent.exp_m1())
    }
}

/// The error to expect of [`Lps::mean_response_time`], from comparison with exact phase-type results and long
/// simulations. Eq. 2.2 is exact for r = 1, for r = ∞ and for exponential demand. Elsewhere its error is mostly
/// positive (pessimistic), grows with C² and vanishes as ρ → 1. The bounds are the worst seen over ρ 0.5–0.9 and r
/// 2–16, rounded up: evidence, not a theorem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validity {
    pub exact: bool,
    /// The largest relative error to expect, as a fraction; `None` where it was not measured (C² > 25).
    pub relative_error_max: Option<f64>,
    /// The same in words, with what to use instead.
    pub note: String,
}

/// Pairs of the largest C² and the largest relative error of the mean up to it.
const ERROR_BY_SCV: [(f64, f64); 5] = [(1.0, 0.01), (2.0, 0.015), (4.0, 0.04), (11.0, 0.20), (25.0, 0.25)];

impl Validity {
    fn of(lps: &Lps) -> Self {
        let scv = lps.station().scv();
        if lps.limit().is_none() || lps.limit() == Some(1) {
            let name = if lps.limit().is_none() { "PS (r unlimited)" } else { "FIFO (r = 1)" };
            return Self { exact: true, relative_error_max: Some(0.0), note: format!("exact: {name}") };
        }
        let bound = ERROR_BY_SCV.iter().find(|(scv_max, _)| scv <= *scv_max).map(|(_, error)| *error);
        let note = match bound {
            Some(bound) => format!(
                "approximate: C² = {scv:.3}, mean within about {:.1} % (mostly high); exact if the demand is \
                 exponential; conditional means of the largest jobs are too low",
                bound * 100.0
            ),
            None => format!("C² = {scv:.1} is beyond the range checked (25): simulate"),
        };
        Self { exact: false, relative_error_max: bound, note }
    }
}
