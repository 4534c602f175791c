//! When a processor is slower, or stands still: its quota is used up, or something else has taken it.
//!
//! With a [`Quota`] the station works at full speed until the work of a period reaches the quota, and then stands still
//! until the period ends: light loads feel nothing of the limit. During an [`Interruption`] it stands still whatever it
//! has to do. After a [`SpeedChange`] it needs more or less time for the same work: on a virtual machine, what the
//! neighbours do changes it by tens of per cent. [`Pace`] keeps the station's own clock, which stops meanwhile.

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

/// A span in which the processor works for somebody else, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interruption {
    pub begin: f64,
    pub end: f64,
}

/// Interruptions in order of their begin, as time passes them. Only time that does not go back may be asked about.
pub(super) struct Interruptions {
    spans: Vec<Interruption>,
    passed: usize,
}

impl Interruptions {
    /// # Errors
    /// [`SimulationError`] when one is not finite, ends before it begins, or begins before the previous one.
    pub(super) fn new(mut spans: Vec<Interruption>) -> Result<Self, SimulationError> {
        let mut latest = f64::NEG_INFINITY;
        for span in &spans {
            let is_span = span.begin.is_finite() && span.end.is_finite() && span.end >= span.begin;
            if !is_span || span.begin < latest {
                let requirement = "finite, in order, and no end before its begin";
                return Err(SimulationError::Parameter {
                    name: "interruption",
                    requirement,
                    value: span.begin,
                });
            }
            latest = span.begin;
        }
        spans.retain(|span| span.end > span.begin);
        Ok(Self { spans, passed: 0 })
    }

    /// The begin of the next one; infinite without one.
    fn next_begin(&self) -> f64 {
        self.spans.get(self.passed).map_or(f64::INFINITY, |span| span.begin)
    }

    /// The end of the interruptions that are under way at `now`; `now` if there are none.
    pub(super) fn over_at(&mut self, now: f64) -> f64 {
        let mut end = now;
        while self.next_begin() <= end {
            end = end.max(self.spans[self.passed].end);
            self.passed += 1;
        }
        end
    }

    /// The time at which `seconds` of work are done that begin at `from` and stand still meanwhile.
    pub(super) fn done_at(&mut self, from: f64, seconds: f64) -> f64 {
        let mut done = self.over_at(from) + seconds;
        while self.next_begin() < done {
            let span = self.spans[self.passed];
            done += span.end - span.begin;
            self.passed += 1;
        }
        done
    }
}

/// From `begin` on, in seconds, the processor works at so many times its usual speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedChange {
    pub begin: f64,
    pub speed: f64,
}

/// The speed of a processor as time passes: its usual one before the first change. Only time that does not go back may be
/// asked about.
pub(super) struct Speeds {
    changes: Vec<SpeedChange>,
    passed: usize,
}

impl Speeds {
    /// # Errors
    /// [`SimulationError`] when a change is not finite, not above 0, or comes before the previous one.
    pub(super) fn new(changes: Vec<SpeedChange>) -> Result<Self, SimulationError> {
        let mut latest = f64::NEG_INFINITY;
        for change in &changes {
            let is_speed = change.speed.is_finite() && change.speed > 0.0;
            if !(is_speed && change.begin.is_finite() && change.begin >= latest) {
                let requirement = "finite, above 0, and in order of its begin";
                return Err(SimulationError::Parameter { name: "speed", requirement, value: change.speed });
            }
            latest = change.begin;
        }
        Ok(Self { changes, passed: 0 })
    }

    /// The time that work needs which begins at `now` and takes `seconds` at the usual speed.
    pub(super) fn seconds_for(&mut self, now: f64, seconds: f64) -> f64 {
        while self.changes.get(self.passed).is_some_and(|change| change.begin <= now) {
            self.passed += 1;
        }
        match self.passed.checked_sub(1) {
            Some(last) => seconds / self.changes[last].speed,
            None => seconds,
        }
    }
}

/// Tracks the station's own clock beside real time, in seconds.
pub(super) struct Pace {
    quota: Option<Quota>,
    interruptions: Interruptions,
    /// The lag of the station's clock behind real time.
    behind: f64,
    stopped: Option<Stopped>,
    period_end: f64,
    /// The station's work when the period began.
    work_at_start: f64,
}

#[derive(Clone, Copy)]
struct Stopped {
    at: f64,
    until: f64,
}

impl Pace {
    pub(super) fn new(quota: Option<Quota>, interruptions: Interruptions) -> Self {
        Self { quota, interruptions, behind: 0.0, stopped: None, period_end: 0.0, work_at_start: 0.0 }
    }

    /// Converts real time to the station's time.
    pub(super) fn own(&self, now: f64) -> f64 {
        self.stopped.map_or(now, |stopped| stopped.at.min(now)) - self.behind
    }

    /// The real time at which the station's clock will show `own` unless it stops before; infinite while it stands
    /// still.
    pub(super) fn real(&self, own: f64) -> f64 {
        if self.stopped.is_some() { f64::INFINITY } else { own + self.behind }
    }

    /// The next time at which a busy station, having done `work` by `now`, stops, resumes, or begins a period.
    pub(super) fn next_change(&self, now: f64, work: f64) -> f64 {
        if let Some(stopped) = self.stopped {
            return stopped.until;
        }
        let quota = self.quota.map_or(f64::INFINITY, |quota| {
            self.period_end.min(now + (quota.seconds - (work - self.work_at_start)).max(0.0))
        });
        quota.min(self.interruptions.next_begin().max(now))
    }

    /// Stops or resumes the station at the time given by [`Pace::next_change`].
    pub(super) fn change(&mut self, now: f64, work: f64) {
        let was_stopped = self.stopped.take().inspect(|stopped| self.behind += now - stopped.at).is_some();
        let mut until = self.interruptions.over_at(now);
        if now >= self.period_end {
            self.begin_period(now, work);
        } else if !was_stopped && until == now {
            // Nothing else stops a running station within a period: the quota is used up.
            until = self.period_end;
        }
        self.stop(now, until);
    }

    /// Restarts an idle station when a job arrives, skipping the periods and the interruptions that have passed.
    pub(super) fn wake(&mut self, now: f64, work: f64) {
        if self.stopped.is_some() {
            return;
        }
        if now >= self.period_end {
            self.begin_period(now, work);
        }
        let until = self.interruptions.over_at(now);
        self.stop(now, until);
    }

    fn stop(&mut self, now: f64, until: f64) {
        if until > now {
            self.stopped = Some(Stopped { at: now, until });
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
