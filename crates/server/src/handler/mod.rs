//! Handlers answer requests. One folder each, one table.
//!
//! A [`Content`] is a handler as it is configured for a site; it starts a [`Handler`](crate::connection::Handler) for
//! every event loop or worker, which owns what changes: caches, pools of connections, exchanges under way. What a handler
//! is asked, and how it answers, is in `connection::handler`. To add one, write a folder here and a row of [`ALL`]: the
//! command line offers the rows (`serve --handler`). [`echo`] is the smallest example.

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

pub mod echo;
pub mod forward_proxy;
pub mod reverse_proxy;
pub mod routes;
pub mod static_files;
mod stream;

/// Every handler, in the order in which the guide explains them.
pub const ALL: &[Kind] =
    &[static_files::KIND, routes::KIND, reverse_proxy::KIND, forward_proxy::KIND, echo::KIND];

/// A row of [`ALL`]: what `--handler` and the reference say of a handler.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The name for the command line: that of its folder, with hyphens.
    pub name: &'static str,
    pub summary: &'static str,
    /// Its content, if it needs no options of its own. The proxies do: the command `proxy` makes theirs, and `serve` that of
    /// the routes.
    pub content: Option<fn() -> Arc<dyn Content>>,
}

/// The handlers that `serve` offers, by name. The first is the default.
pub fn without_options() -> impl Iterator<Item = (Kind, fn() -> Arc<dyn Content>)> {
    ALL.iter().filter_map(|kind| Some((*kind, kind.content?)))
}

/// A handler as it is configured for a site; all event loops and workers share it.
pub trait Content: Debug + Send + Sync {
    /// Its row of [`ALL`].
    fn kind(&self) -> Kind;

    /// Starts a handler for one event loop or worker.
    ///
    /// # Errors
    /// If the system has no room for it.
    fn start(&self, setup: &Setup<'_>) -> io::Result<Box<dyn Handler>>;

    /// Returns true if its handlers make connections of their own. Then every worker needs an event loop, and the
    /// client's address is always looked up.
    fn makes_connections(&self) -> bool {
        false
    }

    /// Writes to the table what it counts for all loops of the server at once.
    fn report(&self, _served: &mut Served) {}

    /// The same for what every process counts for itself, where processes do not share it.
    fn report_own(&self, _served: &mut Served) {}

    /// The answer to a request of an operator, over the admin listener, if it is one for this handler.
    fn operate(&self, _request: &Request<'_>) -> Option<(Status, Value)> {
        None
    }
}

/// The site's parts for its handlers.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub hosts: &'a Arc<Hosts>,
    /// How much a loop's caches of files may hold.
    pub budgets: &'a Budgets,
    pub limits: &'a Limits,
}
