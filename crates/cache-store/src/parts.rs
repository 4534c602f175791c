//! Parts of a body that is not held whole: what of it came, until the rest does.
//!
//! The parts of one body are one object, at a key beside that of the whole; its body is their bytes in order. They
//! live in memory alone and count there like any other object. A part joins those that are there if it has their tag:
//! what tells the body from all others. Without a tag, and with another one, it takes their place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sojourn_http::range::ByteRange;

use super::chunks::CHUNK_BYTES_BESIDE;
use super::held::joined;
use super::object::Object;
use super::{Begun, Fill, Key, Sharing, Started, Store, Vary};

/// Keys share so many counts of what was forgotten. Two keys that share one cost each other a part, seldom.
const STAMPS: usize = 256;

/// What is known of a part before it comes.
#[derive(Clone, Debug)]
pub struct PartHead {
    /// What others keep with the whole.
    pub metadata: Box<[u8]>,
    /// What the whole varies by.
    pub vary: Option<Vary>,
    /// What tells the body from all others; empty if nothing does.
    pub tag: Box<[u8]>,
    /// Where the part belongs.
    pub range: ByteRange,
    /// Bytes of the whole.
    pub whole_bytes: u64,
}

/// A part on its way. Dropped before its end it leaves nothing.
#[derive(Debug)]
pub struct PartFill {
    store: Store,
    key: Key<'static>,
    stamp: u64,
    head: PartHead,
    chunks: Vec<Arc<[u8]>>,
    got_bytes: u64,
    reserved_bytes: usize,
    /// There was no room for it, or more came than was announced.
    is_lost: bool,
}

/// How often something at one of the keys that share a place was forgotten: what began before must not come after.
pub(super) struct Stamps {
    forgotten: Box<[AtomicU64]>,
    /// Whether there has been any part: until then nobody pays for them.
    has_any: AtomicBool,
}

impl Default for Stamps {
    fn default() -> Stamps {
        Stamps {
            forgotten: (0..STAMPS).map(|_| AtomicU64::new(0)).collect(),
            has_any: AtomicBool::new(false),
        }
    }
}

impl Stamps {
    fn at(&self, key: &Key<'_>) -> &AtomicU64 {
        &self.forgotten[key.hash() as usize % STAMPS]
    }

    /// What is kept of `key` must find the same afterwards.
    fn begin(&self, key: &Key<'_>) -> u64 {
        self.has_any.store(true, Ordering::SeqCst);
        self.at(key).load(Ordering::SeqCst)
    }

    fn has_any(&self) -> bool {
        self.has_any.load(Ordering::SeqCst)
    }
}

impl Store {
    /// The parts that are held of the body at `key`.
    pub fn parts(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        self.0.stamps.has_any().then(|| self.0.memory.find(&key.parts())).flatten()
    }

    /// The same, without counting as use of them.
    pub fn inspect_parts(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        self.0.memory.peek(&key.parts())
    }

    /// Begins to take a part of the body at `key`; `None` if it would be too long.
    pub fn begin_part(&self, key: &Key<'_>, head: PartHead) -> Option<PartFill> {
        let fits = head.range.length() <= self.0.settings.memory_object_bytes_max;
        let is_sound = head.range.first <= head.range.last && head.range.last < head.whole_bytes;
        (fits && is_sound).then(|| PartFill {
            store: self.clone(),
            key: key.clone().into_owned(),
            stamp: self.0.stamps.begin(key),
            head,
            chunks: Vec::new(),
            got_bytes: 0,
            reserved_bytes: 0,
            is_lost: false,
        })
    }

    /// Forgets the parts of what is at `key`, those on their way included; whether there were any.
    pub(super) fn forget_parts(&self, key: &Key<'_>) -> bool {
        if !self.0.stamps.has_any() {
            return false;
        }
        // In this order: who keeps a part looks afterwards whether it still may.
        self.0.stamps.at(key).fetch_add(1, Ordering::SeqCst);
        self.0.memory.remove(key.parts().hash()).is_some()
    }

    /// Keeps a part, or the whole if that is what it makes; whether anything came of it.
    fn keep_part(&self, key: &Key<'static>, stamp: u64, head: PartHead, chunks: Vec<Arc<[u8]>>) -> bool {
        let known = self.0.memory.peek(&key.parts());
        let bytes_max = self.0.settings.memory_object_bytes_max;
        let may_be_whole = head.whole_bytes <= self.object_bytes_max();
        let (held, chunks) = joined(known.as_deref(), &head, chunks, bytes_max, may_be_whole);
        let is_current = || self.0.stamps.at(key).load(Ordering::SeqCst) == stamp;
        if held.is_whole() {
            return is_current() && self.keep_whole(key, head, chunks);
        }
        let number = self.next_number();
        let object = Arc::new(Object::of_parts(&key.parts(), number, &head.metadata, held, chunks));
        self.keep(&object);
        if !is_current() {
            self.0.memory.remove(object.hash());
        }
        is_current()
    }

    /// The parts are the whole: it is kept in their place, as if it had come at once.
    fn keep_whole(&self, key: &Key<'static>, head: PartHead, chunks: Vec<Arc<[u8]>>) -> bool {
        let Begun::Fill(mut fill) = self.begin(key, None) else { return false };
        let PartHead { metadata, vary, whole_bytes, .. } = head;
        fill.start(Started { metadata, length: Some(whole_bytes), vary, sharing: Sharing::Stored });
        chunks.into_iter().for_each(|chunk| fill.append(chunk));
        fill.complete().is_ok()
    }
}

impl PartFill {
    /// The next bytes.
    pub fn append(&mut self, bytes: &Arc<[u8]>) {
        let cost = bytes.len() + CHUNK_BYTES_BESIDE;
        let is_more = self.got_bytes + bytes.len() as u64 > self.head.range.length();
        if self.is_lost || is_more || !self.store.0.memory.reserve(cost, self.key.hash()) {
            self.is_lost = true;
            self.chunks.clear();
            return self.release();
        }
        self.reserved_bytes += cost;
        self.got_bytes += bytes.len() as u64;
        self.chunks.push(Arc::clone(bytes));
    }

    /// No more comes. What came is kept if it is all that was announced, or if it has a tag; returns whether it is.
    pub fn end(mut self) -> bool {
        let is_all = self.got_bytes == self.head.range.length();
        if self.is_lost || self.got_bytes == 0 || !is_all && self.head.tag.is_empty() {
            return false;
        }
        self.release();
        let mut head = self.head.clone();
        head.range.last = head.range.first + self.got_bytes - 1;
        self.store.clone().keep_part(&self.key, self.stamp, head, std::mem::take(&mut self.chunks))
    }

    fn release(&mut self) {
        self.store.0.memory.release(std::mem::take(&mut self.reserved_bytes));
    }
}

impl Drop for PartFill {
    fn drop(&mut self) {
        self.release();
    }
}

impl Fill {
    /// What came of a body that broke off is kept as a part of it, if its length is known and it has a `tag`, and all of
    /// that is held; whether it is.
    pub fn end_as_part(self, tag: &[u8]) -> bool {
        let key = self.filling().key().clone();
        let (Some(started), Some(chunks)) = (self.filling().started(), self.filling().whole()) else {
            return false;
        };
        let Some(whole_bytes) = started.length else { return false };
        let last = chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>().checked_sub(1);
        let Some(last) = last.filter(|last| last + 1 < whole_bytes && !tag.is_empty()) else { return false };
        let head = PartHead {
            metadata: started.metadata.clone(),
            vary: started.vary.clone(),
            tag: tag.into(),
            range: ByteRange { first: 0, last },
            whole_bytes,
        };
        let store = self.store().clone();
        // In this order: what is forgotten from here on changes one or the other.
        let stamp = store.0.stamps.begin(&key);
        let is_found = self.is_found();
        drop(self);
        is_found && store.keep_part(&key, stamp, head, chunks)
    }
}
