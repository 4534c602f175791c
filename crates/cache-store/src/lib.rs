//! Where the caching proxy keeps responses: memory, and a disk behind it.
//!
//! A [`Key`] finds an [`Object`]: metadata that is the caller's business, and a body. What is not there is filled by
//! one [`Fill`] while any number of [`Reader`]s follow. Nothing here waits: what has to be waited for takes a
//! [`Waker`](std::task::Waker), and calls it from whichever thread it comes.

mod admission;
mod chunks;
mod disk;
#[cfg(test)]
mod disk_tests;
mod disk_turn;
mod extent;
#[cfg(test)]
mod file_tests;
mod fill;
mod filling;
mod filling_state;
mod fillings;
mod found;
#[cfg(test)]
mod hanging_disk_tests;
mod held;
mod key;
mod memory;
mod memory_file;
#[cfg(test)]
mod model_tests;
mod object;
mod parts;
#[cfg(test)]
mod parts_tests;
mod reader;
pub mod replacement;
mod settings;
pub mod simulation;
#[cfg(test)]
mod tests;
mod variants;

use std::hash::BuildHasher;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

pub use admission::{ADMISSIONS, Admission, AdmissionKind, admission_by_name};
pub use disk::{DiskCounts, DiskSettings, JOBS_MAX, Job, Opening};
pub use extent::{Extent, Slice};
pub use fill::{Fill, Truncated};
pub use filling::{Filling, Sharing, Stage, Started, Vary, WINDOW_BYTES};
pub use found::{Begun, Found, Inspected};
pub use held::{Held, PARTS_MAX, pieces};
pub use key::{KEY_TEXT_BYTES_MAX, Key};
pub use object::{OBJECT_BYTES, Object, ObjectKind, SMALL_BODY_BYTES_MAX};
pub use parts::{PartFill, PartHead};
pub use reader::{Next, Reader};
pub use settings::{MemoryCounts, Settings};
pub use variants::{VARIANTS_MAX, Variants};

use disk::Disk;
use fillings::{Fillings, filling_at};
use hashbrown::DefaultHashBuilder;
use memory::Memory;
use memory_file::MemoryFiles;
use parts::Stamps;

/// The store. Clones share it.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    settings: Settings,
    memory: Arc<Memory>,
    files: Arc<MemoryFiles>,
    fillings: Mutex<Fillings>,
    disk: Option<Arc<Disk>>,
    numbering: DefaultHashBuilder,
    numbered: AtomicU64,
    stamps: Stamps,
}

impl Store {
    /// An empty store in memory alone.
    pub fn new(settings: Settings) -> Store {
        let memory = memory_of(&settings);
        Store::over(settings, memory, None)
    }

    /// A store with a disk behind its memory, and what an earlier one left there. Its [jobs](Store::take_job) have to
    /// be performed.
    pub fn open(settings: Settings, disk: DiskSettings) -> io::Result<Store> {
        let memory = memory_of(&settings);
        let disk = Disk::open(disk, Arc::clone(&memory), settings.memory_object_bytes_max)?;
        Ok(Store::over(settings, memory, Some(Arc::new(disk))))
    }

    fn over(settings: Settings, memory: Arc<Memory>, disk: Option<Arc<Disk>>) -> Store {
        let (numbering, numbered) = (DefaultHashBuilder::default(), AtomicU64::new(0));
        Store(Arc::new(Inner {
            files: MemoryFiles::new(settings.files_max),
            settings,
            memory,
            fillings: Mutex::default(),
            disk,
            numbering,
            numbered,
            stamps: Stamps::default(),
        }))
    }

    /// Something to do for the disk, for whoever may wait; `None` if there is nothing, or no disk.
    pub fn take_job(&self) -> Option<Job> {
        self.0.disk.as_ref()?.take_job()
    }

    /// The same, waited for at most so long: what a thread for such jobs does in a loop.
    pub fn wait_for_job(&self, timeout: Duration) -> Option<Job> {
        self.0.disk.as_ref()?.wait_for_job(timeout)
    }

    /// Has nobody wait for jobs any more: there are those that are there, and then none.
    pub fn end_jobs(&self) {
        self.0.disk.iter().for_each(|disk| disk.end_jobs());
    }

    /// Sees whether the disk has become this process's alone, as when a predecessor ends. To be called now and then.
    pub fn look_round(&self) {
        self.0.disk.iter().for_each(|disk| disk.look_round());
    }

    /// Gives up whatever the disk has kept somebody waiting for, for longer than `patience`: lookups have found nothing,
    /// bodies that are read break off, those that are written go on without it.
    /// Returns whether the disk hangs: then nothing is asked of it until it has done something. To be called now and then.
    pub fn give_up_on_disk(&self, patience: Duration) -> bool {
        self.0.disk.as_ref().is_some_and(|disk| disk.give_up(patience))
    }

    /// What there is at `key` beside the disk, after that was looked at.
    pub fn lookup_in_memory(&self, key: &Key<'_>) -> Found {
        match self.0.memory.find(key) {
            Some(object) => Found::of(object),
            None => filling_at(&self.fillings(), key).map_or(Found::Miss, Found::Filling),
        }
    }

    /// What there is at `key`.
    pub fn lookup(&self, key: &Key<'_>) -> Found {
        match self.0.memory.find(key) {
            Some(object) => Found::of(object),
            None => self.look_further(key),
        }
    }

    fn look_further(&self, key: &Key<'_>) -> Found {
        if let Some(filling) = filling_at(&self.fillings(), key) {
            return Found::Filling(filling);
        }
        let opening = self.0.disk.as_ref().and_then(|disk| disk.look_up(key));
        opening.map_or(Found::Miss, Found::Opening)
    }

    /// Begins to fill `key`. `known` is what the caller found there and will not use as it is, such as a stale object.
    pub fn begin(&self, key: &Key<'_>, known: Option<&Arc<Object>>) -> Begun {
        let mut fillings = self.fillings();
        if let Some(filling) = filling_at(&fillings, key) {
            return Begun::Filling(filling);
        }
        // Between a lookup that missed and now somebody else may have completed it.
        if let Some(object) = self.0.memory.peek(key)
            && object.kind() == ObjectKind::Response
            && known.is_none_or(|known| !Arc::ptr_eq(known, &object))
        {
            return Begun::Hit(object);
        }
        let key = key.clone().into_owned();
        let filling = Arc::new(Filling::new(key.clone(), self.next_number(), Arc::clone(&self.0.memory)));
        fillings.insert(key.hash(), (key, Arc::clone(&filling)));
        drop(fillings);
        Begun::Fill(Fill::new(self.clone(), filling))
    }

    /// Whether `object` is still what is kept at `key`, as far as that can be told without waiting.
    pub fn is_current(&self, key: &Key<'_>, object: &Object) -> bool {
        match self.0.memory.peek(key) {
            Some(held) => held.number() == object.number(),
            None => self.0.disk.as_ref().is_some_and(|disk| disk.holds(key.hash())),
        }
    }

    /// Gives the object other metadata, as after a 304. The body stays, and so do those who read it.
    pub fn freshen(&self, object: &Arc<Object>, metadata: &[u8]) -> Arc<Object> {
        let fresh = Arc::new(object.with_metadata(metadata));
        if fresh.disk_body().is_none() {
            self.keep(&fresh);
        }
        if let Some(disk) = &self.0.disk {
            disk.freshen(&fresh);
        }
        fresh
    }

    /// Forgets what is at `key`, its variants included; whether there was anything. A body on its way is not kept.
    pub fn purge(&self, key: &Key<'_>) -> bool {
        let removed = self.0.memory.remove(key.hash());
        let was_filling = self.fillings().remove(&key.hash()).is_some();
        let was_on_disk = self.0.disk.as_ref().is_some_and(|disk| disk.purge(key));
        let were_parts = self.forget_parts(key);
        if let Some(variants) = removed.as_ref().and_then(|object| variants_of(object)) {
            for variant in variants.keys(key) {
                self.purge(&variant);
            }
        }
        removed.is_some() || was_filling || was_on_disk || were_parts
    }

    /// Forgets `object`, or what is in its place by now; whether there was anything.
    pub fn forget(&self, object: &Object) -> bool {
        self.purge(&Key::of_text(object.key_text()))
    }

    /// What is kept at `key`, without counting as use of it; waits for the disk.
    pub fn inspect(&self, key: &Key<'_>) -> Option<Inspected> {
        let held = self.0.memory.peek(key);
        let file = self.0.disk.as_ref().and_then(|disk| disk.inspect(key));
        let (is_in_memory, is_on_disk) = (held.is_some(), file.is_some());
        let held = held.map(|object| (Arc::clone(&object), object.length()));
        let (object, body_bytes) = held.or(file)?;
        Some(Inspected { object, body_bytes, is_in_memory, is_on_disk })
    }

    /// The counters.
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

    /// The counters of the disk tier, if there is one.
    pub fn disk_counts(&self) -> Option<DiskCounts> {
        self.0.disk.as_ref().map(|disk| disk.counts())
    }

    /// Bytes of the largest body kept in either tier.
    pub fn object_bytes_max(&self) -> u64 {
        let on_disk = self.0.disk.as_ref().map_or(0, |disk| disk.object_bytes_max());
        on_disk.max(self.0.settings.memory_object_bytes_max)
    }

    /// How much is kept, and by which rules.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn keep(&self, object: &Arc<Object>) {
        self.0.memory.insert(object);
    }

    /// Lists a variant at its primary key.
    fn add_variant(&self, primary: &Key<'_>, vary: &Vary) {
        let known = self.0.memory.peek(primary);
        let mut variants = known.and_then(|object| variants_of(&object)).unwrap_or_default();
        variants.add(&vary.fields, &vary.secondary);
        let metadata = variants.encode();
        let object = Object::new(primary, ObjectKind::Variants, self.next_number(), &metadata, Vec::new());
        let object = Arc::new(object);
        self.keep(&object);
        if let Some(disk) = &self.0.disk {
            disk.write(&object, primary);
        }
    }

    /// Lets the disk have the body that is filled at `key`, too.
    fn begin_write(&self, key: &Key<'static>, filling: &Arc<Filling>) {
        if let Some(disk) = &self.0.disk {
            disk.begin_write(filling, key);
        }
    }

    /// There is more of it, or it has ended.
    fn more_to_write(&self, key: &Key<'static>, filling: &Arc<Filling>) {
        if let Some(disk) = &self.0.disk {
            disk.more_to_write(filling, key);
        }
    }

    /// A number that no other object has, whichever process made it.
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

fn variants_of(object: &Object) -> Option<Variants> {
    let is_list = object.kind() == ObjectKind::Variants;
    is_list.then(|| Variants::decode(object.metadata()).unwrap_or_default())
}
