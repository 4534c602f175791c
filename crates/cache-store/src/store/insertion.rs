//! The writer of a body, one at a time per key. Dropping it before the body is complete truncates the body.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;

use super::Store;
use crate::busy_object::{BusyObject, Ending, ObjectHead, Sharing};
use crate::key::Key;
use crate::object::{Object, ObjectKind};
use crate::reader::Reader;
use crate::variants::{Variants, Vary};

#[derive(Debug)]
pub struct Insertion {
    store: Store,
    busy: Arc<BusyObject>,
    /// The key at which lookups find it; `None` once they no longer do.
    found_at: Option<Key<'static>>,
}

/// The body was shorter or longer than its head promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body ended after {got} bytes of {promised}")]
pub struct Truncated {
    pub got: u64,
    pub promised: u64,
}

impl Insertion {
    pub(super) fn new(store: Store, busy: Arc<BusyObject>) -> Insertion {
        let found_at = Some(busy.key().clone());
        Insertion { store, busy, found_at }
    }

    pub fn busy_object(&self) -> &Arc<BusyObject> {
        &self.busy
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns true if lookups still find the object: it was neither purged nor replaced.
    pub(super) fn is_found(&self) -> bool {
        self.found_at.as_ref().is_some_and(|key| self.store.finds(key, &self.busy))
    }

    /// A reader of the body, even if lookups do not find it. Call it before you append bytes.
    pub fn reader(&self) -> Option<Reader> {
        self.busy.reader()
    }

    /// Sets the head and wakes the requests that wait for it.
    ///
    /// # Panics
    /// If it was called before.
    pub fn start(&mut self, head: ObjectHead) {
        match (head.sharing, &head.vary) {
            (Sharing::Stored, Some(vary)) => {
                self.found_at = self.store.list_as_variant(&self.busy, vary);
            }
            (Sharing::Stored, None) => {}
            (Sharing::Coalesced | Sharing::Private, _) => self.hide(),
        }
        let is_stored = head.sharing == Sharing::Stored;
        self.busy.start(head);
        if let Some(key) = self.found_at.as_ref().filter(|_| is_stored) {
            self.store.begin_write(key, &self.busy);
        }
    }

    pub fn append(&mut self, bytes: Arc<[u8]>) {
        if !bytes.is_empty() {
            self.busy.append(bytes, self.store.settings().memory_object_bytes_max);
            if let Some(key) = &self.found_at {
                self.store.more_to_write(key, &self.busy);
            }
        }
    }

    /// Returns true if more bytes may be appended now. Otherwise the waker is called when they may.
    pub fn has_room(&self, waker: impl FnOnce() -> Waker) -> bool {
        self.busy.has_room(waker)
    }

    /// Returns true if memory holds the whole body so far in order to store it; false once it is too long or there is
    /// no room.
    pub fn is_whole(&self) -> bool {
        self.busy.is_whole()
    }

    /// Returns true if anyone will read or store the rest.
    pub fn is_wanted(&self) -> bool {
        self.busy.is_wanted()
    }

    /// Ends the complete body. Returns the object, if it is held in memory.
    pub fn complete(mut self) -> Result<Option<Arc<Object>>, Truncated> {
        let head = self.busy.head();
        let (got, promised) = (self.busy.length(), head.and_then(|head| head.length));
        match (head, promised) {
            (_, Some(promised)) if promised != got => Err(Truncated { got, promised }),
            // Without a head there is nothing to store.
            (None, _) => Ok(None),
            (Some(head), _) => Ok(self.publish(&head.clone())),
        }
    }

    fn publish(&mut self, head: &ObjectHead) -> Option<Arc<Object>> {
        let found_at = self.found_at.take();
        let object = found_at.as_ref().zip(self.busy.whole()).map(|(key, chunks)| {
            Arc::new(Object::new(key, ObjectKind::Response, self.busy.number(), &head.metadata, chunks))
        });
        // The object now owns the bytes and their share of the budget.
        if object.is_some() {
            self.busy.release_all();
        }
        if let Some(key) = &found_at {
            self.store.end_busy_object(key, &self.busy, object.as_ref());
            // The whole body replaces any stored parts.
            self.store.forget_parts(self.busy.key());
        }
        self.busy.end(Ending::Complete(object.clone()));
        if let Some(key) = &found_at {
            self.store.more_to_write(key, &self.busy);
        }
        object
    }

    fn hide(&mut self) {
        if let Some(key) = self.found_at.take() {
            self.store.end_busy_object(&key, &self.busy, None);
        }
    }
}

impl Drop for Insertion {
    fn drop(&mut self) {
        if !self.busy.has_ended() {
            self.busy.end(Ending::Truncated);
        }
        if let Some(key) = &self.found_at {
            self.store.more_to_write(key, &self.busy);
        }
        self.hide();
    }
}

/// Bodies in transit, by the hash of the key at which lookups find them.
pub(super) type BusyObjects = HashMap<u128, (Key<'static>, Arc<BusyObject>)>;

impl Store {
    /// Adds a variant, which `busy` will be, to the list at its key, and moves it to the variant's key, which is returned. `None`
    /// if it was purged, or if another body of the same variant is in transit.
    fn list_as_variant(&self, busy: &Arc<BusyObject>, vary: &Vary) -> Option<Key<'static>> {
        let primary = busy.key();
        let key = primary.variant(&vary.secondary_key);
        let mut busy_objects = self.busy_objects();
        if !is_at(&busy_objects, primary, busy) {
            return None;
        }
        busy_objects.remove(&primary.hash());
        let held = self.0.memory.peek(primary).and_then(|object| Variants::of(&object));
        let is_on_disk = || self.0.disk.as_ref().is_some_and(|disk| disk.holds(primary.hash()));
        let listed = || vary.listed.as_deref().filter(|_| is_on_disk()).cloned();
        let mut variants = held.or_else(listed).unwrap_or_default();
        if variants.add(&vary.fields, &vary.secondary_key) {
            // Purges since it was dropped did not reach what it has left behind.
            busy_objects.remove(&key.hash());
            if let Some(disk) = &self.0.disk {
                disk.purge(&key);
            }
            self.0.memory.remove(key.hash());
        } else if busy_objects.contains_key(&key.hash()) {
            return None;
        }
        self.keep_variants(primary, &variants);
        busy_objects.insert(key.hash(), (key.clone(), Arc::clone(busy)));
        Some(key)
    }

    /// Returns true if a lookup of `key` finds `busy`.
    pub(super) fn finds(&self, key: &Key<'_>, busy: &Arc<BusyObject>) -> bool {
        is_at(&self.busy_objects(), key, busy)
    }

    /// Removes `busy` from lookups of `key`; they find `object` instead, unless it was purged.
    pub(super) fn end_busy_object(
        &self,
        key: &Key<'_>,
        busy: &Arc<BusyObject>,
        object: Option<&Arc<Object>>,
    ) {
        let mut busy_objects = self.busy_objects();
        if is_at(&busy_objects, key, busy) {
            // A pending disk lookup would return the previous object.
            self.0.disk.iter().for_each(|disk| disk.cancel_lookup(key.hash()));
            object.into_iter().for_each(|object| self.keep(object));
            busy_objects.remove(&key.hash());
        }
    }

    pub(super) fn busy_objects(&self) -> MutexGuard<'_, BusyObjects> {
        self.0.busy_objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn busy_at(busy_objects: &BusyObjects, key: &Key<'_>) -> Option<Arc<BusyObject>> {
    busy_objects.get(&key.hash()).filter(|(at, _)| at == key).map(|(_, busy)| Arc::clone(busy))
}

pub(super) fn is_at(busy_objects: &BusyObjects, key: &Key<'_>, busy: &Arc<BusyObject>) -> bool {
    busy_at(busy_objects, key).is_some_and(|found| Arc::ptr_eq(&found, busy))
}
