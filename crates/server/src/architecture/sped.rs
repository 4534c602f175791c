//! SPED: one process with one event loop that does everything, including disk access.
//!
//! A request for data that is not in memory makes the whole server wait for the disk. For cached content nothing is
//! cheaper.

use std::io;

use sojourn_content::Job;

use super::Architecture;
use crate::counters::Served;
use crate::runtime::disk::Inline;
use crate::runtime::disk::{Disk, Submitted};
use crate::runtime::epoll;
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

pub struct Sped;

impl Architecture for Sped {
    fn name(&self) -> &'static str {
        "sped"
    }

    fn summary(&self) -> &'static str {
        "one event loop that does everything itself, disk included"
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        epoll::run(site, listeners, stop, Inline::new(&site.origin))
    }
}

impl Disk for Inline {
    fn submit(&mut self, _token: u64, job: Job) -> Submitted {
        Submitted::Done(self.perform(&job))
    }
}
