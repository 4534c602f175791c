//! Helper threads: a condition variable hands them jobs, an eventfd announces outcomes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use super::queue::{Queue, Queued};
use super::{HelperCounts, Refused};
use crate::job::{Done, Job, Urgency};
use crate::origin::Origin;

#[derive(Debug)]
pub struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: OwnedFd,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    is_stopping: bool,
}

impl Threads {
    pub fn start(origin: &Arc<dyn Origin>, count: usize, queue_max: usize) -> io::Result<Threads> {
        let done = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let state = Mutex::new(State { queue: Queue::new(queue_max), is_stopping: false });
        let shared = Arc::new(Shared { state, work: Condvar::new(), done });
        let mut pool = Threads { shared, threads: Vec::with_capacity(count) };
        for number in 0..count {
            let (shared, origin) = (Arc::clone(&pool.shared), Arc::clone(origin));
            let thread = std::thread::Builder::new().name(format!("helper-{number}"));
            pool.threads.push(thread.spawn(move || shared.help(&*origin))?);
        }
        Ok(pool)
    }

    /// See [`Helpers::submit_at`](super::Helpers::submit_at).
    pub fn submit(&self, token: u64, job: Job, urgency: Urgency) -> Result<(), Refused> {
        self.shared.lock().queue.submit(token, job, urgency)?;
        self.shared.work.notify_one();
        Ok(())
    }

    /// See [`Helpers::completion_fd`](super::Helpers::completion_fd).
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        self.shared.done.as_fd()
    }

    /// See [`Helpers::collect`](super::Helpers::collect).
    pub fn collect(&self, into: &mut Vec<(u64, Done)>) {
        // Clear first: an outcome that arrives in between makes it readable again.
        let _ = rustix::io::read(&self.shared.done, &mut [0; 8]);
        self.shared.lock().queue.collect(into);
    }

    /// See [`Helpers::counts`](super::Helpers::counts).
    pub fn counts(&self) -> HelperCounts {
        self.shared.lock().queue.counts()
    }
}

impl Drop for Threads {
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
        // Ignores poisoning: every update of the state is a single statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn help(&self, origin: &dyn Origin) {
        let mut scratch = Vec::new();
        while let Some(queued) = self.take() {
            let done = queued.job.perform(origin, &mut scratch);
            self.finish(&queued, &done);
        }
    }

    fn take(&self) -> Option<Queued> {
        let mut state = self.lock();
        loop {
            if state.is_stopping {
                return None;
            }
            if let Some(queued) = state.queue.take() {
                return Some(queued);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, queued: &Queued, done: &Done) {
        let mut state = self.lock();
        let was_collected = !state.queue.has_outcomes();
        state.queue.finish(queued, done);
        drop(state);
        if was_collected {
            let _ = rustix::io::write(&self.done, &1u64.to_ne_bytes());
        }
    }
}
