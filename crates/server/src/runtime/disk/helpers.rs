//! Disk jobs by helpers: data in memory is used at once, everything else is queued for a helper.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sojourn_content::{Done, FileRange, HelperCounts, Helpers, Job, Origin, Refused, Tester};

use super::{Disk, Submitted, open_now, report_residency};
use crate::counters::{Counter, Served};
use crate::site::Site;

/// Queues everything that may block for a helper.
pub struct HelperDisk {
    helpers: Helpers,
    origin: Arc<dyn Origin>,
    tester: Tester,
}

impl HelperDisk {
    /// Starts the helpers of `site`.
    pub fn new(site: &Site) -> io::Result<HelperDisk> {
        let (count, queue_max) = (site.helpers.max(1), site.limits.helper_queue_max);
        let helpers = Helpers::start(site.helper_kind, &site.origin, count, queue_max)?;
        let tester = Tester::new(site.residency, site.residency_trust);
        Ok(HelperDisk { helpers, origin: Arc::clone(&site.origin), tester })
    }

    /// The outcome of loading `range`, if it is in memory.
    pub fn load_now(&mut self, range: &FileRange) -> Option<Done> {
        self.tester.load_now(range).ok()
    }
}

impl Disk for HelperDisk {
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
