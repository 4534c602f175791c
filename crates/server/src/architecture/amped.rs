//! AMPED: the event loop plus helpers for whatever may block on disk.
//!
//! Identical to `sped` but for what may block: data that is in memory is used at once, everything else the loop
//! gives to a helper and goes on; the helper's answer comes back as an event. Helpers never touch a socket.
//! Whether an open document is still current, the loop asks itself: the kernel keeps the path of an open file
//! in memory, and a helper's turn would cost ten times the answer.

use std::io;
use std::net::TcpListener;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sojourn_content::{Done, HelperCounts, Helpers, Job, Opened, Opening, Origin, Refused, Tester};

use super::Architecture;
use crate::counters::{Counter, Served};
use crate::event_loop::{self, Disk, Submitted, report_residency};
use crate::site::Site;
use crate::stop::Stop;

/// The asymmetric multi-process event-driven architecture; its helpers are threads.
pub struct Amped;

impl Architecture for Amped {
    fn name(&self) -> &'static str {
        "amped"
    }

    fn summary(&self) -> &'static str {
        "one event loop, with helpers for whatever may wait for a disk"
    }

    fn serve(&self, site: &Site, listener: TcpListener, stop: &Stop) -> io::Result<Served> {
        let helpers = Helpers::start(&site.origin, site.helpers.max(1), site.limits.helper_queue_max)?;
        let origin = Arc::clone(&site.origin);
        let disk = Helped { helpers, origin, tester: Tester::new(site.residency, site.residency_trust) };
        event_loop::run(site, listener, stop, disk)
    }
}

/// Whatever may block, a helper does.
struct Helped {
    helpers: Helpers,
    origin: Arc<dyn Origin>,
    tester: Tester,
}

impl Helped {
    /// The outcome of opening what is open already, if that is still current.
    fn still_open(&self, opening: &Opening) -> Option<Done> {
        let known = opening.known.as_ref().filter(|known| self.origin.is_current(known))?;
        Some(Done::Opened(Ok(Opened::Document(Arc::clone(known), None))))
    }
}

impl Disk for Helped {
    fn submit(&mut self, token: u64, job: Job) -> Submitted {
        let done = match &job {
            Job::Open(opening) => self.still_open(opening),
            Job::Load(range) => self.tester.load_now(range),
        };
        if let Some(done) = done {
            return Submitted::Done(done);
        }
        match self.helpers.submit(token, job) {
            Ok(()) => Submitted::Queued,
            Err(Refused) => Submitted::Refused,
        }
    }

    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.helpers.completion_fd())
    }

    fn collect(&mut self, into: &mut Vec<(u64, Done)>) {
        self.helpers.collect(into);
    }

    fn report(&self, served: &mut Served) {
        let HelperCounts { jobs, coalesced, refused, queue_length, queue_wait, busy } = self.helpers.counts();
        report_residency(&self.tester, served);
        served.set(Counter::HelperJobs, jobs);
        served.set(Counter::HelperCoalesced, coalesced);
        served.set(Counter::HelperRefused, refused);
        served.set(Counter::HelperQueueLength, queue_length);
        served.set(Counter::HelperQueueWait, queue_wait.as_nanos() as u64);
        served.set(Counter::HelperBusy, busy.as_nanos() as u64);
    }
}
