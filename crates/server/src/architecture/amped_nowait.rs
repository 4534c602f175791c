//! AMPED without helpers: the kernel reads missing data ahead, and a timer checks when it has arrived.
//!
//! The loop tests before it sends, like `amped`, and never reads missing data. Opening is different: names that the
//! kernel has cached are opened at once (`RESOLVE_CACHED`), but the others cannot be looked up without waiting, so the
//! loop waits, like `sped`, and counts it. If no residency test works, the end of reading ahead cannot be detected, and
//! the loop reads the data itself.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sojourn_content::{Absent, Done, HelperCounts, Job, Opening, Origin, Readahead, Refused, Tester};

use super::Architecture;
use crate::counters::{Counter, Served};
use crate::runtime::disk::{Disk, Submitted, open_now, report_residency};
use crate::runtime::epoll;
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

/// The event-driven architecture that polls for data read ahead.
pub struct AmpedNowait;

impl Architecture for AmpedNowait {
    fn name(&self) -> &'static str {
        "amped-nowait"
    }

    fn summary(&self) -> &'static str {
        "one event loop that lets the kernel read ahead and retries; only opens may block on disk"
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        let disk = ReadaheadDisk {
            readahead: Readahead::new(site.limits.helper_queue_max)?,
            origin: Arc::clone(&site.origin),
            tester: Tester::new(site.residency, site.residency_trust),
            blocking_opens: 0,
        };
        epoll::run(site, listeners, stop, disk)
    }
}

/// Disk operations in the background by readahead, except opening files.
struct ReadaheadDisk {
    readahead: Readahead,
    origin: Arc<dyn Origin>,
    tester: Tester,
    blocking_opens: u64,
}

impl ReadaheadDisk {
    fn open(&mut self, opening: Opening) -> Done {
        if let Some(done) = open_now(&*self.origin, &opening) {
            return done;
        }
        self.blocking_opens += 1;
        // There is no need to wait for the body.
        perform(&*self.origin, &Job::Open(Opening { known: None, body_bytes_max: 0, ..opening }))
    }
}

impl Disk for ReadaheadDisk {
    fn submit(&mut self, token: u64, job: Job) -> Submitted {
        let range = match job {
            Job::Open(opening) => return Submitted::Done(self.open(opening)),
            Job::Load(range) => range,
        };
        match self.tester.load_now(&range) {
            Ok(done) => Submitted::Done(done),
            Err(Absent::Unknown) => Submitted::Done(perform(&*self.origin, &Job::Load(range))),
            Err(Absent::Missing) => match self.readahead.submit(token, &range) {
                Ok(()) => Submitted::Queued,
                Err(Refused) => Submitted::Refused,
            },
        }
    }

    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.readahead.completion_fd())
    }

    fn collect(&mut self, into: &mut Vec<(u64, Done)>) {
        self.readahead.collect(&mut self.tester, into);
    }

    fn report(&self, served: &mut Served) {
        let HelperCounts { coalesced, refused, queue_length, queue_wait, .. } = self.readahead.counts();
        report_residency(&self.tester, served);
        served.set(Counter::BlockingOpens, self.blocking_opens);
        served.set(Counter::HelperCoalesced, coalesced);
        served.set(Counter::HelperRefused, refused);
        served.set(Counter::HelperQueueLength, queue_length);
        served.set(Counter::HelperQueueWait, queue_wait.as_nanos() as u64);
    }
}

fn perform(origin: &dyn Origin, job: &Job) -> Done {
    job.perform(origin, &mut Vec::new())
}
