//! SPED: one process, one event loop, which does everything itself.
//!
//! A request for what is not in memory makes the whole server wait for the disk. On cached content nothing is
//! cheaper.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use sojourn_content::{Done, Job, Origin};

use super::Architecture;
use crate::counters::Served;
use crate::event_loop::{self, Disk, Submitted};
use crate::site::Site;
use crate::stop::Stop;

/// The single-process event-driven architecture.
pub struct Sped;

impl Architecture for Sped {
    fn name(&self) -> &'static str {
        "sped"
    }

    fn summary(&self) -> &'static str {
        "one event loop that does everything itself, disk included"
    }

    fn serve(&self, site: &Site, listener: TcpListener, stop: &Stop) -> io::Result<Served> {
        let disk = Inline { origin: Arc::clone(&site.origin), scratch: Vec::new() };
        event_loop::run(site, listener, stop, disk)
    }
}

/// Whatever may block, the loop does at once.
struct Inline {
    origin: Arc<dyn Origin>,
    scratch: Vec<u8>,
}

impl Disk for Inline {
    fn submit(&mut self, _token: u64, job: Job) -> Submitted {
        match job {
            // Sending reads what is missing; reading it beforehand would only copy it once more.
            Job::Load(range) if !range.into_memory => Submitted::Done(Done::Loaded(Ok(None))),
            job => Submitted::Done(job.perform(&*self.origin, &mut self.scratch)),
        }
    }
}
