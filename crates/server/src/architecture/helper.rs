//! Pre-forked helpers: one process accepts connections and passes each to one of N helper processes.
//!
//! When all helpers are busy, a connection waits in the dispatcher's FIFO queue, even if it needs only a small
//! document. With `+fork` it does not wait: a child is forked instead.

use std::io;

use super::fork::child;
use super::{Architecture, CacheScope, Defaults, HEAD_TIMEOUT_OF_WORKERS};
use crate::counters::Served;
use crate::runtime::processes::{Dispatched, Plan, dispatch};
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

pub struct Helper {
    name: &'static str,
    summary: &'static str,
    helpers: usize,
    forks: bool,
}

/// Helpers and a queue; 16 are enough (48 were slower in the thesis's measurements).
pub const HELPER: Helper = Helper {
    name: "helper",
    summary: "a dispatcher with a queue passes connections to N helper processes (16)",
    helpers: 16,
    forks: false,
};

/// Helpers, and forked children instead of a queue.
pub const HELPER_FORK: Helper = Helper {
    name: "helper+fork",
    summary: "the same, but when all N helpers (16) are busy a child is forked",
    helpers: 16,
    forks: true,
};

/// The usual configuration of servers that fork children.
pub const STANDARD: Helper =
    Helper { name: "standard", summary: "helper+fork with 5 helpers", helpers: 5, forks: true };

impl Architecture for Helper {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn defaults(&self) -> Defaults {
        Defaults { workers: Some(self.helpers), head: HEAD_TIMEOUT_OF_WORKERS, ..Defaults::default() }
    }

    fn cache_scope(&self) -> Option<CacheScope> {
        Some(CacheScope::Worker)
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        let child = child(site);
        let child = self.forks.then_some(&child as &dyn Fn(Dispatched<'_>) -> io::Result<()>);
        dispatch(site, listeners, stop, &Plan { helpers: site.workers, child })?;
        Ok(site.counters())
    }
}
