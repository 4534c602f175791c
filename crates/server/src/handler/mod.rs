//! Handlers answer requests. One folder each, one table.
//!
//! A [`Content`] is a handler as configured for a site. It starts a [`Handler`](crate::connection::Handler) for every
//! event loop or worker, which owns the state: caches, connection pools, exchanges in progress. `connection::handler`
//! defines the interface. To add a handler, write a folder here and a row of [`ALL`], from which the command line takes
//! its choices (`serve --handler`). [`echo`] is the smallest example.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use serde_json::Value;
use sojourn_content::Budgets;
use sojourn_http::Status;
use sojourn_http::request::Request;

use crate::connection::Handler;
use crate::counters::Served;
use crate::hosts::Hosts;
use crate::limits::Limits;

pub mod destination;
pub mod echo;
pub mod forward_proxy;
pub mod reverse_proxy;
pub mod routes;
pub mod static_files;
mod stream;

/// Every handler, in the order of the documentation.
pub const ALL: &[Kind] =
    &[static_files::KIND, routes::KIND, reverse_proxy::KIND, forward_proxy::KIND, echo::KIND];

/// A row of [`ALL`].
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The name on the command line: that of its folder, with hyphens.
    pub name: &'static str,
    pub summary: &'static str,
    /// Makes its content, if that needs no options. `proxy` makes the proxies' content, and `serve` that of the routes.
    pub content: Option<fn() -> Arc<dyn Content>>,
}

/// The handlers that `serve` offers, by name; the first is the default.
pub fn without_options() -> impl Iterator<Item = (Kind, fn() -> Arc<dyn Content>)> {
    ALL.iter().filter_map(|kind| Some((*kind, kind.content?)))
}

/// A handler as configured for a site, shared by all event loops and workers.
pub trait Content: Debug + Send + Sync {
    fn kind(&self) -> Kind;

    /// Starts a handler for one event loop or worker.
    ///
    /// # Errors
    /// If the system lacks the resources.
    fn start(&self, setup: &Setup<'_>) -> io::Result<Box<dyn Handler>>;

    /// Returns true if its handlers make connections of their own. Then every worker needs an event loop, and the
    /// client's address is always determined.
    fn makes_connections(&self) -> bool {
        false
    }

    /// Returns true if its applications get CGI variables, which include both ends of the client's connection.
    fn speaks_cgi(&self) -> bool {
        false
    }

    /// Adds counters that it keeps for the whole server to the table.
    fn report(&self, _served: &mut Served) {}

    /// Adds counters that every process keeps separately, where processes do not share them.
    fn report_own(&self, _served: &mut Served) {}

    /// The response to an operator's request on the admin listener; `None` if it is not for this handler.
    fn operate(&self, _request: &Request<'_>) -> Option<(Status, Value)> {
        None
    }
}

/// The parts of a site that handlers use.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub hosts: &'a Arc<Hosts>,
    /// Budgets of a loop's file caches.
    pub budgets: &'a Budgets,
    pub limits: &'a Limits,
}
