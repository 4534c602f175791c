//! How far Eq. 2.2 can be off, from comparison with exact phase-type results and long simulations.
//!
//! The equation is exact for r = 1, for r = ∞ and for exponential demand; otherwise its error is mostly
//! positive (pessimistic), grows with C² and vanishes as ρ → 1. The bounds are the worst seen over ρ 0.5–0.9
//! and r 2–16, rounded up; they are evidence, not a theorem.

use serde::Serialize;

use super::Lps;

/// The verdict on the mean response time of [`Lps`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validity {
    /// Whether the mean is exact.
    pub exact: bool,
    /// The largest relative error to expect, as a fraction; `None` where nothing is known (C² > 25).
    pub relative_error_max: Option<f64>,
    /// In words, with what to use instead.
    pub note: String,
}

/// (C² up to, largest relative error of the mean).
const ERROR_BY_SCV: [(f64, f64); 5] = [(1.0, 0.01), (2.0, 0.015), (4.0, 0.04), (11.0, 0.20), (25.0, 0.25)];

impl Validity {
    pub(super) fn of(lps: &Lps) -> Self {
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
