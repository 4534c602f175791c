//! Threads that do for the cache what may wait for its disk, so that no loop does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sojourn_proxy::store::Store;

/// How often it is seen whether other processes have left the directory.
const LOOK_ROUND_PERIOD: Duration = Duration::from_secs(1);

/// How long what waits to be written is written, once the server has stopped.
const ENDING_PATIENCE: Duration = Duration::from_secs(10);

/// The threads. Dropping it ends them, when what waits to be written is written.
#[derive(Debug)]
pub struct Storekeepers {
    store: Store,
    is_ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Storekeepers {
    /// Starts `count` threads.
    pub(super) fn start(store: &Store, count: usize) -> io::Result<Storekeepers> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let mut keepers =
            Storekeepers { store: store.clone(), is_ending, threads: Vec::with_capacity(count) };
        for number in 0..count {
            let (store, is_ending) = (store.clone(), Arc::clone(&keepers.is_ending));
            let thread = std::thread::Builder::new().name(format!("storekeeper-{number}"));
            keepers.threads.push(thread.spawn(move || keep(&store, &is_ending))?);
        }
        Ok(keepers)
    }
}

impl Drop for Storekeepers {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        self.store.end_jobs();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One thread's life.
fn keep(store: &Store, is_ending: &AtomicBool) {
    let mut looked_round = Instant::now();
    let mut ends_at = None;
    loop {
        let job = store.wait_for_job(LOOK_ROUND_PERIOD);
        if is_ending.load(Ordering::Acquire) {
            let now = Instant::now();
            if job.is_none() || now >= *ends_at.get_or_insert(now + ENDING_PATIENCE) {
                return;
            }
        } else if looked_round.elapsed() >= LOOK_ROUND_PERIOD {
            store.look_round();
            looked_round = Instant::now();
        }
        if let Some(job) = job {
            job.perform();
        }
    }
}
