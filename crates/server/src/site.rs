//! A site: its content and its limits, independent of the architecture that serves it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use rustls::server::ServerConnection;
use sojourn_content::{Budgets, HelperKind, Origin, Residency};

use crate::access_log::AccessLog;
use crate::connection::{Handler, SendPath, Transport};
use crate::counters::scoreboard::Scoreboard;
use crate::counters::{Counter, Served};
use crate::handler::static_files::StaticSite;
use crate::handler::{Content, Setup};
use crate::hosts::Hosts;
use crate::limits::Limits;
use crate::tls::Tls;

/// Everything an architecture needs to serve. Clones share the log and the scoreboard.
#[derive(Clone)]
pub struct Site {
    pub origin: Arc<dyn Origin>,
    /// Virtual hosts, in the order of the origin's directories, and their error pages.
    pub hosts: Arc<Hosts>,
    /// How much the caches hold; for architectures with private caches, each.
    pub budgets: Budgets,
    /// How bodies travel to their clients.
    pub send_path: SendPath,
    /// The residency test, for architectures that use one.
    pub residency: &'static dyn Residency,
    /// How long it trusts an answer about a large document; zero asks before every send.
    pub residency_trust: Duration,
    pub helpers: usize,
    /// Threads or processes.
    pub helper_kind: HelperKind,
    /// Processes, threads or loops, for architectures that have several.
    pub workers: usize,
    /// The program to execute for each connection (`inetd`).
    pub program: Option<Program>,
    pub limits: Limits,
    pub log: Option<AccessLog>,
    /// Where the counters can be read meanwhile.
    pub scoreboard: Scoreboard,
    pub tls: Option<Arc<Tls>>,
    /// What answers requests: it starts a handler for each event loop or worker.
    pub content: Arc<dyn Content>,
}

impl Site {
    /// A site with default budgets and limits, no log.
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

    /// Starts what answers the requests of one event loop or worker.
    ///
    /// # Errors
    /// If the system has no room for it.
    pub fn handler(&self) -> io::Result<Box<dyn Handler>> {
        self.content.start(&Setup { hosts: &self.hosts, budgets: &self.budgets, limits: &self.limits })
    }

    /// How long requests may take to finish now that the stop was requested.
    pub fn drain_timeout(&self) -> Duration {
        if self.scoreboard.is_succeeded() { self.limits.drain_upgrade } else { self.limits.drain }
    }

    /// The server's side of TLS for a new connection, if that is what it speaks.
    ///
    /// # Panics
    /// If it is and the site has no certificates.
    pub fn tls_session(&self, transport: Transport) -> Option<ServerConnection> {
        match transport {
            Transport::Plain => None,
            Transport::Tls => {
                let tls = self.tls.as_ref().expect("a site that listens for TLS has certificates");
                Some(tls.accept())
            }
        }
    }

    /// The sum of all loops and processes, and values counted once per process.
    pub fn counters(&self) -> Served {
        let mut served = self.scoreboard.read();
        served.add(Counter::MajorFaults, major_faults(libc::RUSAGE_SELF));
        served.add(Counter::MajorFaults, major_faults(libc::RUSAGE_CHILDREN));
        let alive = self.scoreboard.processes();
        served.add(Counter::MajorFaults, alive.into_iter().map(major_faults_of).sum());
        self.content.report(&mut served);
        served.add(Counter::LogLinesDropped, self.log.as_ref().map_or(0, AccessLog::dropped));
        served
    }
}

/// Major faults of this process, or of its ended children.
fn major_faults(who: libc::c_int) -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has room for what the kernel writes, and zeros are valid where it writes nothing.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_majflt).unwrap_or(0)
}

/// `majflt` of a child that is alive: after the name in parentheses, the tenth field (proc_pid_stat(5)).
fn major_faults_of(process: Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_ascii_whitespace().nth(9).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// A program to execute per connection, as inetd does: the connection is its standard input. It counts in the
/// scoreboard slot that `--counters FD:PLACE` names.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: CString,
    /// Its arguments, the name it is run under first.
    pub arguments: Vec<CString>,
    /// A descriptor that it inherits under the same number.
    pub inherited: Option<Arc<OwnedFd>>,
}
