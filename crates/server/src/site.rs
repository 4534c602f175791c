//! A site: what is served and within which limits. It knows nothing of how.

use std::sync::Arc;
use std::time::Duration;

use sojourn_content::{Budgets, HelperKind, Origin, Residency};

use crate::board::Board;
use crate::connection::SendPath;
use crate::counters::{Counter, Served};
use crate::log::AccessLog;

/// What every architecture is given to serve. Clones have the same log and the same board.
#[derive(Clone)]
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
    /// What the helpers of the event loops are.
    pub helper_kind: HelperKind,
    /// Processes, threads or loops, for architectures that have several.
    pub workers: usize,
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
    /// Jobs or connections that may wait for a helper; more are answered 503.
    pub helper_queue_max: usize,
    /// Processes alive at once that serve one connection each; more connections are answered 503.
    pub children_max: usize,
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
            children_max: 1024,
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
            helper_kind: HelperKind::default(),
            workers: 1,
            limits: Limits::default(),
            log: None,
            board: Board::default(),
        }
    }

    /// What all loops and processes have counted so far, and what is counted once per process.
    pub fn counters(&self) -> Served {
        let mut served = self.board.read();
        served.add(Counter::MajorFaults, major_faults("self"));
        for process in self.board.processes() {
            served.add(Counter::MajorFaults, major_faults(&process.to_string()));
        }
        served.add(Counter::LogLinesDropped, self.log.as_ref().map_or(0, AccessLog::dropped));
        served
    }
}

/// `majflt` of a process, all threads, and `cmajflt`, the same of its children that are gone: after the name in
/// parentheses, the tenth and eleventh field (proc_pid_stat(5)).
fn major_faults(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_ascii_whitespace().skip(9).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
