//! Draining: the deadlines of all connections once the server is told to stop.
//!
//! New connections, and kept ones whose next request may be on its way, have a moment: closing them at once
//! would fail requests that their clients had every reason to send. After its next response a connection ends
//! anyway.

use std::time::Duration;

use crate::site::Site;

/// The deadline of the remaining connections.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    until: Duration,
    idle_until: Duration,
}

impl Drain {
    /// The stop of the server for `site` is noticed at `now`.
    pub fn begin(now: Duration, site: &Site) -> Drain {
        let until = now.saturating_add(site.drain_timeout());
        Drain { until, idle_until: now.saturating_add(site.limits.drain_idle).min(until) }
    }

    /// The deadline of all connections.
    pub fn until(&self) -> Duration {
        self.until
    }

    /// The deadline of connections without a request in progress.
    pub fn idle_until(&self) -> Duration {
        self.idle_until
    }

    /// Returns true if all connections are to close.
    pub fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// Returns true if connections without a request in progress are to close.
    pub fn is_over_for_idle(&self, now: Duration) -> bool {
        now >= self.idle_until
    }
}
