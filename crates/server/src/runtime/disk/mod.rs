//! Performs jobs that may block on disk: this is where the architectures that share an event loop differ.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use sojourn_content::{Done, Job, Opened, Opening, Origin, ResidencyCounts, Tester};

use crate::clients;
use crate::connection::{Event, Lane};
use crate::counters::{Counter, Served};

mod helpers;

pub use helpers::HelperDisk;

pub enum Submitted {
    Done(Done),
    /// The outcome will be collected later.
    Queued,
    /// The queue is full.
    Refused,
}

/// Performs jobs that may block.
pub trait Disk {
    /// Performs `job`, or queues it so that its outcome is collected with `token`.
    fn submit(&mut self, token: u64, job: Job) -> Submitted;

    /// Performs `job` in `lane` for the client with `token`, or queues it; returns the event for the client.
    fn delegate(&mut self, token: u64, lane: Lane, job: Job) -> Event {
        match self.submit(clients::in_lane(token, lane), job) {
            Submitted::Done(done) => Event::Delivered(lane, Some(done)),
            Submitted::Refused => Event::Delivered(lane, None),
            Submitted::Queued => Event::Delegated,
        }
    }

    /// Readable when there are outcomes to collect.
    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn collect(&mut self, _into: &mut Vec<(u64, Done)>) {}

    /// Adds its counters to the table.
    fn report(&self, _served: &mut Served) {}
}

/// The outcome of opening a document if that needs no waiting: it is open and still current, or the kernel has cached
/// the name.
pub fn open_now(origin: &dyn Origin, opening: &Opening) -> Option<Done> {
    if let Some(known) = opening.known.as_ref().filter(|known| origin.is_current(&opening.resource, known)) {
        return Some(Done::Opened(Ok(Opened::Document(Arc::clone(known), None))));
    }
    origin.open_now(&opening.resource).map(|found| Done::Opened(found.map(Opened::from)))
}

/// Adds a residency test's counters to the table.
pub fn report_residency(tester: &Tester, served: &mut Served) {
    let ResidencyCounts { tests, misses, trusted } = tester.counts();
    served.set(Counter::ResidencyTests, tests);
    served.set(Counter::ResidencyMisses, misses);
    served.set(Counter::ResidencyTrusted, trusted);
}

/// The origin, and a buffer for bytes that are discarded.
pub struct Inline {
    origin: Arc<dyn Origin>,
    scratch: Vec<u8>,
}

impl Inline {
    pub fn new(origin: &Arc<dyn Origin>) -> Inline {
        Inline { origin: Arc::clone(origin), scratch: Vec::new() }
    }

    /// Performs `job`, blocking as long as needed.
    pub fn perform(&mut self, job: &Job) -> Done {
        match job {
            // Sending will read missing pages; reading them before would only copy them once more.
            Job::Load(range) if !range.into_memory => Done::Loaded(Ok(None)),
            job => job.perform(&*self.origin, &mut self.scratch),
        }
    }
}
