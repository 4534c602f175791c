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

    /// ρʳ and 1 − ρʳ, accurate for ρ near 1 and for large r.
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

/// How far [`Lps::mean_response_time`] can be off. Eq. 2.2 is exact for r = 1, for r = ∞ and for exponential demand.
/// Elsewhere it is too high, more so the rarer and larger the demands are that make C²; never lower than by one per cent in
/// any case compared. Found by comparison with exact phase-type results and long simulations: evidence, not a theorem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validity {
    pub exact: bool,
    /// The largest relative error of any law with this C², as a fraction: that of a constant demand beside ever rarer and
    /// larger ones.
    pub relative_error_max: f64,
    /// The largest that a sweep over log-normal, bounded Pareto, hyper-exponential and two-valued demands found, ρ 0.3 to
    /// 0.9 and r 2 to 16; `None` where C² was not in it (above 25).
    pub relative_error_found: Option<f64>,
    /// The same in words, with the tool to use instead.
    pub note: String,
}

/// Pairs of the largest C² and the largest relative error that was found up to it.
const FOUND_BY_SCV: [(f64, f64); 7] =
    [(0.5, 0.02), (1.0, 0.05), (2.0, 0.12), (4.0, 0.16), (8.0, 0.28), (12.0, 0.40), (25.0, 0.55)];
/// Even for a constant demand Eq. 2.2 is off by this.
const ERROR_OF_A_CONSTANT: f64 = 0.01;

impl Validity {
    fn of(lps: &Lps) -> Self {
        match lps.limit() {
            None => Self::exact("exact: PS (r unlimited)"),
            Some(1) => Self::exact("exact: FIFO (r = 1)"),
            Some(limit) => Self::of_limit(lps.station().utilisation(), lps.station().scv(), limit),
        }
    }

    fn exact(note: &str) -> Self {
        let note = note.to_owned();
        Self { exact: true, relative_error_max: 0.0, relative_error_found: Some(0.0), note }
    }

    /// For 1 < `limit` < ∞, whatever the law.
    pub(crate) fn of_limit(utilisation: f64, scv: f64, limit: u32) -> Self {
        let r = f64::from(limit);
        // A huge job holds one of r places. Only if r − 1 places cannot take the rest does the queue grow with the job, by
        // this share of what FIFO would have; Eq. 2.2 says by ρʳ.
        let held = (1.0 - r * (1.0 - utilisation)).max(0.0);
        let full = utilisation.powf(r);
        let constant = full / 2.0 + 1.0 - full;
        let most = (constant + full * scv / 2.0) / (constant + held * scv / 2.0) - 1.0;
        let relative_error_max = most.max(0.0) + ERROR_OF_A_CONSTANT;
        let found = FOUND_BY_SCV.iter().find(|(scv_max, _)| scv <= *scv_max);
        let relative_error_found = found.map(|(_, error)| error.min(relative_error_max));
        let mut validity =
            Self { exact: false, relative_error_max, relative_error_found, note: String::new() };
        validity.note = format!(
            "approximate: C² = {scv:.3}, {}; exact if the demand is exponential; conditional means of the largest jobs \
             are too low",
            validity.range()
        );
        validity
    }

    /// The range of the mean's error in words.
    pub(crate) fn range(&self) -> String {
        let most = 100.0 * self.relative_error_max;
        match self.relative_error_found {
            Some(found) if found < self.relative_error_max => format!(
                "mean too high by at most {:.0} % in a sweep of laws, by up to {most:.0} % where large demands are rarer",
                100.0 * found
            ),
            _ => format!("mean too high by at most {most:.1} %"),
        }
    }
}
