//! Architectures: who waits for what. One file each, one table.
//!
//! An architecture takes a site and a listening socket and serves until it is told to stop. It may use whatever
//! processes and threads it likes; HTTP, caches and the order of steps within a request are not its business.

use std::io;
use std::net::TcpListener;

use crate::counters::Served;
use crate::site::Site;
use crate::stop::Stop;

mod amped;
mod sped;

/// A way to organise a server.
pub trait Architecture: Sync {
    /// The name for the command line and for results.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// Serves `site` on `listener` until `stop`; returns once every accepted connection is closed.
    fn serve(&self, site: &Site, listener: TcpListener, stop: &Stop) -> io::Result<Served>;
}

/// Every architecture, in the order in which the guide explains them.
pub const ALL: &[&dyn Architecture] = &[&sped::Sped, &amped::Amped];

/// The architecture called `name`.
pub fn by_name(name: &str) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|architecture| architecture.name() == name)
}
