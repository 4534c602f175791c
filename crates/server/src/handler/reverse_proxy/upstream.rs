//! An upstream server as configured, and what every loop knows of it: its current addresses and health.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
}

impl Upstream {
    pub fn speaks_cgi(&self) -> bool {
        match self.protocol {
            Protocol::Http | Protocol::S3(_) => false,
            Protocol::FastCgi(_) | Protocol::Cgi(_) => true,
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
