//! A site: its content and its limits, independent of the architecture that serves it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use sojourn_content::{Budgets, HelperKind, Origin, OriginCounts, Residency};

use crate::access_log::AccessLog;
use crate::connection::{Handler, SendPath, Transport};
use crate::counters::scoreboard::Scoreboard;
use crate::counters::{Counter, Served};
use crate::handler::static_files::StaticSite;
use crate::handler::{Content, Setup};
use crate::hosts::Hosts;
use crate::limits::Limits;
use crate::tls::{NewSession, Tls};

/// Everything an architecture needs to serve. Clones share the log and the scoreboard.
#[derive(Clone)]
pub struct Site {
    pub origin: Arc<dyn Origin>,
    /// Virtual hosts in the order of the origin's directories, and their error pages.
    pub hosts: Arc<Hosts>,
    /// Cache budgets; with private caches, of each.
    pub budgets: Budgets,
    /// How bodies of each size are sent.
    pub send_path: SendPath,
    /// The residency test, for architectures that use one.
    pub residency: &'static dyn Residency,
    /// How long the test trusts an answer about a large document; zero tests before every send.
    pub residency_trust: Duration,
    pub helpers: usize,
    /// Threads or processes.
    pub helper_kind: HelperKind,
    /// The number of processes, threads or loops, for architectures that have several.
    pub workers: usize,
    /// The program to execute for each connection (`inetd`).
    pub program: Option<Program>,
    pub limits: Limits,
    pub log: Option<AccessLog>,
    /// Where counters are published.
    pub scoreboard: Scoreboard,
    pub tls: Option<Arc<Tls>>,
    /// Starts the handler of each event loop or worker.
    pub content: Arc<dyn Content>,
}

impl Site {
    /// A site with default budgets and limits and without an access log.
    pub fn new(origin: Arc<dyn Origin>) -> Site {
        Site {
            origin,
            hosts: Arc::default(),
            budgets: Budgets::default(),
            send_path: SendPath::default(),
            residency: sojourn_content::residency::ALL[0],
            residency_trust: sojourn_content::residency::TRUST,
            helpers: 4,
            helper_kind: HelperKind::default(),
            workers: 1,
            program: None,
            limits: Limits::default(),
            log: None,
            scoreboard: Scoreboard::default(),
            tls: None,
            content: Arc::new(StaticSite),
        }
    }

    /// Starts the handler of one event loop or worker.
    ///
    /// # Errors
    /// If the system lacks the resources.
    pub fn handler(&self) -> io::Result<Box<dyn Handler>> {
        self.content.start(&Setup { hosts: &self.hosts, budgets: &self.budgets, limits: &self.limits })
    }

    /// How long requests may take to finish, after a stop was requested.
    pub fn drain_timeout(&self) -> Duration {
        if self.scoreboard.has_successor() { self.limits.drain_upgrade } else { self.limits.drain }
    }

    /// A TLS session for a new connection, if the listener speaks TLS.
    ///
    /// # Panics
    /// If it does and the site has no certificates.
    pub fn tls_session(&self, transport: Transport) -> Option<NewSession> {
        match transport {
            Transport::Plain => None,
            Transport::Tls => {
                let tls = self.tls.as_ref().expect("a site that listens for TLS has certificates");
                Some(tls.accept())
            }
        }
    }

    /// The sum over all loops and processes, and values that each process counts once.
    pub fn counters(&self) -> Served {
        let mut served = self.scoreboard.read();
        served.add(Counter::MajorFaults, major_faults(libc::RUSAGE_SELF));
        served.add(Counter::MajorFaults, major_faults(libc::RUSAGE_CHILDREN));
        let alive = self.scoreboard.processes();
        served.add(Counter::MajorFaults, alive.into_iter().map(major_faults_of).sum());
        self.content.report(&mut served);
        origin_counts(&*self.origin).for_each(|(counter, count)| served.add(counter, count));
        served.add(Counter::LogLinesDropped, self.log.as_ref().map_or(0, AccessLog::dropped));
        served
    }
}

/// What this process has asked of a remote `origin`; nothing if it is local.
pub(crate) fn origin_counts(origin: &dyn Origin) -> impl Iterator<Item = (Counter, u64)> + use<> {
    use Counter as C;
    let of = |counts: OriginCounts| {
        let OriginCounts { opens, unchanged, reads, read_bytes, stale, changed, failures, timeouts } = counts;
        [
            (C::OriginOpens, opens),
            (C::OriginUnchanged, unchanged),
            (C::OriginReads, reads),
            (C::OriginReceivedBytes, read_bytes),
            (C::OriginStale, stale),
            (C::OriginChanged, changed),
            (C::OriginFailures, failures),
            (C::OriginTimeouts, timeouts),
        ]
    };
    origin.counts().map(of).into_iter().flatten()
}

/// Major faults of this process, or of its ended children.
fn major_faults(who: libc::c_int) -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has room for what the kernel writes, and zeros are valid in the rest.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_majflt).unwrap_or(0)
}

/// `majflt` of a living child: the tenth field after the name in parentheses (proc_pid_stat(5)).
fn major_faults_of(process: Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_ascii_whitespace().nth(9).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// A program to execute per connection, as inetd does: the connection is its standard input. It publishes its counters
/// in the scoreboard slot given by `--counters FD:PLACE`.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: CString,
    /// Its arguments, beginning with the program's name.
    pub arguments: Vec<CString>,
    /// A descriptor that it inherits with the same number.
    pub inherited: Option<Arc<OwnedFd>>,
}
