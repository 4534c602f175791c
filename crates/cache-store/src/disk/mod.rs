//! The disk tier: objects as files that survive restarts and crashes, verified whenever they are read.
//!
//! Every operation that may wait for the disk is a [`DiskJob`], performed by a thread that may block. Lookups consult
//! the index, which knows the keys that are certainly absent. If a write fails, for lack of space or any other reason,
//! the object is merely not stored on disk. A file that fails verification is removed and counts as a miss.

mod directory;
mod format;
mod index;
mod jobs;
mod open;
mod read;
mod write;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::admission::AdmissionKind;
use crate::busy_object::BusyObject;
use crate::key::Key;
use crate::memory::Memory;
use crate::object::Object;
use crate::replacement;
use directory::Directory;
use index::Index;
pub use jobs::{DISK_JOBS_MAX, DiskJob};
pub use open::DiskLookup;
use open::OpenedFile;
use read::{ChunkRead, ChunkReads};
use write::{Source, Writer};

/// The most bytes of complete bodies that wait for the disk, outside the memory budget; above it bodies are not
/// written.
pub const WAITING_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct DiskSettings {
    /// The cache directory; created if it does not exist.
    pub path: PathBuf,
    pub bytes: u64,
    pub object_bytes_max: u64,
    pub policy: replacement::Kind,
    pub admission: AdmissionKind,
}

pub(super) struct Disk {
    directory: Arc<Directory>,
    settings: DiskSettings,
    memory: Arc<Memory>,
    memory_object_bytes_max: u64,
    index: Mutex<Index>,
    /// True if no other process writes to the directory. Until then a key that is not indexed is also looked for on
    /// disk.
    is_alone: AtomicBool,
    is_ending: AtomicBool,
    /// True after a wait exceeded the timeout, until the disk completes something.
    is_hanging: AtomicBool,
    queue: Mutex<VecDeque<Work>>,
    arrival: Condvar,
    lookups: Mutex<HashMap<u128, Arc<DiskLookup>>>,
    chunk_reads: Mutex<ChunkReads>,
    writers: Mutex<HashMap<u128, Arc<Writer>>>,
    /// Purged objects whose files may still exist.
    removals: Mutex<HashMap<u128, usize>>,
    /// Held while a file is renamed to or removed from an object's name, so that a purge is not overtaken. Only jobs
    /// lock it.
    naming: Mutex<()>,
    waiting_bytes: AtomicU64,
    counters: Counters,
}

/// What a [`DiskJob`] does.
enum Work {
    Open(Arc<DiskLookup>),
    Read(Arc<ChunkRead>),
    Write(Arc<Writer>),
    Freshen(Arc<Object>),
    Remove(Key<'static>),
    Scan(u32),
}

#[derive(Default)]
struct Counters {
    written: AtomicU64,
    refused: AtomicU64,
    write_failures: AtomicU64,
    read_failures: AtomicU64,
    damaged: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Bytes of allocated blocks in use.
    pub bytes: u64,
    pub objects: u64,
    /// True once every file has been indexed since the start.
    pub is_indexed: bool,
    pub written: u64,
    pub evictions: u64,
    /// Objects not stored: too large, or not admitted.
    pub refused: u64,
    /// Objects dropped because writing them failed.
    pub write_failures: u64,
    pub read_failures: u64,
    /// Files removed because verification failed.
    pub damaged: u64,
    pub jobs: u64,
}

impl Disk {
    /// Opens the directory; jobs build the index.
    pub fn open(
        settings: DiskSettings,
        memory: Arc<Memory>,
        memory_object_bytes_max: u64,
    ) -> io::Result<Disk> {
        let directory = Arc::new(Directory::open(&settings.path)?);
        Ok(Disk {
            index: Mutex::new(Index::new(settings.bytes, settings.policy, settings.admission)),
            is_alone: AtomicBool::new(directory.lock()),
            is_ending: AtomicBool::new(false),
            is_hanging: AtomicBool::new(false),
            directory,
            settings,
            memory,
            memory_object_bytes_max,
            queue: Mutex::new(VecDeque::from([Work::Scan(0)])),
            arrival: Condvar::new(),
            lookups: Mutex::default(),
            chunk_reads: Mutex::default(),
            writers: Mutex::default(),
            removals: Mutex::default(),
            naming: Mutex::new(()),
            waiting_bytes: AtomicU64::new(0),
            counters: Counters::default(),
        })
    }

    /// If other processes have ended since, takes over the directory and indexes the objects that they wrote.
    pub fn claim_directory(&self) {
        let is_due = !self.is_alone.load(Ordering::Acquire) && lock(&self.index).is_complete;
        if is_due && self.directory.lock() && !self.is_alone.swap(true, Ordering::AcqRel) {
            lock(&self.index).is_complete = false;
            lock(&self.queue).push_back(Work::Scan(0));
            self.arrival.notify_one();
        }
    }

    /// Returns true if there may be files that are not in the index.
    fn may_be_incomplete(&self, index: &Index) -> bool {
        !index.is_complete || !self.is_alone.load(Ordering::Acquire)
    }

    /// Looks up `key` on disk, unless it is certainly absent.
    pub fn look_up(&self, key: &Key<'_>) -> Option<Arc<DiskLookup>> {
        if self.is_hanging.load(Ordering::Acquire) {
            return None;
        }
        let hash = key.hash();
        let mut lookups = lock(&self.lookups);
        if let Some(lookup) = lookups.get(&hash).filter(|lookup| lookup.key() == key) {
            return Some(Arc::clone(lookup));
        }
        let mut index = lock(&self.index);
        index.record_lookup(hash);
        let may_be_there = index.contains(hash) || self.may_be_incomplete(&index);
        drop(index);
        if !may_be_there || lock(&self.removals).contains_key(&hash) {
            return None;
        }
        let lookup = Arc::new(DiskLookup::new(key.clone().into_owned()));
        if !self.submit(Work::Open(Arc::clone(&lookup))) {
            return None;
        }
        lookups.insert(hash, Arc::clone(&lookup));
        Some(lookup)
    }

    /// Prevents a pending lookup of `hash` from returning its object.
    pub fn cancel_lookup(&self, hash: u128) {
        lock(&self.lookups).remove(&hash);
    }

    pub fn holds(&self, hash: u128) -> bool {
        lock(&self.index).contains(hash) && !lock(&self.removals).contains_key(&hash)
    }

    pub fn object_bytes_max(&self) -> u64 {
        self.settings.object_bytes_max
    }

    /// The object at `key` without its body, and the body's length; waits for the disk.
    pub fn inspect(&self, key: &Key<'_>) -> Option<(Arc<Object>, u64)> {
        if lock(&self.removals).contains_key(&key.hash()) {
            return None;
        }
        let OpenedFile { object, header, .. } = self.read_front(key).ok()??;
        Some((object, header.length))
    }

    /// Starts writing a body while it arrives, if it is admitted.
    pub fn begin_write(&self, busy: &Arc<BusyObject>, key: &Key<'static>) {
        let Some(head) = busy.head() else { return };
        let length = head.length.unwrap_or(0);
        let is_let_in = !self.is_hanging.load(Ordering::Acquire)
            && length <= self.settings.object_bytes_max
            && lock(&self.index).admits(key.hash(), length);
        if !is_let_in {
            return self.count(&self.counters.refused, 1);
        }
        let source = Source::BusyObject(Arc::clone(busy));
        let writer = Writer::new(key.clone(), busy.number(), &head.metadata, source);
        busy.write_to_disk();
        self.register(Arc::new(writer));
    }

    /// Writes a complete object.
    pub fn write(&self, object: &Arc<Object>, key: &Key<'_>) {
        let source = Source::Object(Arc::clone(object));
        let writer =
            Arc::new(Writer::new(key.clone().into_owned(), object.number(), object.metadata(), source));
        self.register(Arc::clone(&writer));
        self.await_turn(&writer, object.memory_bytes() as u64);
        self.schedule(writer);
    }

    /// Called when there is more to write of the body being inserted at `key`, or when it has ended.
    pub fn more_to_write(&self, busy: &Arc<BusyObject>, key: &Key<'_>) {
        let writer = lock(&self.writers).get(&key.hash()).filter(|writer| writer.is_of(busy)).map(Arc::clone);
        match writer {
            Some(writer) => {
                let is_turn = busy.claim_disk_turn();
                if let Some(bytes) = busy.bytes_left_at_end() {
                    self.await_turn(&writer, bytes);
                }
                if is_turn {
                    self.schedule(writer);
                }
            }
            // A newer writer has replaced it.
            None => busy.leave_disk(),
        }
    }

    /// Updates the object's metadata on disk.
    pub fn freshen(&self, object: &Arc<Object>) {
        if let Some(writer) = lock(&self.writers).get(&object.hash()) {
            writer.freshen(object);
        }
        self.submit(Work::Freshen(Arc::clone(object)));
    }

    /// Removes the object at `key` and cancels its writer.
    pub fn purge(&self, key: &Key<'_>) -> bool {
        let hash = key.hash();
        let was_looked_up = lock(&self.lookups).remove(&hash).is_some();
        let writer = lock(&self.writers).remove(&hash);
        if let Some(writer) = &writer {
            writer.cancel();
        }
        let mut index = lock(&self.index);
        let was_known = index.contains(hash);
        let may_be_there = was_known || self.may_be_incomplete(&index) || writer.is_some();
        index.remove(hash);
        drop(index);
        if may_be_there {
            *lock(&self.removals).entry(hash).or_default() += 1;
            // A purge is queued even if the queue is over its limit.
            lock(&self.queue).push_back(Work::Remove(key.clone().into_owned()));
            self.arrival.notify_one();
        }
        was_known || was_looked_up || writer.is_some()
    }

    pub fn counts(&self) -> DiskCounts {
        let index = lock(&self.index);
        let (bytes, objects) = index.held();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DiskCounts {
            bytes,
            objects,
            is_indexed: index.is_complete,
            written: of(&self.counters.written),
            evictions: index.evictions,
            refused: of(&self.counters.refused),
            write_failures: of(&self.counters.write_failures),
            read_failures: of(&self.counters.read_failures),
            damaged: of(&self.counters.damaged),
            jobs: lock(&self.queue).len() as u64,
        }
    }

    fn register(&self, writer: Arc<Writer>) {
        if let Some(older) = lock(&self.writers).insert(writer.hash(), writer) {
            older.cancel();
        }
    }

    /// Counts bytes as held for `writer` until it is done; cancels it if that exceeds the limit.
    fn await_turn(&self, writer: &Writer, bytes: u64) {
        writer.await_turn(bytes);
        if self.waiting_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes > WAITING_BYTES_MAX {
            self.count(&self.counters.write_failures, 1);
            writer.cancel();
        }
    }

    fn remove_files(&self, hashes: &[u128]) {
        for hash in hashes {
            let _ = self.directory.remove(*hash);
        }
    }

    /// Removes a file that failed verification.
    fn remove_damaged(&self, hash: u128) {
        self.count(&self.counters.damaged, 1);
        let _naming = lock(&self.naming);
        let _ = self.directory.remove(hash);
        lock(&self.index).remove(hash);
    }

    fn count(&self, counter: &AtomicU64, events: usize) {
        counter.fetch_add(events as u64, Ordering::Relaxed);
    }
}

/// Ignores poisoning: no update panics halfway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
