//! Who does what may block: the difference between the architectures that share the loop.

use std::os::fd::BorrowedFd;

use sojourn_content::{Done, Job, ResidencyCounts, Tester};

use crate::counters::{Counter, Served};

/// What becomes of work that may block.
pub enum Submitted {
    /// It is done.
    Done(Done),
    /// Its outcome will be collected.
    Queued,
    /// There is too much to do already.
    Refused,
}

/// Who does it.
pub trait Disk {
    /// Does `job`, or has it done and its outcome collected under `token`.
    fn submit(&mut self, token: u64, job: Job) -> Submitted;

    /// Readable when there are outcomes to collect.
    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Appends the outcomes.
    fn collect(&mut self, _into: &mut Vec<(u64, Done)>) {}

    /// Writes its counters to the table.
    fn report(&self, _served: &mut Served) {}
}

/// Writes a residency test's counters to the table.
pub fn report_residency(tester: &Tester, served: &mut Served) {
    let ResidencyCounts { tests, misses, trusted } = tester.counts();
    served.set(Counter::ResidencyTests, tests);
    served.set(Counter::ResidencyMisses, misses);
    served.set(Counter::ResidencyTrusted, trusted);
}
