//! The bodies on their way, and where they are found meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{Filling, Key, Object, Store};

/// The bodies on their way, by the hash of the key at which they are found now.
pub(super) type Fillings = HashMap<u128, (Key<'static>, Arc<Filling>)>;

impl Store {
    /// Lets a filling be found at `key`, where it is told from other variants, and no longer where it was; unless it
    /// was purged, or another is there.
    pub(super) fn move_filling(&self, filling: &Arc<Filling>, key: Key<'static>) -> Option<Key<'static>> {
        let mut fillings = self.fillings();
        if !is_at(&fillings, filling.key(), filling) {
            return None;
        }
        fillings.remove(&filling.key().hash());
        if fillings.contains_key(&key.hash()) {
            return None;
        }
        fillings.insert(key.hash(), (key.clone(), Arc::clone(filling)));
        Some(key)
    }

    /// Whether `filling` is what is found at `key`.
    pub(super) fn finds(&self, key: &Key<'_>, filling: &Arc<Filling>) -> bool {
        is_at(&self.fillings(), key, filling)
    }

    /// Lets a filling no longer be found at `key`; `object` is found there instead, unless it was purged.
    pub(super) fn end_filling(&self, key: &Key<'_>, filling: &Arc<Filling>, object: Option<&Arc<Object>>) {
        let mut fillings = self.fillings();
        if is_at(&fillings, key, filling) {
            // What is being read from disk is what was there before.
            self.0.disk.iter().for_each(|disk| disk.cancel_opening(key.hash()));
            object.into_iter().for_each(|object| self.keep(object));
            fillings.remove(&key.hash());
        }
    }

    pub(super) fn fillings(&self) -> MutexGuard<'_, Fillings> {
        self.0.fillings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn filling_at(fillings: &Fillings, key: &Key<'_>) -> Option<Arc<Filling>> {
    fillings.get(&key.hash()).filter(|(at, _)| at == key).map(|(_, filling)| Arc::clone(filling))
}

fn is_at(fillings: &Fillings, key: &Key<'_>, filling: &Arc<Filling>) -> bool {
    filling_at(fillings, key).is_some_and(|found| Arc::ptr_eq(&found, filling))
}
