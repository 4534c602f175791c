//! The end of a server's patience with everybody, once it is told to stop.
//!
//! Whoever has just connected, or has a request on its way to a kept connection, is given a moment: to close at once
//! would fail requests that their clients had every reason to send. After its next response a connection ends anyway.

use std::time::Duration;

use crate::limits::Limits;

/// Until when those who are still there are served.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    until: Duration,
    idle_until: Duration,
}

impl Drain {
    /// The stop is noticed at `now`.
    pub fn begin(now: Duration, limits: &Limits) -> Drain {
        let until = now.saturating_add(limits.drain);
        Drain { until, idle_until: now.saturating_add(limits.drain_idle).min(until) }
    }

    /// When everybody goes.
    pub fn until(&self) -> Duration {
        self.until
    }

    /// When those go who have no request in progress.
    pub fn idle_until(&self) -> Duration {
        self.idle_until
    }

    /// Returns true if everybody goes.
    pub fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// Returns true if those go who have no request in progress.
    pub fn is_over_for_idle(&self, now: Duration) -> bool {
        now >= self.idle_until
    }
}
