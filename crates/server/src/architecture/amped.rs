//! AMPED: the event loop plus helpers for every operation that may block on disk.
//!
//! Identical to `sped` except for blocking operations: data in memory is used at once; everything else goes to a helper
//! while the loop continues, and the helper's answer arrives as an event. Helpers never touch a socket. The same holds
//! for names: the loop itself opens files whose names the kernel has cached (`RESOLVE_CACHED`), and checks whether open
//! documents are current, because a helper costs ten times as much.

use std::io;

use super::Architecture;
use crate::counters::Served;
use crate::runtime::disk::HelperDisk;
use crate::runtime::epoll;
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

/// The asymmetric multi-process event-driven architecture; helpers are threads or processes.
pub struct Amped;

impl Architecture for Amped {
    fn name(&self) -> &'static str {
        "amped"
    }

    fn summary(&self) -> &'static str {
        "one event loop, with helpers for whatever may block on disk"
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        epoll::run(site, listeners, stop, HelperDisk::new(site)?)
    }
}
