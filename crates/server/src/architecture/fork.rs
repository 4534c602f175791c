//! Fork: a child per connection.
//!
//! The server accepts and forks; the child serves the connection and exits, and its caches are gone with it, so every
//! connection starts with empty caches.

use std::io;

use super::{Architecture, CacheScope, Defaults, HEAD_TIMEOUT_OF_WORKERS};
use crate::counters::Served;
use crate::runtime::blocking::serve_one_with;
use crate::runtime::processes::{Dispatched, LogWriter, Plan, dispatch};
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

pub struct Fork;

impl Architecture for Fork {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn summary(&self) -> &'static str {
        "a child process per connection"
    }

    fn defaults(&self) -> Defaults {
        Defaults { head: HEAD_TIMEOUT_OF_WORKERS, ..Defaults::default() }
    }

    fn cache_scope(&self) -> Option<CacheScope> {
        Some(CacheScope::Connection)
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        let child = child(site);
        dispatch(site, listeners, stop, &Plan { helpers: 0, child: Some(&child) })?;
        Ok(site.counters())
    }
}

/// The code that a child runs for one connection to `site`.
pub fn child(site: &Site) -> impl Fn(Dispatched<'_>) -> io::Result<()> {
    |Dispatched { arrival, slot, stop, log_writer }| {
        serve_one_with(site, log_writer.map(LogWriter::log_of_child), arrival, slot, stop)
    }
}
