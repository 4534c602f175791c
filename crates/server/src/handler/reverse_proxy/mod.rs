//! A site whose bytes come from upstream servers.
//!
//! [`Proxy`] is what all loops are told. Each loop keeps its [`UpstreamClient`]: what it has under way, as [`Flow`]s, and
//! the connections for that. A flow stands between one upstream connection, which fills it, and the clients that
//! follow it; neither knows the other, and a driver knows neither: it launches connections and wakes those that wait.

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use sojourn_content::{Document, Found, HostId, OpenError, Origin, Resource};

mod balancer;
mod cache;
mod cache_admin;
mod cache_lookup;
mod cache_response;
mod disk_threads;
mod exchange;
mod flow;
mod forced_hits;
mod handler;
mod health_checks;
mod hit_for_miss;
mod machine;
mod partial;
mod purged_tags;
mod relay;
mod relayed;
mod stored;
mod upstream_client;
mod upstream_connection;
mod upstream_request;
mod upstream_response;
mod upstream_url;

use serde_json::Value;
use sojourn_cgi::Application;
use sojourn_http::Status;
use sojourn_http::request::Request;
use sojourn_http_cache::Spelling;

use super::forward_proxy::Rules;
use super::{Content, Kind, Setup};
use crate::applications::Scripts;
use crate::connection::{Address, Handler};
use crate::counters::{Counter, Served};
use crate::hosts::Hosts;
use crate::tls::UpstreamTls;
pub use cache::{Cache, Verdict, answer, fits};
use cache_admin::operate;
pub use cache_lookup::CacheLookup;
pub use disk_threads::DiskThreads;
pub use flow::{Answer, Changes, End, Flow, FlowId, FollowerId, HELD_BYTES_MAX, Stored, Upload};
pub use forced_hits::ForcedHits;
pub use handler::ReverseProxy;
pub use health_checks::{HealthCheck, UpstreamState, watch};
pub use machine::Machine;
pub use partial::{Combination, FetchRange, Rest};
pub use stored::{CacheMiss, Coalescing, Revalidation};
pub(in crate::handler) use upstream_client::{ATTEMPTS_MAX, Pool};
pub use upstream_client::{Network, UpstreamClient};
pub use upstream_request::{ClientContext, OwnAnswer, ask, host, own_answer};
pub use upstream_response::{Fallback, Received, ResponseAction, metadata};
pub use upstream_url::{Scheme, UpstreamUrl, UpstreamUrlError};

/// Where a proxy's bytes come from, and what it says of itself.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Servers, one host's behind another's; none if it is a forward proxy.
    pub upstreams: Vec<Upstream>,
    /// Which of them have the content of each service: each host of the site, or each route to upstreams.
    pub hosts: Vec<Range<usize>>,
    /// The rules by which requests go where they say, if it is one.
    pub forward: Option<Arc<Rules>>,
    /// The proxy's name in Via, by which it also detects loops.
    pub pseudonym: String,
    pub cache: Option<Cache>,
}

impl Proxy {
    /// Which of the upstreams have the content of `host`.
    pub fn upstreams_of(&self, host: HostId) -> Range<usize> {
        self.hosts.get(usize::from(host.0)).cloned().unwrap_or_default()
    }

    /// Returns true if some of the upstreams of `host` are told of requests by variables, with the lengths of bodies.
    pub fn speaks_cgi(&self, host: HostId) -> bool {
        self.upstreams[self.upstreams_of(host)].iter().any(|upstream| match upstream.protocol {
            Protocol::Http => false,
            Protocol::FastCgi(_) | Protocol::Cgi(_) => true,
        })
    }

    /// Which spellings of a path are one.
    pub fn spelling(&self) -> Spelling {
        if self.forward.is_some() { Spelling::Kept } else { Spelling::Normalised }
    }

    /// Starts the handler of one event loop, for a forward proxy the part that relays.
    pub(in crate::handler) fn handler(&self, setup: &Setup<'_>) -> io::Result<ReverseProxy> {
        let upstream_client = UpstreamClient::new(&Arc::new(self.clone()), setup.limits)?;
        Ok(ReverseProxy::new(upstream_client, Arc::clone(setup.hosts) as _))
    }
}

/// Which of a proxy's services a request is for: a host, or a route.
pub trait Services: Debug + Send + Sync {
    /// The number of the service; `None` if the request is for none.
    fn service_of(&self, request: &Request<'_>) -> Option<HostId>;
}

impl Services for Hosts {
    fn service_of(&self, request: &Request<'_>) -> Option<HostId> {
        self.find(request.host)
    }
}

/// The row of the table.
pub const KIND: Kind = Kind {
    name: "reverse-proxy",
    summary: "what upstream servers answer, cached: pools, health checks, revalidation",
    content: None,
};

impl Content for Proxy {
    fn kind(&self) -> Kind {
        KIND
    }

    fn start(&self, setup: &Setup<'_>) -> io::Result<Box<dyn Handler>> {
        Ok(Box::new(self.handler(setup)?))
    }

    fn makes_connections(&self) -> bool {
        true
    }

    fn report(&self, served: &mut Served) {
        for upstream in &self.upstreams {
            let (checks, failed) = upstream.presence.counts();
            served.add(Counter::HealthChecks, checks);
            served.add(Counter::HealthChecksFailed, failed);
            served.add(Counter::UpstreamsFailingChecks, upstream.presence.is_failing().into());
        }
        for upstream in &self.upstreams {
            if let Protocol::Cgi(scripts) = &upstream.protocol {
                scripts.report(served);
            }
        }
        if let Some(cache) = self.cache.as_ref().filter(|cache| !cache.is_private()) {
            cache.report(served);
        }
    }

    fn report_own(&self, served: &mut Served) {
        if let Some(cache) = &self.cache {
            cache.report(served);
        }
    }

    fn operate(&self, request: &Request<'_>) -> Option<(Status, Value)> {
        operate(request, self.cache.as_ref()?)
    }
}

/// The protocol that an upstream speaks.
#[derive(Clone, Debug)]
pub enum Protocol {
    Http,
    /// FastCGI, as the responder for this application.
    FastCgi(Arc<Application>),
    /// A process for each request.
    Cgi(Arc<Scripts>),
}

#[derive(Clone, Debug)]
pub struct Upstream {
    /// The URL without its scheme, as it was configured: in messages and logs.
    pub name: String,
    /// Its host and port, for requests that name no host.
    pub authority: String,
    /// Where its name is asked for again.
    pub host: String,
    pub port: u16,
    /// Where it is reached, and how it does.
    pub presence: Arc<UpstreamState>,
    pub protocol: Protocol,
    pub tls: Option<UpstreamTls>,
    /// Its share of the requests, compared with the others'.
    pub weight: u32,
    /// Connections that each loop keeps while there is nothing to do, if it is not as many as to others.
    pub idle_max: Option<usize>,
}

impl Upstream {
    /// Returns true if its name may lead elsewhere one day.
    fn is_named(&self) -> bool {
        let is_local = self.presence.addresses().iter().any(|address| matches!(address, Address::Unix(_)));
        !is_local && self.host.parse::<IpAddr>().is_err()
    }
}

/// The origin of a proxy: it has no documents of its own.
pub struct NoDocuments;

impl Origin for NoDocuments {
    fn open(&self, _resource: &Resource<'_>) -> Result<Found, OpenError> {
        Err(OpenError::NotFound)
    }

    fn is_current(&self, _resource: &Resource<'_>, _document: &Document) -> bool {
        false
    }

    fn read(&self, _document: &Document, _offset: u64, _into: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}
