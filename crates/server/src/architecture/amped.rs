//! AMPED: the event loop plus helpers for every operation that may block on disk.
//!
//! Identical to `sped` but for blocking operations: data that is in memory is used at once, everything else
//! goes to a helper while the loop continues; the helper's answer comes back as an event. Helpers never touch
//! a socket. Names are like data: those that the kernel remembers (`RESOLVE_CACHED`) the loop opens at once,
//! because a helper costs ten times as much, and for the same reason it asks itself whether an open document
//! is current.

use std::io;

use super::Architecture;
use crate::counters::Served;
use crate::runtime::disk::Helped;
use crate::runtime::epoll;
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

/// The asymmetric multi-process event-driven architecture; its helpers are threads or processes.
pub struct Amped;

impl Architecture for Amped {
    fn name(&self) -> &'static str {
        "amped"
    }

    fn summary(&self) -> &'static str {
        "one event loop, with helpers for whatever may wait for a disk"
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        epoll::run(site, listeners, stop, Helped::new(site)?)
    }
}
