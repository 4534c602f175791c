//! Several handlers behind one table of routes: a request's path decides which one answers.
//!
//! Files go to the static site, upstreams (HTTP, FastCGI, scripts, applications) to the reverse proxy. Redirects and
//! fixed responses are answered here. The connection sees a single handler.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use sojourn_http::Status;
use sojourn_http::request::Request;

use super::reverse_proxy::{Proxy, ReverseProxy, UpstreamClient};
use super::static_files::StaticSite;
use super::{Content, Kind, Setup};
use crate::applications::Workers;
use crate::connection::Handler;
use crate::counters::Served;

mod handler;
mod table;

use handler::RoutesHandler;
pub use table::{Action, Pattern, PatternError, Redirection, Route, Table};

pub const KIND: Kind = Kind {
    name: "routes",
    summary: "files, upstreams, scripts, applications, redirects and fixed responses, by path",
    content: None,
};

/// A site with routes.
#[derive(Debug)]
pub struct Routes {
    pub table: Arc<Table>,
    /// The proxy of routes to upstreams: its service n belongs to [`Action::Relay`]`(n)`.
    pub proxy: Option<Arc<Proxy>>,
    /// The processes of an application that the server runs.
    pub workers: Option<Arc<Workers>>,
}

impl Content for Routes {
    fn kind(&self) -> Kind {
        KIND
    }

    fn start(&self, setup: &Setup<'_>) -> io::Result<Box<dyn Handler>> {
        let files = StaticSite.start(setup)?;
        let relay = match &self.proxy {
            None => None,
            Some(proxy) => {
                let upstream_client = UpstreamClient::new(proxy, setup.limits)?;
                Some(ReverseProxy::new(upstream_client, Arc::clone(&self.table) as _))
            }
        };
        let (table, hosts) = (Arc::clone(&self.table), Arc::clone(setup.hosts));
        Ok(Box::new(RoutesHandler::new(table, hosts, files, relay)))
    }

    fn makes_connections(&self) -> bool {
        self.proxy.is_some()
    }

    fn speaks_cgi(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.speaks_cgi())
    }

    fn report(&self, served: &mut Served) {
        if let Some(proxy) = &self.proxy {
            proxy.report(served);
        }
        if let Some(workers) = &self.workers {
            workers.report(served);
        }
    }

    fn report_own(&self, served: &mut Served) {
        if let Some(proxy) = &self.proxy {
            proxy.report_own(served);
        }
    }

    fn operate(&self, request: &Request<'_>) -> Option<(Status, Value)> {
        self.proxy.as_ref()?.operate(request)
    }
}
