//! AMPED: the event loop plus helpers for whatever may block on disk.
//!
//! Identical to `sped` but for what may block: data that is in memory is used at once, everything else the loop
//! gives to a helper and goes on; the helper's answer comes back as an event. Helpers never touch a socket.

use std::io;
use std::net::TcpListener;
use std::os::fd::BorrowedFd;

use sojourn_content::residency::Answer;
use sojourn_content::{Done, FileRange, HelperCounts, Helpers, Job, Refused, Residency};

use super::Architecture;
use crate::counters::{Counter, Served};
use crate::event_loop::{self, Disk, Submitted};
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
        let disk = Helped { helpers, residency: site.residency, tests: 0, misses: 0 };
        event_loop::run(site, listener, stop, disk)
    }
}

/// Whatever may block, a helper does.
struct Helped {
    helpers: Helpers,
    residency: &'static dyn Residency,
    tests: u64,
    misses: u64,
}

impl Helped {
    /// The outcome of loading `range`, if that needs no waiting.
    fn load_now(&mut self, range: &FileRange) -> Option<Done> {
        self.tests += 1;
        let file = &range.document.file;
        if range.is_small() {
            let mut body = vec![0; range.length];
            let answer = self.residency.read_now(file, range.offset, &mut body);
            (answer == Answer::Resident).then(|| Done::Loaded(Ok(Some(body.into()))))
        } else {
            let answer = self.residency.test(file, range.offset, range.length);
            (answer == Answer::Resident).then_some(Done::Loaded(Ok(None)))
        }
    }
}

impl Disk for Helped {
    fn submit(&mut self, token: u64, job: Job) -> Submitted {
        if let Job::Load(range) = &job {
            if let Some(done) = self.load_now(range) {
                return Submitted::Done(done);
            }
            self.misses += 1;
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
        served.set(Counter::ResidencyTests, self.tests);
        served.set(Counter::ResidencyMisses, self.misses);
        served.set(Counter::HelperJobs, jobs);
        served.set(Counter::HelperCoalesced, coalesced);
        served.set(Counter::HelperRefused, refused);
        served.set(Counter::HelperQueueLength, queue_length);
        served.set(Counter::HelperQueueWait, queue_wait.as_nanos() as u64);
        served.set(Counter::HelperBusy, busy.as_nanos() as u64);
    }
}
