//! Reasons why an estimate has no confidence interval or too wide a one, and the remedy for each.

use super::interval::Interval;

/// Sections whose neighbours correlate more than this are too short to trust.
const LAG_ONE_MAX: f64 = 0.3;
/// Skewness above this is too large for the correction of the interval.
const SKEWNESS_MAX: f64 = 2.5;
/// A run whose earlier and later halves differ by more standard errors than this has not reached steady state.
const DRIFT_MAX: f64 = 3.5;

/// A reason not to trust an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreliable {
    TooFew,
    WarmUp,
    Correlated,
    Skewed,
    Drifting,
    Tail,
}

impl Unreliable {
    /// The reason to distrust an interval that shows in the interval itself.
    pub(super) fn of(interval: &Interval) -> Option<Self> {
        if interval.lag_one > LAG_ONE_MAX {
            Some(Self::Correlated)
        } else if interval.drift.abs() > DRIFT_MAX {
            Some(Self::Drifting)
        } else if interval.skewness.abs() > SKEWNESS_MAX {
            Some(Self::Skewed)
        } else {
            None
        }
    }

    /// Returns true if a longer run is likely to give a reliable interval.
    pub(super) fn needs_longer_run(self) -> bool {
        matches!(self, Self::TooFew | Self::WarmUp | Self::Correlated | Self::Drifting)
    }

    /// Completes the sentence "p95 has not converged: …".
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::TooFew => "too few jobs for an interval; allow more jobs",
            Self::WarmUp => {
                "the run is too short to reach steady state from an empty system; allow more jobs, or use fewer replications"
            }
            Self::Correlated => {
                "response times are correlated over periods as long as the run's sections; allow more jobs"
            }
            Self::Skewed => {
                "a few rare periods of the run dominate it, as with heavy-tailed demands; allow many more jobs"
            }
            Self::Drifting => "it still drifts during the run; allow more jobs",
            Self::Tail => {
                "the rare large demands occurred more or less often than their distribution says; allow many more jobs, or use \
                 another seed"
            }
        }
    }
}
