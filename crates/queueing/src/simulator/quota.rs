//! A processor limited to a part of each period, as a control group's CPU quota limits it.
//!
//! The station works at full speed until the work of a period reaches the quota, and then stands still until the period
//! ends: light loads feel nothing of the limit. [`Pace`] keeps the station's own clock, which stops meanwhile.

use super::SimulationError;

/// Seconds of work allowed per period of the given length. Unused quota is lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota {
    pub seconds: f64,
    pub period_seconds: f64,
}

impl Quota {
    pub(super) fn validate(&self) -> Result<(), SimulationError> {
        let check = |name, value: f64| {
            let requirement = "above 0 and finite";
            let fits = value > 0.0 && value.is_finite();
            if fits { Ok(()) } else { Err(SimulationError::Parameter { name, requirement, value }) }
        };
        check("quota", self.seconds)?;
        check("period", self.period_seconds)
    }
}

/// Tracks the station's own clock beside real time, in seconds.
pub(super) struct Pace {
    quota: Option<Quota>,
    /// The lag of the station's clock behind real time.
    behind: f64,
    stopped_at: Option<f64>,
    period_end: f64,
    /// The station's work when the period began.
    work_at_start: f64,
}

impl Pace {
    pub(super) fn new(quota: Option<Quota>) -> Self {
        Self { quota, behind: 0.0, stopped_at: None, period_end: 0.0, work_at_start: 0.0 }
    }

    /// Converts real time to the station's time.
    pub(super) fn own(&self, now: f64) -> f64 {
        self.stopped_at.map_or(now, |stopped| stopped.min(now)) - self.behind
    }

    /// The real time at which the station's clock will show `own` unless it stops before; infinite while it stands
    /// still.
    pub(super) fn real(&self, own: f64) -> f64 {
        if self.stopped_at.is_some() { f64::INFINITY } else { own + self.behind }
    }

    /// The next time at which a busy station, having done `work` by `now`, exhausts its quota or resumes; infinite
    /// without a quota.
    pub(super) fn next_turn(&self, now: f64, work: f64) -> f64 {
        match (self.quota, self.stopped_at) {
            (None, _) => f64::INFINITY,
            (Some(_), Some(_)) => self.period_end,
            (Some(quota), None) => {
                self.period_end.min(now + (quota.seconds - (work - self.work_at_start)).max(0.0))
            }
        }
    }

    /// Stops or resumes the station at the time given by [`Pace::next_turn`].
    pub(super) fn turn(&mut self, now: f64, work: f64) {
        if now < self.period_end {
            self.stopped_at = Some(now);
            return;
        }
        if let Some(stopped) = self.stopped_at.take() {
            self.behind += now - stopped;
        }
        self.begin_period(now, work);
    }

    /// Restarts an idle station when a job arrives, skipping the periods that have passed.
    pub(super) fn wake(&mut self, now: f64, work: f64) {
        if self.stopped_at.is_none() && now >= self.period_end {
            self.begin_period(now, work);
        }
    }

    fn begin_period(&mut self, now: f64, work: f64) {
        let Some(quota) = self.quota else { return };
        self.work_at_start = work;
        // Periods follow one another from time 0, with or without work.
        self.period_end = ((now / quota.period_seconds).floor() + 1.0) * quota.period_seconds;
        if self.period_end <= now {
            self.period_end += quota.period_seconds;
        }
    }
}
