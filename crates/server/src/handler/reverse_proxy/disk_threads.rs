//! Threads for the cache's disk I/O, and one that times out a hanging disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sojourn_cache_store::Store;

use crate::stderr;

/// How often it is checked whether other processes have left the directory.
const LOOK_ROUND_PERIOD: Duration = Duration::from_secs(1);

/// How long pending writes may take once the server has stopped.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the disk is checked for hanging.
const WATCH_PERIOD: Duration = Duration::from_millis(250);

/// The threads; dropping this ends them after the pending writes.
#[derive(Debug)]
pub struct DiskThreads {
    store: Store,
    is_ending: Arc<AtomicBool>,
    timeout: Duration,
    threads: Vec<JoinHandle<()>>,
    watch: Option<JoinHandle<()>>,
}

impl DiskThreads {
    /// Starts `count` threads; requests wait for them at most `timeout`.
    pub(super) fn start(store: &Store, count: usize, timeout: Duration) -> io::Result<DiskThreads> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let threads = Vec::with_capacity(count);
        let mut disk_threads = DiskThreads { store: store.clone(), is_ending, timeout, threads, watch: None };
        for number in 0..count {
            let (store, is_ending) = (store.clone(), Arc::clone(&disk_threads.is_ending));
            let thread = std::thread::Builder::new().name(format!("cache-disk-{number}"));
            disk_threads.threads.push(thread.spawn(move || keep(&store, &is_ending))?);
        }
        let (store, is_ending) = (store.clone(), Arc::clone(&disk_threads.is_ending));
        let thread = std::thread::Builder::new().name("disk-watch".to_owned());
        disk_threads.watch = Some(thread.spawn(move || watch(&store, timeout, &is_ending))?);
        Ok(disk_threads)
    }
}

impl Drop for DiskThreads {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        self.store.end_jobs();
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            let _ = watch.join();
        }
        if self.store.expire_disk_waits(self.timeout) {
            // It may never return, so the process does not wait for it.
            return;
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn keep(store: &Store, is_ending: &AtomicBool) {
    let mut looked_round = Instant::now();
    let mut ends_at = None;
    loop {
        let job = store.wait_for_job(LOOK_ROUND_PERIOD);
        if is_ending.load(Ordering::Acquire) {
            let now = Instant::now();
            if job.is_none() || now >= *ends_at.get_or_insert(now + DRAIN_TIMEOUT) {
                return;
            }
        } else if looked_round.elapsed() >= LOOK_ROUND_PERIOD {
            store.claim_directory();
            looked_round = Instant::now();
        }
        if let Some(job) = job {
            job.perform();
        }
    }
}

/// Times out disk jobs after `timeout`, and reports when the disk hangs and when it recovers.
fn watch(store: &Store, timeout: Duration, is_ending: &AtomicBool) {
    let mut was_hanging = false;
    while !is_ending.load(Ordering::Acquire) {
        let is_hanging = store.expire_disk_waits(timeout);
        if is_hanging != was_hanging {
            stderr::write(if is_hanging {
                "warning: the cache's disk does not respond: continuing without it until it does\n"
            } else {
                "the cache's disk responds again\n"
            });
        }
        was_hanging = is_hanging;
        std::thread::park_timeout(WATCH_PERIOD);
    }
}
