//! The reverse proxy: a site whose content comes from upstream servers.
//!
//! [`Proxy`] is the configuration that all loops share. Each loop has an [`UpstreamClient`] with its requests in
//! progress, as [`Flow`]s, and their connections. A flow is filled by one upstream connection and read by the clients
//! that follow it; neither side knows the other. The driver knows neither: it launches connections and wakes those that
//! wait.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use sojourn_content::{Document, Found, HostId, OpenError, Origin, Resource};

mod balancer;
mod bucket;
mod cache;
mod cache_admin;
mod cache_lookup;
mod cache_miss;
mod cache_response;
mod disk_threads;
mod exchange;
mod fetch_range;
mod flow;
mod forced_hits;
mod handler;
mod health_checks;
mod hit_for_miss;
mod partial;
mod purged_tags;
mod relay;
mod response_head;
mod switch;
mod upstream;
mod upstream_client;
mod upstream_request;
mod upstream_response;
mod upstream_url;

use serde_json::Value;
use sojourn_cgi::Application;
use sojourn_http::Status;
use sojourn_http::request::Request;
use sojourn_http_cache::Spelling;

use super::destination::Rules;
use super::{Content, Kind, Setup};
use crate::connection::Handler;
use crate::counters::{Counter, Served};
use crate::hosts::Hosts;
pub use bucket::Bucket;
pub use cache::{Cache, Verdict};
use cache_admin::operate;
pub use cache_lookup::CacheLookup;
pub use cache_miss::{CacheMiss, Changes, Coalescing, Combination, Revalidation};
pub use disk_threads::DiskThreads;
pub use fetch_range::{FetchRange, Rest, answer, fits};
pub use flow::{
    Answer, End, Flow, FlowBytes, FlowId, FlowReaderId, HELD_BYTES_MAX, RequestHead, Stored, TunnelId, Upload,
};
pub use forced_hits::ForcedHits;
pub use handler::ReverseProxy;
pub use health_checks::{HealthCheck, watch};
pub use upstream::{Occupancy, Protocol, Upstream, UpstreamState};
pub use upstream_client::{TunnelClient, TunnelStage, UpstreamClient};
pub use upstream_request::{ClientContext, LocalResponse, build_flow, host, local_response, upgrade};
pub use upstream_response::{Fallback, Received, ResponseAction, metadata};
pub use upstream_url::{Scheme, UpstreamUrl, UpstreamUrlError};

/// A proxy's upstreams and name.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The upstream servers, grouped by host; empty for a forward proxy.
    pub upstreams: Vec<Upstream>,
    /// The upstreams of each service: of each virtual host, or of each route to upstreams.
    pub hosts: Vec<Range<usize>>,
    /// The rules of a forward proxy; `None` for a reverse proxy.
    pub forward: Option<Arc<Rules>>,
    /// The proxy's name in Via, by which it also detects loops.
    pub pseudonym: String,
    pub cache: Option<Cache>,
}

impl Proxy {
    /// The upstreams that serve `host`.
    pub fn upstreams_of(&self, host: HostId) -> Range<usize> {
        self.hosts.get(usize::from(host.0)).cloned().unwrap_or_default()
    }

    /// Returns true if an upstream of `host` gets requests as CGI variables, so that it needs the length of bodies
    /// first.
    pub fn has_applications(&self, host: HostId) -> bool {
        self.upstreams[self.upstreams_of(host)].iter().any(Upstream::speaks_cgi)
    }

    /// Returns true if all upstreams of `host` are HTTP servers.
    pub fn speaks_http(&self, host: HostId) -> bool {
        let upstreams = &self.upstreams[self.upstreams_of(host)];
        upstreams.iter().all(|upstream| matches!(upstream.protocol, Protocol::Http))
    }

    /// The FastCGI application of `host`, if all its upstreams are processes of one.
    pub fn application_of(&self, host: HostId) -> Option<&Arc<Application>> {
        let mut applications =
            self.upstreams[self.upstreams_of(host)].iter().map(|upstream| match &upstream.protocol {
                Protocol::FastCgi(application) => Some(application),
                Protocol::Http | Protocol::S3(_) | Protocol::Cgi(_) => None,
            });
        let first = applications.next()??;
        let is_first =
            |other: Option<&Arc<Application>>| other.is_some_and(|other| Arc::ptr_eq(first, other));
        applications.all(is_first).then_some(first)
    }

    /// Which spellings of a path share a cache key, and are therefore sent alike: the cache decides.
    pub fn spelling(&self) -> Spelling {
        self.cache.as_ref().map_or(Spelling::Kept, |cache| cache.policy.spelling())
    }

    /// Starts the handler of one event loop; for a forward proxy, the part that forwards requests.
    pub(in crate::handler) fn handler(&self, setup: &Setup<'_>) -> io::Result<ReverseProxy> {
        let upstream_client = UpstreamClient::new(&Arc::new(self.clone()), setup.limits)?;
        Ok(ReverseProxy::new(upstream_client, Arc::clone(setup.hosts) as _))
    }
}

/// Maps requests to a proxy's services: virtual hosts or routes.
pub trait Services: Debug + Send + Sync {
    /// The number of the service; `None` if the request is for none.
    fn service_of(&self, request: &Request<'_>) -> Option<HostId>;
}

impl Services for Hosts {
    fn service_of(&self, request: &Request<'_>) -> Option<HostId> {
        self.find(request.host)
    }
}

pub const KIND: Kind = Kind {
    name: "reverse-proxy",
    summary: "responses of upstream servers, cached: connection pools, health checks, revalidation",
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

    fn speaks_cgi(&self) -> bool {
        self.upstreams.iter().any(Upstream::speaks_cgi)
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

/// The origin of a proxy, which has no documents of its own.
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
