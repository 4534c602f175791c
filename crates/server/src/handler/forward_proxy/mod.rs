//! A forward proxy: each request names its origin, and CONNECT opens a tunnel to one.
//!
//! It contains a reverse proxy's handler, which has the cache, flows and connections, lookups and tunnels, and applies
//! the [`Rules`] for clients and destinations.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use sojourn_http::Status;
use sojourn_http::request::Request;

use super::destination::Rules;
use super::reverse_proxy::Proxy;
use super::{Content, Kind, Setup};
use crate::connection::Handler;
use crate::counters::Served;

mod connect;
mod handler;

pub use handler::ForwardProxy;

pub const KIND: Kind = Kind {
    name: "forward-proxy",
    summary: "any origin that a request names, and tunnels (CONNECT)",
    content: None,
};

/// A forward proxy's configuration.
#[derive(Clone, Debug)]
pub struct ForwardSite {
    proxy: Arc<Proxy>,
    rules: Arc<Rules>,
}

impl ForwardSite {
    /// `None` if `proxy` has no rules, so that it is a reverse proxy.
    pub fn new(proxy: Arc<Proxy>) -> Option<ForwardSite> {
        let rules = Arc::clone(proxy.forward.as_ref()?);
        Some(ForwardSite { proxy, rules })
    }
}

impl Content for ForwardSite {
    fn kind(&self) -> Kind {
        KIND
    }

    fn start(&self, setup: &Setup<'_>) -> io::Result<Box<dyn Handler>> {
        Ok(Box::new(ForwardProxy::new(Arc::clone(&self.rules), self.proxy.handler(setup)?)))
    }

    fn makes_connections(&self) -> bool {
        true
    }

    fn report(&self, served: &mut Served) {
        self.proxy.report(served);
    }

    fn report_own(&self, served: &mut Served) {
        self.proxy.report_own(served);
    }

    fn operate(&self, request: &Request<'_>) -> Option<(Status, Value)> {
        self.proxy.operate(request)
    }
}
