//! A site: what is served and within which limits. It knows nothing of how.

use std::sync::Arc;
use std::time::Duration;

use sojourn_content::{Budgets, Origin, Residency};

use crate::connection::SendPath;
use crate::counters::{Board, Counter, Served};
use crate::log::AccessLog;

/// What every architecture is given to serve.
pub struct Site {
    /// Where documents come from.
    pub origin: Arc<dyn Origin>,
    /// How much the caches hold; for architectures with private caches, each.
    pub budgets: Budgets,
    /// How bodies travel to their clients.
    pub send_path: SendPath,
    /// How an architecture that asks finds out what is in memory.
    pub residency: &'static dyn Residency,
    /// How long it trusts an answer about a large document; zero asks before every send.
    pub residency_trust: Duration,
    /// Helpers, for architectures that have them.
    pub helpers: usize,
    /// Limits on clients.
    pub limits: Limits,
    /// The access log, if one is kept.
    pub log: Option<AccessLog>,
    /// Where the counters can be read meanwhile.
    pub board: Board,
}

/// Limits on connections and on the patience with them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections open at once; more are answered 503.
    pub connections_max: usize,
    /// How long a connection may be without a request.
    pub idle: Duration,
    /// How long a request head may take from its first byte to its last.
    pub head: Duration,
    /// How long a client may accept no byte of a response.
    pub send: Duration,
    /// How long a client may take to close after its last response.
    pub end: Duration,
    /// How long requests may take to finish once a stop was requested.
    pub drain: Duration,
    /// Jobs that may wait for a helper; more requests are answered 503.
    pub helper_queue_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 200_000,
            idle: Duration::from_secs(60),
            head: Duration::from_secs(15),
            send: Duration::from_secs(60),
            end: Duration::from_secs(2),
            drain: Duration::from_secs(10),
            helper_queue_max: 4096,
        }
    }
}

impl Site {
    /// A site with default budgets and limits, no log.
    pub fn new(origin: Arc<dyn Origin>) -> Site {
        Site {
            origin,
            budgets: Budgets::default(),
            send_path: SendPath::default(),
            residency: sojourn_content::residency::ALL[0],
            residency_trust: Duration::from_millis(100),
            helpers: 4,
            limits: Limits::default(),
            log: None,
            board: Board::default(),
        }
    }

    /// What all loops have counted so far, and what is counted once per process.
    pub fn counters(&self) -> Served {
        let mut served = self.board.read();
        served.set(Counter::MajorFaults, major_faults());
        served.set(Counter::LogLinesDropped, self.log.as_ref().map_or(0, AccessLog::dropped));
        served
    }
}

/// `majflt` of this process, all threads: after the name in parentheses, the tenth field (proc_pid_stat(5)).
fn major_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_ascii_whitespace().nth(9).and_then(|field| field.parse().ok()).unwrap_or(0)
}
