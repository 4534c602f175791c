//! Draining: the deadlines of all connections after a stop was requested (graceful shutdown).
//!
//! New connections, and kept ones whose next request may be in transit, get a moment: closing them at once would fail
//! requests that clients sent in good faith. Every response closes its connection.

use std::time::Duration;

use crate::site::Site;

/// The deadlines of the remaining connections.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    until: Duration,
    idle_until: Duration,
}

impl Drain {
    /// Starts draining at `now`.
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

    /// Returns true if all connections must close.
    pub fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// Returns true if connections without a request in progress must close.
    pub fn is_over_for_idle(&self, now: Duration) -> bool {
        now >= self.idle_until
    }
}
