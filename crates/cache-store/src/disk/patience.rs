//! The end of patience with a disk that hangs: nobody waits for it any longer, and until it has done something again nobody
//! asks it.
//!
//! Lookups have found nothing, bodies that are being read break off, and bodies that are being written go on without the
//! disk. What hangs stays where it is: the jobs end when the disk lets them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::open::Opening;
use super::read::Loading;
use super::write::Writer;
use super::{Disk, lock};

impl Disk {
    /// Gives up what has waited for longer than `patience`. Whether the disk has kept somebody waiting for so long and has
    /// done nothing since.
    pub fn give_up(&self, patience: Duration) -> bool {
        let (openings, loadings) = (self.overdue_openings(patience), self.overdue_loadings(patience));
        let writers = self.overdue_writers(patience);
        if !(openings.is_empty() && loadings.is_empty() && writers.is_empty()) {
            self.is_hanging.store(true, Ordering::Release);
        }
        self.count_many(&self.counters.read_failures, openings.len() + loadings.len());
        self.count_many(&self.counters.write_failures, writers.len());
        openings.iter().for_each(|opening| opening.finish(None));
        loadings.iter().for_each(|loading| loading.give_up());
        writers.iter().for_each(|writer| writer.cancel());
        self.is_hanging.load(Ordering::Acquire)
    }

    fn overdue_openings(&self, patience: Duration) -> Vec<Arc<Opening>> {
        let mut openings = lock(&self.openings);
        openings.extract_if(|_, opening| opening.is_overdue(patience)).map(|(_, opening)| opening).collect()
    }

    fn overdue_loadings(&self, patience: Duration) -> Vec<Arc<Loading>> {
        lock(&self.loadings).take_overdue(patience)
    }

    fn overdue_writers(&self, patience: Duration) -> Vec<Arc<Writer>> {
        let mut writers = lock(&self.writers);
        writers.extract_if(|_, writer| writer.is_overdue(patience)).map(|(_, writer)| writer).collect()
    }

    fn count_many(&self, counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}
