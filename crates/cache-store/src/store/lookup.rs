//! Lookups, and the start of insertions.

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
    /// There are variants: look up one of [their keys](Variants::keys).
    Varies(Arc<Variants>),
    /// A body in transit.
    Busy(Arc<BusyObject>),
    /// There may be an object on disk: a lookup has started.
    OnDisk(Arc<DiskLookup>),
    Miss,
}

impl Lookup {
    pub fn of(object: Arc<Object>) -> Lookup {
        match Variants::of(&object) {
            Some(variants) => Lookup::Varies(Arc::new(variants)),
            None => Lookup::Hit(object),
        }
    }
}

/// An object and where it is stored, for inspection.
#[derive(Clone, Debug)]
pub struct ObjectInfo {
    /// The object, possibly without its body.
    pub object: Arc<Object>,
    pub body_bytes: u64,
    pub is_in_memory: bool,
    pub is_on_disk: bool,
}

#[derive(Debug)]
pub enum InsertOutcome {
    /// You write the body.
    Insert(Insertion),
    /// Another request is already fetching it: follow that one.
    Busy(Arc<BusyObject>),
    Hit(Arc<Object>),
}

impl Store {
    /// Looks up `key` in memory only, after the disk has answered.
    pub fn lookup_in_memory(&self, key: &Key<'_>) -> Lookup {
        match self.0.memory.find(key) {
            Some(object) => Lookup::of(object),
            None => busy_at(&self.busy_objects(), key).map_or(Lookup::Miss, Lookup::Busy),
        }
    }

    pub fn lookup(&self, key: &Key<'_>) -> Lookup {
        match self.0.memory.find(key) {
            Some(object) => Lookup::of(object),
            None => self.lookup_beyond_memory(key),
        }
    }

    fn lookup_beyond_memory(&self, key: &Key<'_>) -> Lookup {
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
