//! Lookups, and beginning an insertion.

use std::sync::Arc;

use super::insertion::busy_at;
use super::{Insertion, Store};
use crate::busy_object::BusyObject;
use crate::disk::DiskLookup;
use crate::key::Key;
use crate::object::Object;
use crate::variants::Variants;

#[derive(Clone, Debug)]
pub enum Lookup {
    Hit(Arc<Object>),
    /// Variants, to choose from: look up one of [their keys](Variants::keys).
    Varies(Arc<Variants>),
    /// A body on its way.
    Busy(Arc<BusyObject>),
    /// Perhaps something on disk: it is being looked at.
    OnDisk(Arc<DiskLookup>),
    Miss,
}

impl Lookup {
    /// The lookup result for `object`.
    pub fn of(object: Arc<Object>) -> Lookup {
        match Variants::of(&object) {
            Some(variants) => Lookup::Varies(Arc::new(variants)),
            None => Lookup::Hit(object),
        }
    }
}

/// Describes the object at a key, for inspection.
#[derive(Clone, Debug)]
pub struct ObjectInfo {
    /// The object; its body may be missing.
    pub object: Arc<Object>,
    pub body_bytes: u64,
    pub is_in_memory: bool,
    pub is_on_disk: bool,
}

/// The result of beginning an insertion.
#[derive(Debug)]
pub enum InsertOutcome {
    /// It is yours to fill.
    Insert(Insertion),
    /// Another request is fetching it: follow that.
    Busy(Arc<BusyObject>),
    Hit(Arc<Object>),
}

impl Store {
    /// Looks `key` up in memory only, after the disk has answered.
    pub fn lookup_in_memory(&self, key: &Key<'_>) -> Lookup {
        match self.0.memory.find(key) {
            Some(object) => Lookup::of(object),
            None => busy_at(&self.busy_objects(), key).map_or(Lookup::Miss, Lookup::Busy),
        }
    }

    /// Looks `key` up in memory and on disk.
    pub fn lookup(&self, key: &Key<'_>) -> Lookup {
        match self.0.memory.find(key) {
            Some(object) => Lookup::of(object),
            None => self.look_further(key),
        }
    }

    fn look_further(&self, key: &Key<'_>) -> Lookup {
        if let Some(busy) = busy_at(&self.busy_objects(), key) {
            return Lookup::Busy(busy);
        }
        let lookup = self.0.disk.as_ref().and_then(|disk| disk.look_up(key));
        lookup.map_or(Lookup::Miss, Lookup::OnDisk)
    }

    /// Describes the object at `key` without counting as a use; waits for the disk.
    pub fn inspect(&self, key: &Key<'_>) -> Option<ObjectInfo> {
        let held = self.0.memory.peek(key);
        let file = self.0.disk.as_ref().and_then(|disk| disk.inspect(key));
        let (is_in_memory, is_on_disk) = (held.is_some(), file.is_some());
        let held = held.map(|object| (Arc::clone(&object), object.length()));
        let (object, body_bytes) = held.or(file)?;
        Some(ObjectInfo { object, body_bytes, is_in_memory, is_on_disk })
    }
}
