//! An upstream server as configured, and what every loop knows of it: its current addresses and health.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
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
    /// The connections to it, and to others that [are the same application](Upstream::count_together).
    pub occupancy: Arc<Occupancy>,
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
            && self.occupancy.unanswered() > 0
            && self.processes.is_none_or(|processes| self.occupancy.open() > processes)
    }

    /// Has upstreams of several routes or hosts that are the same application count their connections together: they hold
    /// the same processes.
    pub fn count_together(upstreams: &mut [Upstream]) {
        let mut applications: HashMap<_, Arc<Occupancy>> = HashMap::new();
        for upstream in upstreams.iter_mut().filter(|upstream| upstream.is_held()) {
            let socket = upstream.presence.addresses().iter().find_map(|address| match address {
                Address::Unix(path) => Some(Arc::clone(path)),
                Address::Internet(_) => None,
            });
            let place = (upstream.host.clone(), upstream.port, socket);
            upstream.occupancy = Arc::clone(applications.entry(place).or_default());
        }
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

/// The addresses and the health of an upstream, as [`watch`](super::watch) found them.
#[derive(Debug)]
pub struct UpstreamState {
    addresses: Mutex<Arc<[Address]>>,
    is_failing: AtomicBool,
    checks: AtomicU64,
    checks_failed: AtomicU64,
}

impl UpstreamState {
    /// An upstream at these addresses, not checked yet.
    pub fn new(addresses: &[Address]) -> UpstreamState {
        UpstreamState {
            addresses: Mutex::new(addresses.into()),
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

/// The connections to an application, of all loops of a process, and what they wait for.
#[derive(Debug, Default)]
pub struct Occupancy {
    open: AtomicUsize,
    /// Open connections that have not answered anything yet; an application may not have accepted them.
    unanswered: AtomicUsize,
    /// Responses that have come while connections waited.
    responses: AtomicUsize,
    /// All responses that were the first of their connection.
    first_responses: AtomicUsize,
}

impl Occupancy {
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
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn upstream(host: &str, port: u16, address: Address, protocol: Protocol) -> Upstream {
        Upstream {
            name: String::new(),
            authority: String::new(),
            host: host.to_owned(),
            port,
            presence: Arc::new(UpstreamState::new(&[address])),
            occupancy: Arc::default(),
            protocol,
            tls: None,
            weight: 1,
            idle_max: None,
            processes: None,
        }
    }

    #[test]
    fn upstreams_that_are_one_application_wait_for_the_same_processes() {
        let socket = |path: &str| Address::Unix(Path::new(path).into());
        let internet = |text: &str| Address::Internet(text.parse().unwrap());
        let fastcgi = || Protocol::FastCgi(Arc::default());
        let mut upstreams = [
            upstream("localhost", 0, socket("/run/a"), fastcgi()),
            upstream("localhost", 0, socket("/run/b"), fastcgi()),
            upstream("localhost", 0, socket("/run/a"), fastcgi()),
            // DNS tells the addresses of a host in any order.
            upstream("app.example", 9000, internet("192.0.2.1:9000"), fastcgi()),
            upstream("app.example", 9000, internet("192.0.2.2:9000"), fastcgi()),
            upstream("app.example", 9001, internet("192.0.2.1:9001"), fastcgi()),
            upstream("app.example", 9000, internet("192.0.2.1:9000"), Protocol::Http),
        ];
        Upstream::count_together(&mut upstreams);
        for index in [0, 3, 5, 6] {
            upstreams[index].occupancy.connected();
        }
        assert_eq!(upstreams.each_ref().map(|upstream| upstream.occupancy.open()), [1, 0, 1, 1, 1, 1, 1]);
        let lack = upstreams.each_ref().map(Upstream::lacks_processes);
        assert_eq!(lack, [true, false, true, true, true, true, false]);
    }
}
