//! Architectures: how processes, threads and waiting are organised. One file each, one table.
//!
//! An architecture takes a site and listening sockets and serves until it is told to stop. It may use whatever
//! processes and threads it likes; HTTP, caches and the order of steps within a request are not its business.

use std::io;

use sojourn_content::Budgets;

use crate::counters::Served;
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

mod amped;
mod amped_nowait;
mod fork;
mod helper;
mod inetd;
mod mp;
mod mt;
mod ncopy;
mod sped;
mod uring;

pub use crate::runtime::uring::Unavailable;

/// A way to organise a server.
pub trait Architecture: Sync {
    /// The name for the command line and for results.
    fn name(&self) -> &'static str;

    /// One line for the user.
    fn summary(&self) -> &'static str;

    /// The defaults of a site that it serves.
    fn defaults(&self) -> Defaults {
        Defaults::default()
    }

    /// Checks that this system can run it, before the server says that it listens.
    fn available(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    /// The scope of a proxy's cache; `None` if it cannot be a proxy.
    fn cache_scope(&self) -> Option<CacheScope> {
        Some(CacheScope::Server)
    }

    /// The sockets that `workers` serve on, made from `listeners` while the process may still bind to their ports.
    fn listeners(&self, listeners: Vec<Listener>, _workers: usize) -> io::Result<Vec<Listener>> {
        Ok(listeners)
    }

    /// Serves `site` on `listeners` until `stop`; returns once every accepted connection is closed.
    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served>;
}

/// What an architecture serves with unless the options say otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defaults {
    /// Processes, threads or loops; `None` where there is one loop, or as many processes as connections.
    pub workers: Option<usize>,
    /// Budgets of each cache; a server of several processes has that many caches.
    pub budgets: Budgets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// The whole server: all loops or threads share it.
    Server,
    /// Each of a fixed number of processes has its own.
    Worker,
    /// Each connection, with which its process and the cache end.
    Connection,
}

/// Every architecture, in the order in which the guide explains them.
pub const ALL: &[&dyn Architecture] = &[
    &fork::Fork,
    &inetd::Inetd,
    &helper::HELPER,
    &helper::HELPER_FORK,
    &helper::STANDARD,
    &mp::Mp,
    &mt::Mt,
    &sped::Sped,
    &amped::Amped,
    &amped_nowait::AmpedNowait,
    &ncopy::Ncopy,
    &uring::Uring,
];

/// `name` as in [`ALL`]; `None` if there is no such architecture.
pub fn by_name(name: &str) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|architecture| architecture.name() == name)
}
