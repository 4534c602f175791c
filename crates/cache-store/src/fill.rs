//! Who writes a body. There is one fill of a key at a time; dropping it before it is complete truncates the body.

use std::sync::Arc;
use std::task::Waker;

use super::Store;
use super::filling::{Filling, Sharing, Started};
use super::filling_state::Ending;
use super::key::Key;
use super::object::{Object, ObjectKind};
use super::reader::Reader;

/// The one that writes.
#[derive(Debug)]
pub struct Fill {
    store: Store,
    filling: Arc<Filling>,
    /// Where others find it; `None` once they no longer do.
    found_at: Option<Key<'static>>,
}

/// The body did not have the length that its head promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body ended after {got} bytes of {promised}")]
pub struct Truncated {
    /// Bytes that came.
    pub got: u64,
    /// Bytes that should have come.
    pub promised: u64,
}

impl Fill {
    pub(super) fn new(store: Store, filling: Arc<Filling>) -> Fill {
        let found_at = Some(filling.key().clone());
        Fill { store, filling, found_at }
    }

    /// What its readers see.
    pub fn filling(&self) -> &Arc<Filling> {
        &self.filling
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Whether others find what is written: it was neither purged nor replaced.
    pub(super) fn is_found(&self) -> bool {
        self.found_at.as_ref().is_some_and(|key| self.store.finds(key, &self.filling))
    }

    /// Reads what is written, whoever else may. To be called before bytes are appended.
    pub fn reader(&self) -> Option<Reader> {
        self.filling.reader()
    }

    /// The head is here: those who wait for it are woken.
    ///
    /// # Panics
    /// If it was called before.
    pub fn start(&mut self, started: Started) {
        let primary = self.filling.key();
        match (started.sharing, &started.vary) {
            (Sharing::Stored, Some(vary)) => {
                self.store.add_variant(primary, vary);
                self.found_at = self.store.move_filling(&self.filling, primary.variant(&vary.secondary));
            }
            (Sharing::Stored, None) => {}
            (Sharing::Waiting | Sharing::Private, _) => self.hide(),
        }
        let is_stored = started.sharing == Sharing::Stored;
        self.filling.start(started);
        if let Some(key) = self.found_at.as_ref().filter(|_| is_stored) {
            self.store.begin_write(key, &self.filling);
        }
    }

    /// The next bytes of the body.
    pub fn append(&mut self, bytes: Arc<[u8]>) {
        if !bytes.is_empty() {
            self.filling.append(bytes, self.store.settings().memory_object_bytes_max);
            if let Some(key) = &self.found_at {
                self.store.more_to_write(key, &self.filling);
            }
        }
    }

    /// Whether more may come now. If not, `waker` is called when it may.
    pub fn has_room(&self, waker: &Waker) -> bool {
        self.filling.has_room(waker)
    }

    /// Whether anybody wants the rest: it is kept, or read.
    pub fn is_wanted(&self) -> bool {
        self.filling.is_wanted()
    }

    /// All of the body came. The object, if it is held in memory.
    pub fn complete(mut self) -> Result<Option<Arc<Object>>, Truncated> {
        let started = self.filling.started();
        let (got, promised) = (self.filling.length(), started.and_then(|started| started.length));
        match (started, promised) {
            (_, Some(promised)) if promised != got => Err(Truncated { got, promised }),
            // Without a head there is nothing to keep.
            (None, _) => Ok(None),
            (Some(started), _) => Ok(self.publish(&started.clone())),
        }
    }

    fn publish(&mut self, started: &Started) -> Option<Arc<Object>> {
        let found_at = self.found_at.take();
        let object = found_at.as_ref().zip(self.filling.whole()).map(|(key, chunks)| {
            Arc::new(Object::new(key, ObjectKind::Response, self.filling.number(), &started.metadata, chunks))
        });
        // The object has the bytes now, and its own part of the budget.
        if object.is_some() {
            self.filling.release_all();
        }
        if let Some(key) = &found_at {
            self.store.end_filling(key, &self.filling, object.as_ref());
            // Whatever they are parts of: there is a whole now.
            self.store.forget_parts(self.filling.key());
        }
        self.filling.end(Ending::Complete(object.clone()));
        if let Some(key) = &found_at {
            self.store.more_to_write(key, &self.filling);
        }
        object
    }

    /// Lets nobody else find it.
    fn hide(&mut self) {
        if let Some(key) = self.found_at.take() {
            self.store.end_filling(&key, &self.filling, None);
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        if matches!(self.filling.lock().ending, Ending::Open) {
            self.filling.end(Ending::Truncated);
        }
        if let Some(key) = &self.found_at {
            self.store.more_to_write(key, &self.filling);
        }
        self.hide();
    }
}
