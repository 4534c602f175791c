//! Stored parts of bodies that are not complete yet.
//!
//! All parts of a body are one object at a key of its own, whose body is their bytes in order. They are stored only in
//! memory and count there like any object. A part is merged with those already stored if it has the same strong
//! validator (tag); otherwise it replaces them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sojourn_http::range::ByteRange;

use super::{InsertOutcome, Insertion, Store};
use crate::body::CHUNK_OVERHEAD_BYTES;
use crate::busy_object::{ObjectHead, Sharing};
use crate::key::Key;
use crate::object::Object;
use crate::ranges::{RANGES_MAX, StoredRanges};
use crate::variants::Vary;

/// Keys share this many purge counters. A purge of one key may cost another with the same counter a response that is on its
/// way, which is rare.
const GENERATIONS: usize = 1024;

/// The properties of a part that are known before its bytes arrive.
#[derive(Clone, Debug)]
pub struct PartHead {
    /// The metadata of the whole response, opaque to the store.
    pub metadata: Box<[u8]>,
    pub vary: Option<Vary>,
    pub tag: Box<[u8]>,
    pub range: ByteRange,
    pub whole_bytes: u64,
}

/// A part in transit. Dropped before its end it stores nothing.
#[derive(Debug)]
pub struct PartInsertion {
    store: Store,
    key: Key<'static>,
    generation: u64,
    head: PartHead,
    chunks: Vec<Arc<[u8]>>,
    got_bytes: u64,
    reserved_bytes: usize,
    /// True if there was no room, or more bytes came than announced.
    is_lost: bool,
}

/// Purge counters, one per group of keys: what was requested, or a part that was begun, before a purge must not be stored
/// after it.
pub(super) struct PurgeGenerations {
    purged: Box<[AtomicU64]>,
    /// How often parts were removed: also by whole bodies that took their place.
    forgotten: Box<[AtomicU64]>,
    /// True once any part was stored; until then lookups skip the parts.
    has_any: AtomicBool,
}

impl Default for PurgeGenerations {
    fn default() -> PurgeGenerations {
        PurgeGenerations { purged: counters(), forgotten: counters(), has_any: AtomicBool::new(false) }
    }
}

fn counters() -> Box<[AtomicU64]> {
    (0..GENERATIONS).map(|_| AtomicU64::new(0)).collect()
}

/// The place of the counters of `key`.
fn group(key: &Key<'_>) -> usize {
    key.hash() as usize % GENERATIONS
}

impl PurgeGenerations {
    /// Counts a purge of `key`.
    pub(super) fn count_purge(&self, key: &Key<'_>) {
        self.purged[group(key)].fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn purged(&self, key: &Key<'_>) -> u64 {
        self.purged[group(key)].load(Ordering::SeqCst)
    }

    fn forgotten(&self, key: &Key<'_>) -> u64 {
        self.forgotten[group(key)].load(Ordering::SeqCst)
    }

    /// The counter at the start; the part is stored only if it has not changed.
    fn begin(&self, key: &Key<'_>) -> u64 {
        self.has_any.store(true, Ordering::SeqCst);
        self.forgotten(key)
    }

    fn has_any(&self) -> bool {
        self.has_any.load(Ordering::SeqCst)
    }
}

impl Store {
    /// The stored parts of the body at `key`.
    pub fn parts(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        self.0.generations.has_any().then(|| self.0.memory.find(&key.parts())).flatten()
    }

    /// Like [`parts`](Store::parts), without counting as a use.
    pub fn inspect_parts(&self, key: &Key<'_>) -> Option<Arc<Object>> {
        self.0.memory.peek(&key.parts())
    }

    /// Starts inserting a part of the body at `key`; `None` if it would be too long, or if the key was purged since it had
    /// this [`generation`](Store::generation).
    pub fn begin_part(&self, key: &Key<'_>, generation: u64, head: PartHead) -> Option<PartInsertion> {
        let fits = head.range.length() <= self.0.settings.memory_object_bytes_max;
        let is_sound = head.range.first <= head.range.last && head.range.last < head.whole_bytes;
        if !(fits && is_sound) {
            return None;
        }
        // Begin first: a purge from here on changes its counter.
        let begun = self.0.generations.begin(key);
        (self.generation(key) == generation).then(|| PartInsertion {
            store: self.clone(),
            key: key.clone().into_owned(),
            generation: begun,
            head,
            chunks: Vec::new(),
            got_bytes: 0,
            reserved_bytes: 0,
            is_lost: false,
        })
    }

    /// Removes the parts at `key`, including those in transit; true if there were any.
    pub(super) fn forget_parts(&self, key: &Key<'_>) -> bool {
        if !self.0.generations.has_any() {
            return false;
        }
        // Count first, then remove: an insertion checks the counter after it has stored.
        self.0.generations.forgotten[group(key)].fetch_add(1, Ordering::SeqCst);
        self.0.memory.remove(key.parts().hash()).is_some()
    }

    /// Stores a part, or the whole body if it is now complete; true if anything was stored.
    fn keep_part(&self, key: &Key<'static>, generation: u64, head: PartHead, chunks: Vec<Arc<[u8]>>) -> bool {
        let known = self.0.memory.peek(&key.parts());
        let bytes_max = self.0.settings.memory_object_bytes_max;
        let may_be_whole = head.whole_bytes <= self.object_bytes_max();
        let (held, chunks) = joined(known.as_deref(), &head, chunks, bytes_max, may_be_whole);
        let is_current = || self.0.generations.forgotten(key) == generation;
        if held.is_whole() {
            return self.keep_whole(key, head, chunks, is_current);
        }
        let number = self.next_number();
        let object = Arc::new(Object::of_parts(&key.parts(), number, &head.metadata, held, chunks));
        self.keep(&object);
        if !is_current() {
            self.0.memory.remove(object.hash());
        }
        is_current()
    }

    /// The parts make up the whole body: store that instead, if they are current.
    fn keep_whole(
        &self,
        key: &Key<'static>,
        head: PartHead,
        chunks: Vec<Arc<[u8]>>,
        are_current: impl Fn() -> bool,
    ) -> bool {
        let InsertOutcome::Insert(mut fill) = self.begin(key, None) else { return false };
        // Begun first: a purge from here on finds it.
        if !are_current() {
            return false;
        }
        let PartHead { metadata, vary, whole_bytes, .. } = head;
        fill.start(ObjectHead { metadata, length: Some(whole_bytes), vary, sharing: Sharing::Stored });
        chunks.into_iter().for_each(|chunk| fill.append(chunk));
        fill.complete().is_ok()
    }
}

impl PartInsertion {
    pub fn append(&mut self, bytes: &Arc<[u8]>) {
        let cost = bytes.len() + CHUNK_OVERHEAD_BYTES;
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

    /// Ends the part. Its bytes are stored if they are complete, or if it has a tag; true if they are.
    pub fn end(mut self) -> bool {
        let is_all = self.got_bytes == self.head.range.length();
        if self.is_lost || self.got_bytes == 0 || !is_all && self.head.tag.is_empty() {
            return false;
        }
        self.release();
        let mut head = self.head.clone();
        head.range.last = head.range.first + self.got_bytes - 1;
        self.store.clone().keep_part(&self.key, self.generation, head, std::mem::take(&mut self.chunks))
    }

    fn release(&mut self) {
        self.store.0.memory.release(std::mem::take(&mut self.reserved_bytes));
    }
}

impl Drop for PartInsertion {
    fn drop(&mut self) {
        self.release();
    }
}

impl Insertion {
    /// Stores a truncated body as a part, if its length is known, it has a `tag`, and all its bytes are held; true if
    /// so.
    pub fn end_as_part(self, tag: &[u8]) -> bool {
        let key = self.busy_object().key().clone();
        let (Some(head), Some(chunks)) = (self.busy_object().head(), self.busy_object().whole()) else {
            return false;
        };
        let Some(whole_bytes) = head.length else { return false };
        let last = chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>().checked_sub(1);
        let Some(last) = last.filter(|last| last + 1 < whole_bytes && !tag.is_empty()) else { return false };
        let head = PartHead {
            metadata: head.metadata.clone(),
            vary: head.vary.clone(),
            tag: tag.into(),
            range: ByteRange { first: 0, last },
            whole_bytes,
        };
        let store = self.store().clone();
        // Read the counter first: a removal from here on changes either the counter or the stored part.
        let generation = store.0.generations.begin(&key);
        let is_found = self.is_found();
        drop(self);
        is_found && store.keep_part(&key, generation, head, chunks)
    }
}

type Segment = (ByteRange, Vec<Arc<[u8]>>);

/// Merges the part `chunks` with the stored parts, within the limits.
pub(super) fn joined(
    known: Option<&Object>,
    head: &PartHead,
    chunks: Vec<Arc<[u8]>>,
    bytes_max: u64,
    may_be_whole: bool,
) -> (StoredRanges, Vec<Arc<[u8]>>) {
    let known = known.and_then(|object| object.stored_ranges().map(|held| (object, held)));
    let is_same = |held: &StoredRanges| {
        !held.tag().is_empty() && *held.tag() == *head.tag && held.whole_bytes() == head.whole_bytes
    };
    let joins = known
        .filter(|(object, held)| is_same(held) && agrees(object, held, head.range, &chunks))
        .map_or(Vec::new(), |(object, held)| others(object, held, head.range));
    let mut segments = vec![(head.range, chunks)];
    segments.extend(joins);
    let mut held = held_of(head, &segments);
    while segments.len() > 1 {
        let bytes: u64 = held.ranges().iter().map(|part| part.length()).sum();
        let is_too_much = bytes > bytes_max && !(may_be_whole && held.is_whole());
        if held.ranges().len() <= RANGES_MAX && !is_too_much {
            break;
        }
        let is_new = |part: &ByteRange| part.first <= head.range.first && head.range.last <= part.last;
        let smallest = held.ranges().iter().filter(|part| !is_new(part)).min_by_key(|part| part.length());
        match smallest {
            Some(gone) => segments.retain(|(range, _)| range.last < gone.first || gone.last < range.first),
            // Merged with its neighbours it would be too large.
            None => segments.truncate(1),
        }
        held = held_of(head, &segments);
    }
    segments.sort_by_key(|(range, _)| range.first);
    (held, segments.into_iter().flat_map(|(_, chunks)| chunks).collect())
}

fn held_of(head: &PartHead, segments: &[Segment]) -> StoredRanges {
    StoredRanges::new(&head.tag, head.whole_bytes, segments.iter().map(|(range, _)| *range))
}

/// The stored bytes outside of `range`.
fn others(object: &Object, held: &StoredRanges, range: ByteRange) -> Vec<Segment> {
    let outside = held.ranges().iter().flat_map(|part| {
        let before = range.first.checked_sub(1).map(|last| ByteRange { last: last.min(part.last), ..*part });
        let after = ByteRange { first: part.first.max(range.last.saturating_add(1)), ..*part };
        before.into_iter().chain([after]).filter(|rest| rest.first <= rest.last)
    });
    outside.map(|rest| (rest, object.chunks(held.stored_position(rest).expect("it is held")))).collect()
}

/// Returns true if the part equals the stored bytes where they overlap. If an origin sends different bytes with the
/// same tag, only its latest part is kept.
fn agrees(object: &Object, held: &StoredRanges, range: ByteRange, chunks: &[Arc<[u8]>]) -> bool {
    let is_common = |part: &ByteRange| part.first <= range.last && range.first <= part.last;
    let all = if held.ranges().iter().any(is_common) { chunks.concat() } else { Vec::new() };
    held.ranges().iter().all(|part| {
        let common = ByteRange { first: part.first.max(range.first), last: part.last.min(range.last) };
        common.first > common.last || {
            let came = &all[(common.first - range.first) as usize..=(common.last - range.first) as usize];
            object.chunks(held.stored_position(common).expect("it is held")).concat() == came
        }
    })
}
