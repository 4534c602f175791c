//! The queue of disk jobs, which blocking threads perform.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::directory::FANOUT;
use super::open::{DiskLookup, OpenedFile};
use super::read::ChunkRead;
use super::write::Writer;
use super::{Disk, Work, lock};
use crate::key::Key;
use crate::variants::Variants;

/// The most queued jobs; above it objects are not written, and lookups miss.
pub const DISK_JOBS_MAX: usize = 16 * 1024;

/// A task that may wait for the disk.
pub struct DiskJob {
    disk: Arc<Disk>,
    work: Work,
}

impl DiskJob {
    /// Performs the job, blocking as long as needed, and wakes what waits for it.
    pub fn perform(self) {
        let DiskJob { disk, work } = self;
        match work {
            Work::Open(lookup) => disk.perform_open(&lookup),
            Work::Read(chunk_read) => chunk_read.perform(),
            Work::Write(writer) => disk.perform_write(&writer),
            Work::Freshen(object) => disk.perform_freshen(&object),
            Work::Remove(key) => disk.perform_remove(&key),
            Work::Scan(number) => disk.perform_scan(number),
        }
        disk.is_hanging.store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for DiskJob {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match &self.work {
            Work::Open(_) => "Open",
            Work::Read(_) => "Read",
            Work::Write(_) => "Write",
            Work::Freshen(_) => "Freshen",
            Work::Remove(_) => "Remove",
            Work::Scan(_) => "Scan",
        };
        formatter.write_str(name)
    }
}

impl Disk {
    pub fn take_job(self: &Arc<Self>) -> Option<DiskJob> {
        let work = lock(&self.queue).pop_front()?;
        Some(DiskJob { disk: Arc::clone(self), work })
    }

    pub fn wait_for_job(self: &Arc<Self>, timeout: Duration) -> Option<DiskJob> {
        let queue = lock(&self.queue);
        let is_idle =
            |queue: &mut VecDeque<Work>| queue.is_empty() && !self.is_ending.load(Ordering::Acquire);
        let waited = self.arrival.wait_timeout_while(queue, timeout, is_idle);
        let work = waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()?;
        Some(DiskJob { disk: Arc::clone(self), work })
    }

    /// Ends the disk threads once the queue is empty.
    pub fn end_jobs(&self) {
        let queue = lock(&self.queue);
        self.is_ending.store(true, Ordering::Release);
        drop(queue);
        self.arrival.notify_all();
    }

    pub(super) fn schedule(&self, writer: Arc<Writer>) {
        let mut queue = lock(&self.queue);
        if queue.len() >= DISK_JOBS_MAX {
            self.count(&self.counters.write_failures, 1);
            writer.cancel();
        }
        // A cancelled write still has to clean up, which is quick.
        queue.push_back(Work::Write(writer));
        self.arrival.notify_one();
    }

    pub(super) fn submit(&self, work: Work) -> bool {
        let mut queue = lock(&self.queue);
        let has_room = queue.len() < DISK_JOBS_MAX;
        if has_room {
            queue.push_back(work);
            self.arrival.notify_one();
        }
        has_room
    }

    fn perform_scan(&self, number: u32) {
        if number == 0 {
            let _ = self.directory.clear_temporaries();
        }
        match self.directory.list(number) {
            Ok(mut objects) => {
                // Oldest first, so that the policy sees them in order.
                objects.sort_by_key(|(_, _, changed)| *changed);
                let mut evicted = Vec::new();
                let mut index = lock(&self.index);
                for (hash, bytes, _) in objects {
                    if !index.contains(hash) && !lock(&self.removals).contains_key(&hash) {
                        index.insert(hash, bytes);
                    }
                }
                index.shrink(&mut evicted);
                drop(index);
                self.remove_files(&evicted);
            }
            Err(_) => self.count(&self.counters.read_failures, 1),
        }
        if self.is_ending.load(Ordering::Acquire) {
            return;
        }
        if number + 1 < FANOUT {
            lock(&self.queue).push_back(Work::Scan(number + 1));
            self.arrival.notify_one();
        } else {
            lock(&self.index).is_complete = true;
        }
    }

    fn perform_remove(&self, key: &Key<'_>) {
        let naming = lock(&self.naming);
        let opened = self.read_front(key);
        let _ = self.directory.remove(key.hash());
        lock(&self.index).remove(key.hash());
        drop(naming);
        let mut removals = lock(&self.removals);
        if let Some(count) = removals.get_mut(&key.hash()) {
            *count -= 1;
            if *count == 0 {
                removals.remove(&key.hash());
            }
        }
        drop(removals);
        // A variant list that was only on disk: its variants are removed too.
        if let Ok(Some(OpenedFile { object, .. })) = opened
            && let Some(variants) = Variants::of(&object)
        {
            for variant in variants.keys(key) {
                // In this order: a lookup that is about to end would put what it found into memory.
                self.purge(&variant);
                self.memory.remove(variant.hash());
            }
        }
    }
}

impl Disk {
    /// Times out waits longer than `timeout`. Returns true if there was one and the disk has completed nothing since.
    pub fn expire_waits(&self, timeout: Duration) -> bool {
        let (lookups, chunk_reads) = (self.overdue_lookups(timeout), self.overdue_chunk_reads(timeout));
        let writers = self.overdue_writers(timeout);
        if !(lookups.is_empty() && chunk_reads.is_empty() && writers.is_empty()) {
            self.is_hanging.store(true, Ordering::Release);
        }
        self.count(&self.counters.read_failures, lookups.len() + chunk_reads.len());
        self.count(&self.counters.write_failures, writers.len());
        lookups.iter().for_each(|lookup| lookup.finish(None));
        chunk_reads.iter().for_each(|chunk_read| chunk_read.fail());
        writers.iter().for_each(|writer| writer.cancel());
        self.is_hanging.load(Ordering::Acquire)
    }

    fn overdue_lookups(&self, timeout: Duration) -> Vec<Arc<DiskLookup>> {
        let mut lookups = lock(&self.lookups);
        lookups.extract_if(|_, lookup| lookup.is_overdue(timeout)).map(|(_, lookup)| lookup).collect()
    }

    fn overdue_chunk_reads(&self, timeout: Duration) -> Vec<Arc<ChunkRead>> {
        lock(&self.chunk_reads).take_overdue(timeout)
    }

    fn overdue_writers(&self, timeout: Duration) -> Vec<Arc<Writer>> {
        let mut writers = lock(&self.writers);
        writers.extract_if(|_, writer| writer.is_overdue(timeout)).map(|(_, writer)| writer).collect()
    }
}
