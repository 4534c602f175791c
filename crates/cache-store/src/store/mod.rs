//! The store: finds objects in memory, on disk and in transit, and keeps the three consistent.

mod insertion;
mod lookup;
mod parts;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hashbrown::DefaultHashBuilder;

use crate::admission::{ADMISSIONS, AdmissionKind};
use crate::busy_object::BusyObject;
use crate::charge::Charge;
use crate::disk::{Disk, DiskCounts, DiskJob, DiskSettings};
use crate::key::Key;
use crate::memory::Memory;
use crate::memory_file::MemoryFiles;
use crate::object::{Object, ObjectKind};
use crate::replacement;
use crate::variants::Variants;
use insertion::{BusyObjects, busy_at, is_at};
pub use insertion::{Insertion, Truncated};
pub use lookup::{InsertOutcome, Lookup, ObjectInfo};
use parts::PurgeGenerations;
pub use parts::{PartHead, PartInsertion};

#[derive(Clone, Debug)]
pub struct Settings {
    /// The budget of the memory tier: all memory of objects (see [`OBJECT_OVERHEAD_BYTES`]) and bodies in transit.
    pub memory_bytes: usize,
    pub memory_object_bytes_max: u64,
    /// The number of shards, each with its own lock. With one, the policy sees all objects; with many, threads rarely
    /// contend.
    pub shards: usize,
    pub policy: replacement::Kind,
    pub admission: AdmissionKind,
    /// The most memory files, into which frequently sent bodies are moved; each needs a descriptor.
    pub memory_files_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes: 256 << 20,
            memory_object_bytes_max: 8 << 20,
            shards: 16,
            policy: replacement::DEFAULT,
            admission: ADMISSIONS[0],
            memory_files_max: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Bytes in use.
    pub bytes: u64,
    pub objects: u64,
    pub evictions: u64,
    /// Objects not stored: too large, or not admitted.
    pub refused: u64,
}

/// The store; clones share it.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    settings: Settings,
    memory: Arc<Memory>,
    files: Arc<MemoryFiles>,
    busy_objects: Mutex<BusyObjects>,
    disk: Option<Arc<Disk>>,
    numbering: DefaultHashBuilder,
    numbered: AtomicU64,
    generations: PurgeGenerations,
}

impl Store {
    /// An empty store without a disk tier.
    pub fn new(settings: Settings) -> Store {
        let memory = memory_of(&settings);
        Store::over(settings, memory, None)
    }

    /// A store with memory and disk tier, including the objects that an earlier process left there. You must perform
    /// its [jobs](Store::take_job).
    pub fn open(settings: Settings, disk: DiskSettings) -> io::Result<Store> {
        let memory = memory_of(&settings);
        let disk = Disk::open(disk, Arc::clone(&memory), settings.memory_object_bytes_max)?;
        Ok(Store::over(settings, memory, Some(Arc::new(disk))))
    }

    fn over(settings: Settings, memory: Arc<Memory>, disk: Option<Arc<Disk>>) -> Store {
        let (numbering, numbered) = (DefaultHashBuilder::default(), AtomicU64::new(0));
        Store(Arc::new(Inner {
            files: MemoryFiles::new(settings.memory_files_max),
            settings,
            memory,
            busy_objects: Mutex::default(),
            disk,
            numbering,
            numbered,
            generations: PurgeGenerations::default(),
        }))
    }

    /// A disk job for a blocking thread; `None` if there is none, or no disk.
    pub fn take_job(&self) -> Option<DiskJob> {
        self.0.disk.as_ref()?.take_job()
    }

    /// Waits for a disk job, at most for `timeout`. A disk thread calls this in a loop.
    pub fn wait_for_job(&self, timeout: Duration) -> Option<DiskJob> {
        self.0.disk.as_ref()?.wait_for_job(timeout)
    }

    /// Ends the disk threads after the queued jobs.
    pub fn end_jobs(&self) {
        self.0.disk.iter().for_each(|disk| disk.end_jobs());
    }

    /// Checks whether this process can take over the directory because its predecessor has ended. Call it regularly.
    pub fn claim_directory(&self) {
        self.0.disk.iter().for_each(|disk| disk.claim_directory());
    }

    /// Times out disk jobs that take longer than `timeout`: lookups miss, bodies being read are truncated, bodies being
    /// written continue without the disk. Returns true if the disk hangs; it then gets no jobs until one completes.
    /// Call it regularly.
    pub fn expire_disk_waits(&self, timeout: Duration) -> bool {
        self.0.disk.as_ref().is_some_and(|disk| disk.expire_waits(timeout))
    }

    /// Starts an insertion at `key`. `known` is the object that the caller found there and cannot use, such as a stale
    /// one.
    pub fn begin(&self, key: &Key<'_>, known: Option<&Arc<Object>>) -> InsertOutcome {
        let mut busy_objects = self.busy_objects();
        if let Some(busy) = busy_at(&busy_objects, key) {
            return InsertOutcome::Busy(busy);
        }
        // Another request may have completed it since the lookup.
        if let Some(object) = self.0.memory.peek(key)
            && object.kind() == ObjectKind::Response
            && known.is_none_or(|known| !Arc::ptr_eq(known, &object))
        {
            return InsertOutcome::Hit(object);
        }
        let key = key.clone().into_owned();
        let busy = Arc::new(BusyObject::new(key.clone(), self.next_number(), Arc::clone(&self.0.memory)));
        busy_objects.insert(key.hash(), (key, Arc::clone(&busy)));
        drop(busy_objects);
        InsertOutcome::Insert(Insertion::new(self.clone(), busy))
    }

    /// Returns true if `object` is still stored at `key`, as far as can be told without waiting.
    pub fn is_current(&self, key: &Key<'_>, object: &Object) -> bool {
        match self.0.memory.peek(key) {
            Some(held) => held.number() == object.number(),
            None => self.0.disk.as_ref().is_some_and(|disk| disk.holds(key.hash())),
        }
    }

    /// Counts one send of `object`, whose body is in memory. Returns the object to send: if it is sent often, a copy
    /// with its body in a memory file.
    pub fn for_sending(&self, object: &Arc<Object>) -> Arc<Object> {
        let place = if object.is_due_for_file() { self.0.files.take() } else { None };
        // Without a free descriptor or memory the object stays as it is.
        match place.and_then(|place| object.with_file(place).ok()) {
            Some(moved) => {
                let moved = Arc::new(moved);
                self.0.memory.exchange(object, &moved);
                moved
            }
            None => Arc::clone(object),
        }
    }

    /// Replaces the object's metadata, as after a 304. The body and its readers stay.
    pub fn freshen(&self, object: &Arc<Object>, metadata: &[u8]) -> Arc<Object> {
        let fresh = Arc::new(object.with_metadata(metadata));
        if fresh.external_body().is_none() {
            self.keep(&fresh);
        }
        if let Some(disk) = &self.0.disk {
            disk.freshen(&fresh);
        }
        fresh
    }

    /// A number that every purge of `key` changes. Read it before a response is requested, and again when its insertion has
    /// begun: if it has changed, the response must not be stored.
    pub fn generation(&self, key: &Key<'_>) -> u64 {
        self.0.generations.purged(key)
    }

    /// Removes the object at `key` with its variants; true if there was one. A body in transit will not be stored.
    pub fn purge(&self, key: &Key<'_>) -> bool {
        // Count first, then remove: an insertion that begins behind this must see that its response is older.
        self.0.generations.count_purge(key);
        // What is in transit first: it would be stored, or listed as a variant, behind the purge.
        let was_busy = self.busy_objects().remove(&key.hash()).is_some();
        // The disk before memory: a lookup that is about to end would put what it found into memory.
        let was_on_disk = self.0.disk.as_ref().is_some_and(|disk| disk.purge(key));
        let removed = self.0.memory.remove(key.hash());
        let were_parts = self.forget_parts(key);
        if let Some(variants) = removed.as_ref().and_then(|object| Variants::of(object)) {
            for variant in variants.keys(key) {
                self.purge(&variant);
            }
        }
        removed.is_some() || was_busy || was_on_disk || were_parts
    }

    /// Removes `object`, unless it was purged or replaced; true if it was there.
    pub fn purge_object(&self, object: &Object) -> bool {
        let key = Key::of_text(object.key_text());
        self.is_current(&key, object) && self.purge(&key)
    }

    /// An empty charge on the memory budget, for a body in transit that is not stored.
    pub fn charge(&self) -> Charge {
        self.0.memory.charge()
    }

    /// Changes a charge to `bytes`, evicting objects while there are any.
    pub fn set_charge(&self, charge: &mut Charge, bytes: usize) {
        self.0.memory.set_charge(charge, bytes);
    }

    /// Returns true if the whole memory budget is used by bodies in transit, so that they must be buffered less.
    pub fn is_exhausted(&self) -> bool {
        self.0.memory.is_exhausted()
    }

    pub fn memory_counts(&self) -> MemoryCounts {
        let memory = &self.0.memory;
        let (evictions, refused) = memory.evicted_and_refused();
        MemoryCounts {
            bytes: memory.used_bytes() as u64,
            objects: memory.objects() as u64,
            evictions,
            refused,
        }
    }

    pub fn disk_counts(&self) -> Option<DiskCounts> {
        self.0.disk.as_ref().map(|disk| disk.counts())
    }

    /// Bytes of the largest body kept in either tier.
    pub fn object_bytes_max(&self) -> u64 {
        let on_disk = self.0.disk.as_ref().map_or(0, |disk| disk.object_bytes_max());
        on_disk.max(self.0.settings.memory_object_bytes_max)
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn keep(&self, object: &Arc<Object>) {
        self.0.memory.insert(object);
    }

    /// Stores the list of the variants of `primary`.
    fn keep_variants(&self, primary: &Key<'_>, variants: &Variants) {
        let metadata = variants.encode();
        let object = Object::new(primary, ObjectKind::Variants, self.next_number(), &metadata, Vec::new());
        let object = Arc::new(object);
        self.keep(&object);
        if let Some(disk) = &self.0.disk {
            disk.write(&object, primary);
        }
    }

    /// Starts writing the body inserted at `key` to disk, too, unless it was purged.
    fn begin_write(&self, key: &Key<'static>, busy: &Arc<BusyObject>) {
        if let Some(disk) = &self.0.disk {
            // Locked meanwhile: a purge removes the body from here, and then cancels its writer.
            let busy_objects = self.busy_objects();
            if is_at(&busy_objects, key, busy) {
                disk.begin_write(busy, key);
            }
        }
    }

    fn more_to_write(&self, key: &Key<'static>, busy: &Arc<BusyObject>) {
        if let Some(disk) = &self.0.disk {
            disk.more_to_write(busy, key);
        }
    }

    /// A number that no other object has, not even one of another process.
    fn next_number(&self) -> u64 {
        let count = self.0.numbered.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        self.0.numbering.hash_one((count, std::process::id(), now))
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Store").field("memory", &self.memory_counts()).finish_non_exhaustive()
    }
}

fn memory_of(settings: &Settings) -> Arc<Memory> {
    let Settings { memory_bytes, shards, policy, admission, .. } = *settings;
    Arc::new(Memory::new(memory_bytes, shards.max(1), policy, admission))
}
