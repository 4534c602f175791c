//! Helpers perform jobs so that an event loop never waits for a disk.
//!
//! Jobs go into a bounded queue; outcomes come back in a list, announced on a descriptor, as in Flash (USENIX ATC 1999,
//! 3.4 and 5.1). Helpers never touch a client's socket, and an outcome enters the caches only when the loop collects
//! it. There are two kinds: threads share the server's memory and return what they read; processes, as in Flash, only
//! report that it is in the page cache, and may be killed.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::job::{Done, Job, Urgency};
use crate::origin::Origin;

mod child;
mod message;
mod processes;
pub(crate) mod queue;
#[cfg(test)]
mod tests;
mod threads;

use processes::Processes;
use threads::Threads;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HelperKind {
    #[default]
    Threads,
    /// Separate processes, only for local directories.
    Processes,
}

impl HelperKind {
    pub const ALL: &[HelperKind] = &[HelperKind::Threads, HelperKind::Processes];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            HelperKind::Threads => "threads",
            HelperKind::Processes => "processes",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelperCounts {
    pub jobs: u64,
    /// Requests that joined an equal job in progress.
    pub coalesced: u64,
    pub refused: u64,
    /// Jobs repeated because their helper ended.
    pub repeated: u64,
    /// Helpers that ended unexpectedly; each is replaced when there is work for it.
    pub helpers_lost: u64,
    /// Jobs waiting in the queue now, without those being performed.
    pub queue_length: u64,
    /// Total time that jobs waited in the queue.
    pub queue_wait: Duration,
    /// Total time that helpers spent performing jobs.
    pub busy: Duration,
}

/// The queue is full, so the caller must shed the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the helpers' queue is full")]
pub struct Refused;

/// A pool of helpers. Dropping it stops them after their current jobs.
pub struct Helpers(Pool);

enum Pool {
    Threads(Threads),
    Processes(Box<Processes>),
}

impl Helpers {
    /// Starts `count` helpers over `origin`. At most `queue_max` jobs of each urgency wait for them. Helper processes
    /// need a local directory as the origin; otherwise this fails with [`io::ErrorKind::Unsupported`].
    pub fn start(
        kind: HelperKind,
        origin: &Arc<dyn Origin>,
        count: usize,
        queue_max: usize,
    ) -> io::Result<Helpers> {
        Ok(Helpers(match kind {
            HelperKind::Threads => Pool::Threads(Threads::start(origin, count, queue_max)?),
            HelperKind::Processes => Pool::Processes(Box::new(Processes::start(origin, count, queue_max)?)),
        }))
    }

    /// Queues `job` for a waiting connection; its outcome is collected with `token`.
    pub fn submit(&mut self, token: u64, job: Job) -> Result<(), Refused> {
        self.submit_at(Urgency::Due, token, job)
    }

    /// Queues `job` behind those of the same urgency.
    pub fn submit_at(&mut self, urgency: Urgency, token: u64, job: Job) -> Result<(), Refused> {
        match &mut self.0 {
            Pool::Threads(pool) => pool.submit(token, job, urgency),
            Pool::Processes(pool) => pool.submit(token, job, urgency),
        }
    }

    /// Readable while there are outcomes to collect.
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Pool::Threads(pool) => pool.completion_fd(),
            Pool::Processes(pool) => pool.completion_fd(),
        }
    }

    /// Appends all outcomes, with the tokens of their jobs, to `into`.
    pub fn collect(&mut self, into: &mut Vec<(u64, Done)>) {
        match &mut self.0 {
            Pool::Threads(pool) => pool.collect(into),
            Pool::Processes(pool) => pool.collect(into),
        }
    }

    pub fn counts(&self) -> HelperCounts {
        match &self.0 {
            Pool::Threads(pool) => pool.counts(),
            Pool::Processes(pool) => pool.counts(),
        }
    }
}
