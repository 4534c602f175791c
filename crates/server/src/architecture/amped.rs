//! AMPED: the event loop plus helpers for whatever may block on disk.
//!
//! Identical to `sped` but for what may block: data that is in memory is used at once, everything else the loop
//! gives to a helper and goes on; the helper's answer comes back as an event. Helpers never touch a socket.
//! Names are like data: those that the kernel remembers (`RESOLVE_CACHED`) the loop opens at once, because a helper's
//! turn costs ten times the answer, and for the same reason it asks itself whether an open document is current.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sojourn_content::{Done, FileRange, HelperCounts, Helpers, Job, Origin, Refused, Tester};

use super::Architecture;
use crate::counters::{Counter, Served};
use crate::runtime::disk::{Disk, Submitted, open_now, report_residency};
use crate::runtime::epoll;
use crate::runtime::sockets::listener::Listener;
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

/// Whatever may block, a helper does.
pub struct Helped {
    helpers: Helpers,
    origin: Arc<dyn Origin>,
    tester: Tester,
}

impl Helped {
    /// Starts the helpers that `site` asks for.
    pub fn new(site: &Site) -> io::Result<Helped> {
        let (count, queue_max) = (site.helpers.max(1), site.limits.helper_queue_max);
        let helpers = Helpers::start(site.helper_kind, &site.origin, count, queue_max)?;
        let tester = Tester::new(site.residency, site.residency_trust);
        Ok(Helped { helpers, origin: Arc::clone(&site.origin), tester })
    }

    /// The outcome of loading `range`, if it is in memory.
    pub fn load_now(&mut self, range: &FileRange) -> Option<Done> {
        self.tester.load_now(range).ok()
    }
}

impl Disk for Helped {
    fn submit(&mut self, token: u64, job: Job) -> Submitted {
        let done = match &job {
            Job::Open(opening) => open_now(&*self.origin, opening),
            Job::Load(range) => self.load_now(range),
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
        use Counter as C;
        let HelperCounts { jobs, coalesced, refused, repeated, helpers_lost, queue_length, queue_wait, busy } =
            self.helpers.counts();
        report_residency(&self.tester, served);
        let counts = [
            (C::HelperJobs, jobs),
            (C::HelperCoalesced, coalesced),
            (C::HelperRefused, refused),
            (C::HelperRepeated, repeated),
            (C::HelpersLost, helpers_lost),
            (C::HelperQueueLength, queue_length),
            (C::HelperQueueWait, queue_wait.as_nanos() as u64),
            (C::HelperBusy, busy.as_nanos() as u64),
        ];
        for (counter, count) in counts {
            served.set(counter, count);
        }
    }
}
