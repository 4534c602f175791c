//! Several handlers behind one table: a request's path decides which of them answers it.
//!
//! Files are the static site's, what upstreams answer (HTTP, FastCGI, scripts, applications) is the reverse proxy's.
//! Redirections and fixed answers are given here. The connection sees one handler.

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

/// The row of the handlers' table.
pub const KIND: Kind = Kind {
    name: "routes",
    summary: "files, upstreams, scripts, applications, redirections and fixed answers, by path",
    content: None,
};

/// A site whose paths have different handlers.
#[derive(Debug)]
pub struct Routes {
    pub table: Arc<Table>,
    /// What routes to upstreams lead to: the n-th of its services is that of [`Action::Relay`]`(n)`.
    pub proxy: Option<Arc<Proxy>>,
    /// The processes of the application that the server runs.
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
