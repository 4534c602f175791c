//! An upstream server as configured, and what every loop knows of it: its current addresses and health.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sojourn_cgi::Application;

use super::Bucket;
use crate::applications::Scripts;
use crate::connection::Address;
use crate::tls::UpstreamTls;

#[derive(Clone, Debug)]
pub enum Protocol {
    Http,
    /// Signed requests for objects, over HTTP.
    S3(Arc<Bucket>),
    /// FastCGI, in the responder role, for this application.
    FastCgi(Arc<Application>),
    /// CGI: a process per request.
    Cgi(Arc<Scripts>),
}

#[derive(Clone, Debug)]
pub struct Upstream {
    /// The configured URL without its scheme, for messages and logs.
    pub name: String,
    /// Its host and port, for requests that name no host.
    pub authority: String,
    /// The host name to look up again.
    pub host: String,
    pub port: u16,
    /// Its current addresses and health.
    pub presence: Arc<UpstreamState>,
    pub protocol: Protocol,
    pub tls: Option<UpstreamTls>,
    /// Its weight in load balancing.
    pub weight: u32,
    /// Idle connections kept per loop, if different from the general limit.
    pub idle_max: Option<usize>,
    /// How many processes an application has, if it is this server's own.
    pub processes: Option<usize>,
}

impl Upstream {
    pub fn speaks_cgi(&self) -> bool {
        match self.protocol {
            Protocol::Http | Protocol::S3(_) => false,
            Protocol::FastCgi(_) | Protocol::Cgi(_) => true,
        }
    }

    /// Returns true if each of its processes serves one connection at a time: while one is kept idle, others wait to be
    /// accepted. Other servers may have enough processes, and would only get their connections anew.
    pub fn is_held(&self) -> bool {
        self.processes.is_some() || matches!(self.protocol, Protocol::FastCgi(_))
    }

    /// Returns true if a connection may be waiting for a process that another one holds.
    pub fn lacks_processes(&self) -> bool {
        self.is_held()
            && self.presence.unanswered() > 0
            && self.processes.is_none_or(|processes| self.presence.open() > processes)
    }

    /// Keeps no idle connections that hold a process: processes of a server do not know what the others wait for.
    pub fn share_among_processes(&mut self) {
        if self.is_held() {
            self.idle_max.get_or_insert(0);
        }
    }

    /// Returns true if its address comes from DNS and may change.
    pub fn is_named(&self) -> bool {
        let is_local = self.presence.addresses().iter().any(|address| matches!(address, Address::Unix(_)));
        !is_local && self.host.parse::<IpAddr>().is_err()
    }
}

/// The addresses and the health of an upstream, as [`watch`](super::watch) found them, and what all loops of a process wait for.
#[derive(Debug)]
pub struct UpstreamState {
    addresses: Mutex<Arc<[Address]>>,
    open: AtomicUsize,
    /// Open connections that have not answered anything yet; an application may not have accepted them.
    unanswered: AtomicUsize,
    /// Responses that have come while connections waited.
    responses: AtomicUsize,
    /// All responses that were the first of their connection.
    first_responses: AtomicUsize,
    is_failing: AtomicBool,
    checks: AtomicU64,
    checks_failed: AtomicU64,
}

impl UpstreamState {
    /// An upstream at these addresses, not checked yet.
    pub fn new(addresses: &[Address]) -> UpstreamState {
        UpstreamState {
            addresses: Mutex::new(addresses.into()),
            open: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
            responses: AtomicUsize::new(0),
            first_responses: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
            checks: AtomicU64::new(0),
            checks_failed: AtomicU64::new(0),
        }
    }

    /// Its addresses; when one fails the next is tried.
    pub fn addresses(&self) -> Arc<[Address]> {
        Arc::clone(&self.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets new addresses.
    pub fn move_to(&self, addresses: &[Address]) {
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses.into();
    }

    /// A connection was made.
    pub fn connected(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    pub fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// The connections of all loops of this process.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A connection has received its first response, or failed before.
    pub fn answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        self.first_responses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response that has come while connections wait. Returns how many there were, and how many responses were the first
    /// of their connection; both wrap around.
    pub fn responded(&self) -> (usize, usize) {
        let before = self.responses.fetch_add(1, Ordering::Relaxed);
        (before.wrapping_add(1), self.first_responses.load(Ordering::Relaxed))
    }

    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Returns true if it has failed checks and not passed enough since.
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Marks it as failing or healthy.
    pub fn set_failing(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::Relaxed);
    }

    pub fn count(&self, has_passed: bool) {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.checks_failed.fetch_add(u64::from(!has_passed), Ordering::Relaxed);
    }

    pub fn counts(&self) -> (u64, u64) {
        (self.checks.load(Ordering::Relaxed), self.checks_failed.load(Ordering::Relaxed))
    }
}
