//! Helpers: they perform jobs so that an event loop never waits for a disk.
//!
//! A bounded queue in, a descriptor to wait on and a list of outcomes back, as in Flash (USENIX ATC 1999, 3.4 and
//! 5.1). Helpers never touch a socket of a client, and an outcome goes into the caches only when the loop has
//! collected it. One file per kind: threads share the server's memory and hand over what they read; processes,
//! as Flash had them, only say that it is in the page cache now, and may be killed.

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
    /// Processes of their own, only for local directories.
    Processes,
}

impl HelperKind {
    pub const ALL: &[HelperKind] = &[HelperKind::Threads, HelperKind::Processes];

    /// The name for the command line.
    pub fn name(self) -> &'static str {
        match self {
            HelperKind::Threads => "threads",
            HelperKind::Processes => "processes",
        }
    }
}

/// The counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelperCounts {
    pub jobs: u64,
    /// Requests that joined a job under way.
    pub coalesced: u64,
    /// Requests refused because the queue was full.
    pub refused: u64,
    /// Jobs repeated because their helper ended.
    pub repeated: u64,
    /// Helpers that ended unasked; each is replaced when there is work for it.
    pub helpers_lost: u64,
    /// Jobs queued now, those being performed not included.
    pub queue_length: u64,
    /// Time that jobs waited in the queue, in all.
    pub queue_wait: Duration,
    /// Time that helpers spent performing jobs, in all.
    pub busy: Duration,
}

/// The queue is full. The caller sheds the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the helpers' queue is full")]
pub struct Refused;

/// A pool of helpers. Dropping it stops them after the jobs they are at.
pub struct Helpers(Pool);

enum Pool {
    Threads(Threads),
    Processes(Box<Processes>),
}

impl Helpers {
    /// Starts `count` helpers over `origin`, with at most `queue_max` jobs of each urgency waiting for them. Processes need an
    /// origin that is a local directory, otherwise this is [`io::ErrorKind::Unsupported`].
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

    /// Queues `job` for a waiting connection; its result is collected under `token`.
    pub fn submit(&mut self, token: u64, job: Job) -> Result<(), Refused> {
        self.submit_at(Urgency::Due, token, job)
    }

    /// Queues `job` among those that are as urgent.
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

    /// Moves all outcomes, with the tokens of their jobs, to the end of `into`.
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
