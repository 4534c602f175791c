//! Helpers: threads that perform jobs so that an event loop never waits for a disk.
//!
//! A bounded queue in, an eventfd and a list of outcomes back, as in Flash. Jobs for the same thing are done
//! once: whoever asks while one is queued or running waits for that one. Helpers never touch a socket, and the
//! outcome goes into the caches only when the loop has collected it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use crate::job::{Done, Job};
use crate::origin::Origin;

/// The counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelperCounts {
    /// Jobs performed.
    pub jobs: u64,
    /// Requests that joined a job under way.
    pub coalesced: u64,
    /// Requests refused because the queue was full.
    pub refused: u64,
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
#[derive(Debug)]
pub struct Helpers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: OwnedFd,
    queue_max: usize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Queued>,
    /// Who waits for each job queued or running.
    waiting: HashMap<Key, Vec<u64>>,
    outcomes: Vec<(u64, Done)>,
    counts: HelperCounts,
    is_stopping: bool,
}

#[derive(Debug)]
struct Queued {
    key: Key,
    job: Job,
    since: Instant,
}

/// What makes two jobs the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Path(Box<[u8]>),
    Range(u64, u64),
}

impl Key {
    fn of(job: &Job) -> Key {
        match job {
            Job::Open(opening) => Key::Path(opening.path.as_bytes().into()),
            Job::Load(range) => Key::Range(range.document.id, range.offset),
        }
    }
}

impl Helpers {
    /// Starts `count` helpers over `origin`, with at most `queue_max` jobs waiting for them.
    pub fn start(origin: &Arc<dyn Origin>, count: usize, queue_max: usize) -> io::Result<Helpers> {
        let done = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new(), done, queue_max });
        let mut helpers = Helpers { shared, threads: Vec::with_capacity(count) };
        for number in 0..count {
            let (shared, origin) = (Arc::clone(&helpers.shared), Arc::clone(origin));
            let thread = std::thread::Builder::new().name(format!("helper-{number}"));
            helpers.threads.push(thread.spawn(move || shared.help(&*origin))?);
        }
        Ok(helpers)
    }

    /// Queues `job`; its outcome will be collected under `token`.
    pub fn submit(&self, token: u64, job: Job) -> Result<(), Refused> {
        let key = Key::of(&job);
        let mut state = self.shared.lock();
        if let Some(tokens) = state.waiting.get_mut(&key) {
            tokens.push(token);
            state.counts.coalesced += 1;
            return Ok(());
        }
        if state.queue.len() >= self.shared.queue_max {
            state.counts.refused += 1;
            return Err(Refused);
        }
        state.waiting.insert(key.clone(), vec![token]);
        state.queue.push_back(Queued { key, job, since: Instant::now() });
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Readable while there are outcomes to collect.
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        self.shared.done.as_fd()
    }

    /// Moves all outcomes, with the tokens of those who asked, to the end of `into`.
    pub fn collect(&self, into: &mut Vec<(u64, Done)>) {
        // Cleared first: an outcome that arrives in between makes it readable again.
        let _ = rustix::io::read(&self.shared.done, &mut [0; 8]);
        into.append(&mut self.shared.lock().outcomes);
    }

    /// The counters.
    pub fn counts(&self) -> HelperCounts {
        let state = self.shared.lock();
        HelperCounts { queue_length: state.queue.len() as u64, ..state.counts }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.shared.lock().is_stopping = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A helper that panicked left counters and queues whole: every update is one statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One helper's life.
    fn help(&self, origin: &dyn Origin) {
        let mut scratch = Vec::new();
        while let Some(Queued { key, job, since }) = self.next() {
            let begun = Instant::now();
            let done = job.perform(origin, &mut scratch);
            self.finish(&key, &done, begun - since, begun.elapsed());
        }
    }

    fn next(&self) -> Option<Queued> {
        let mut state = self.lock();
        loop {
            if state.is_stopping {
                return None;
            }
            if let Some(queued) = state.queue.pop_front() {
                return Some(queued);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, key: &Key, done: &Done, queue_wait: Duration, busy: Duration) {
        let mut state = self.lock();
        let was_empty = state.outcomes.is_empty();
        for token in state.waiting.remove(key).unwrap_or_default() {
            state.outcomes.push((token, done.clone()));
        }
        state.counts.jobs += 1;
        state.counts.queue_wait += queue_wait;
        state.counts.busy += busy;
        drop(state);
        if was_empty {
            let _ = rustix::io::write(&self.done, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::job::{Opened, Opening};
    use crate::origin::{Directory, Found, OpenError};
    use rustix::event::{PollFd, PollFlags, poll};
    use sojourn_http::SitePath;

    /// An origin whose disk waits until it is told to go on.
    struct Gated {
        directory: Directory,
        gate: Mutex<bool>,
        opened: Condvar,
    }

    impl Gated {
        fn open_gate(&self) {
            *self.gate.lock().unwrap() = true;
            self.opened.notify_all();
        }
    }

    impl Origin for Gated {
        fn open(&self, path: &SitePath<'_>) -> Result<Found, OpenError> {
            let gate = self.opened.wait_while(self.gate.lock().unwrap(), |open| !*open).unwrap();
            drop(gate);
            self.directory.open(path)
        }
        fn is_current(&self, document: &Document) -> bool {
            self.directory.is_current(document)
        }
        fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
            self.directory.read(document, offset, into)
        }
    }

    fn open(target: &str) -> Job {
        let path = SitePath::decode(target.as_bytes()).unwrap().into_owned();
        Job::Open(Opening { path, known: None, body_bytes_max: 64 * 1024 })
    }

    fn collect(helpers: &Helpers, count: usize) -> Vec<(u64, Done)> {
        let mut outcomes = Vec::new();
        while outcomes.len() < count {
            let timeout = rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 };
            let fd = helpers.completion_fd();
            assert_eq!(
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)),
                Ok(1),
                "no outcome in 10 s"
            );
            helpers.collect(&mut outcomes);
        }
        outcomes.sort_by_key(|(token, _)| *token);
        outcomes
    }

    #[test]
    fn one_job_for_all_who_ask_and_a_bound_on_the_queue() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), "hello").unwrap();
        let directory = Directory::new(root.path(), false).unwrap();
        let gated = Arc::new(Gated { directory, gate: Mutex::new(false), opened: Condvar::new() });
        let origin: Arc<dyn Origin> = Arc::<Gated>::clone(&gated);
        let helpers = Helpers::start(&origin, 1, 1).unwrap();

        helpers.submit(1, open("/a")).unwrap();
        while helpers.counts().queue_length > 0 {
            std::thread::yield_now();
        }
        helpers.submit(2, open("/a")).unwrap();
        helpers.submit(3, open("/none")).unwrap();
        helpers.submit(4, open("/none")).unwrap();
        assert_eq!(helpers.submit(5, open("/b")), Err(Refused));
        gated.open_gate();

        let outcomes = collect(&helpers, 4);
        for (_, done) in &outcomes[..2] {
            assert!(matches!(done, Done::Opened(Ok(Opened::Document(_, Some(body)))) if **body == *b"hello"));
        }
        for (_, done) in &outcomes[2..] {
            assert!(matches!(done, Done::Opened(Err(OpenError::NotFound))));
        }
        let counts = helpers.counts();
        assert_eq!((counts.jobs, counts.coalesced, counts.refused, counts.queue_length), (2, 2, 1, 0));
    }

    #[test]
    fn dropping_the_pool_ends_the_helpers() {
        let root = tempfile::tempdir().unwrap();
        let origin: Arc<dyn Origin> = Arc::new(Directory::new(root.path(), false).unwrap());
        let helpers = Helpers::start(&origin, 3, 8).unwrap();
        helpers.submit(1, open("/none")).unwrap();
        drop(helpers);
        assert_eq!(Arc::strong_count(&origin), 1);
    }
}
