//! Limited processor sharing, M/G/1/PS with at most r jobs in service: Eq. 2.1 and 2.2 of the thesis,
//! after Avi-Itzhak & Halfin (ITC-12, 1989).
//!
//! Written as `E[R|x]` = (x + ρʳ (mₑ − x)) / (1−ρ) with mₑ = `E[S²]`/2`E[S]`, which shows who gains from a larger
//! r: exactly the jobs with x < mₑ. The dispatcher's latency Δ is missing from the printed Eq. 2.2; here it
//! is added to every response alike. Approximate in general; [`Validity`] says how far.

use super::{ClosedFormError, Mg1, Validity};

/// An LPS station: r = 1 is FIFO, r = ∞ ([`None`]) is PS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lps {
    station: Mg1,
    limit: Option<u32>,
    delta: f64,
}

impl Lps {
    /// `limit` is r, the most jobs in service (`None`: no limit); `delta` is added to every response.
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

    /// The same station without a limit on the jobs in service.
    pub fn station(&self) -> &Mg1 {
        &self.station
    }

    /// r, or `None` without a limit.
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

    /// `E[W]`: the wait before entering service, without Δ.
    pub fn mean_wait(&self) -> f64 {
        let (full, _) = self.probability_full();
        full * self.station.mean_residual() / (1.0 - self.station.utilisation())
    }

    /// The true slope of `E[R|x]` as x grows: min(r, 1/(1−ρ)). A job that stays for ever beside r−1 others is
    /// served at 1/r if those saturate, and at 1−ρ if they do not. Eq. 2.1 has (1−ρʳ)/(1−ρ), which is less.
    pub fn conditional_slope_asymptotic(&self) -> f64 {
        let unlimited = 1.0 / (1.0 - self.station.utilisation());
        self.limit.map_or(unlimited, |limit| unlimited.min(f64::from(limit)))
    }

    /// The heavy-traffic mean: the workload is exponential and N follows from it (Zhang & Zwart, Queueing
    /// Systems 60, 2008; this closed expression is our reconstruction). Errs low where Eq. 2.2 errs high.
    pub fn heavy_traffic_mean_response_time(&self) -> f64 {
        let (rho, mean) = (self.station.utilisation(), self.station.mean_demand());
        let Some(limit) = self.limit.filter(|_| rho > 0.0) else {
            return self.station.ps_mean_response_time() + self.delta;
        };
        let theta = f64::from(limit) * (1.0 - rho) / rho;
        let beyond = (-theta).exp() * self.station.mean_residual();
        (beyond - (-theta).exp_m1() * mean) / (1.0 - rho) + self.delta
    }

    /// How far to trust [`Lps::mean_response_time`].
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
