//! A body in transit, with one writer and many readers, each at its own pace.
//!
//! Appended bytes are available to every reader at once. A body that will be stored is held whole. Any other is held
//! only for its readers, and its writer must pause when it is a window ahead of the slowest (backpressure). A waiting
//! side leaves a [`Waker`] and is woken once.

mod disk;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;

use crate::body::{CHUNK_OVERHEAD_BYTES, ReadStep, Slice};
use crate::key::Key;
use crate::memory::Memory;
use crate::object::Object;
use crate::variants::Vary;
use disk::DiskProgress;
pub(crate) use disk::WriteStep;

/// How far the writer of a body that is not stored may be ahead of its slowest reader.
pub const BUFFER_BYTES_MAX: u64 = 1024 * 1024;

/// The same while the memory budget is exhausted.
const BUFFER_BYTES_MIN: u64 = 64 * 1024;

/// A body in transit, as its readers see it.
pub struct BusyObject {
    key: Key<'static>,
    number: u64,
    memory: Arc<Memory>,
    head: OnceLock<ObjectHead>,
    state: Mutex<State>,
}

/// The properties of an object that its response's head determines.
#[derive(Clone, Debug)]
pub struct ObjectHead {
    pub metadata: Box<[u8]>,
    /// The body's length, if the head gives it.
    pub length: Option<u64>,
    pub vary: Option<Vary>,
    pub sharing: Sharing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All requests, now and later: the response is stored.
    Stored,
    /// Only requests that are already waiting for it (request coalescing).
    Coalesced,
    Private,
}

/// The progress of a busy object.
#[derive(Debug)]
pub enum Stage<'a> {
    /// The head has not arrived; the waker will be called.
    Waiting,
    Head(&'a ObjectHead),
    /// There will be no head, or the response must not be shared: send your own request.
    Failed,
}

impl BusyObject {
    pub(crate) fn new(key: Key<'static>, number: u64, memory: Arc<Memory>) -> BusyObject {
        let state = Mutex::new(State { is_whole: true, ..State::default() });
        BusyObject { key, number, memory, head: OnceLock::new(), state }
    }

    pub fn key(&self) -> &Key<'static> {
        &self.key
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The current stage; if the head is missing, `waker` is called at the next change.
    pub fn stage(&self, waker: &Waker) -> Stage<'_> {
        let mut state = self.lock();
        match (self.head.get(), &state.ending) {
            (Some(head), _) if head.sharing == Sharing::Private => Stage::Failed,
            (Some(head), _) => Stage::Head(head),
            (None, Ending::Open) => {
                state.wait(waker);
                Stage::Waiting
            }
            (None, _) => Stage::Failed,
        }
    }

    pub fn head(&self) -> Option<&ObjectHead> {
        self.head.get()
    }

    /// Registers a reader at the start of the body; `None` if the first bytes have been dropped.
    pub(crate) fn attach(&self) -> Option<Attached> {
        let mut state = self.lock();
        if let Ending::Complete(Some(object)) = &state.ending {
            return Some(Attached::Object(Arc::clone(object)));
        }
        if state.first > 0 {
            return None;
        }
        let index = state.readers.iter().position(Option::is_none).unwrap_or(state.readers.len());
        if index == state.readers.len() {
            state.readers.push(None);
        }
        state.readers[index] = Some(0);
        Some(Attached::Reader(index))
    }

    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.lock().ending, Ending::Open)
    }

    pub(crate) fn start(&self, head: ObjectHead) {
        let is_kept = head.sharing == Sharing::Stored;
        let was_first = self.head.set(head).is_ok();
        assert!(was_first, "a fill starts once");
        let mut state = self.lock();
        state.is_whole &= is_kept;
        state.wake_readers(self);
    }

    /// Appends bytes. `object_bytes_max` is the largest body to be held in memory.
    pub(crate) fn append(&self, bytes: Arc<[u8]>, object_bytes_max: u64) {
        let cost = bytes.len() + CHUNK_OVERHEAD_BYTES;
        let mut state = self.lock();
        let length = state.end + bytes.len() as u64;
        let promised = self.head.get().and_then(|head| head.length).unwrap_or(0);
        let is_to_be_whole = state.is_whole && length.max(promised) <= object_bytes_max;
        drop(state);
        // Eviction takes time and other locks, so it happens outside this lock.
        let fits = is_to_be_whole && self.memory.reserve(cost, self.key.hash());
        if !fits {
            self.memory.take(cost, self.key.hash());
        }
        state = self.lock();
        state.is_whole &= fits;
        state.reserved_bytes += cost;
        state.end = length;
        state.chunks.push_back(bytes);
        state.wake_readers(self);
    }

    /// Returns true if the writer may continue; otherwise the waker is called when it may.
    pub(crate) fn has_room(&self, waker: impl FnOnce() -> Waker) -> bool {
        let mut state = self.lock();
        let has_room = state.has_room(&self.memory);
        if !has_room {
            let since = state.writer.take().map_or_else(Instant::now, |writer| writer.since);
            state.writer = Some(Writer { waker: waker(), since });
        }
        has_room
    }

    /// Returns true if the whole body so far is held in order to store it.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().is_whole
    }

    /// Returns true if anyone will read or store the remaining bytes.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.lock();
        let is_kept = state.is_whole && self.head.get().is_none_or(|it| it.sharing == Sharing::Stored);
        is_kept || state.disk.is_some() || state.readers.iter().any(Option::is_some)
    }

    /// The whole body, if it is held.
    pub(crate) fn whole(&self) -> Option<Vec<Arc<[u8]>>> {
        let state = self.lock();
        state.is_whole.then(|| state.chunks.iter().map(Arc::clone).collect())
    }

    pub(crate) fn end(&self, ending: Ending) {
        let mut state = self.lock();
        if let Ending::Complete(Some(_)) = ending {
            state.chunks.clear();
            state.first = state.end;
        }
        state.is_whole = false;
        state.ending = ending;
        state.wake_readers(self);
    }

    pub(crate) fn length(&self) -> u64 {
        self.lock().end
    }

    /// The bytes at `position` for the reader `place`; `waker` is called when there are more.
    pub(crate) fn at(&self, place: usize, position: u64, waker: &Waker) -> ReadStep {
        let mut state = self.lock();
        if let Ending::Complete(Some(object)) = &state.ending {
            return object.slice(position).map_or(ReadStep::End, ReadStep::Bytes);
        }
        if position < state.first {
            return ReadStep::Gone;
        }
        if let Some(slice) = state.slice(position) {
            return ReadStep::Bytes(slice);
        }
        debug_assert!(state.readers[place].is_some(), "who reads is registered");
        match state.ending {
            Ending::Open => {
                state.wait(waker);
                ReadStep::Pending
            }
            Ending::Complete(_) => ReadStep::End,
            Ending::Truncated => ReadStep::Truncated,
        }
    }

    /// Returns true if the byte at `position` has arrived and is held.
    pub(crate) fn holds(&self, position: u64) -> bool {
        let state = self.lock();
        match &state.ending {
            Ending::Complete(Some(object)) => position < object.length(),
            _ => (state.first..state.end).contains(&position),
        }
    }

    /// Records that the reader `place` is at `position`, or gone.
    pub(crate) fn moved(&self, place: usize, position: Option<u64>) {
        let mut state = self.lock();
        state.readers[place] = position;
        state.trim(self);
    }

    /// Returns its share of the memory budget.
    pub(crate) fn release_all(&self) {
        self.release(&mut self.lock(), 0);
    }

    fn release(&self, state: &mut State, bytes_left: usize) {
        self.memory.release(state.reserved_bytes - bytes_left);
        state.reserved_bytes = bytes_left;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BusyObject {
    fn drop(&mut self) {
        let reserved = self.lock().reserved_bytes;
        self.memory.release(reserved);
    }
}

impl std::fmt::Debug for BusyObject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        formatter.debug_struct("BusyObject").field("end", &state.end).field("ending", &state.ending).finish()
    }
}

/// The source that a new reader gets.
pub(crate) enum Attached {
    Object(Arc<Object>),
    /// The reader's number in the busy object.
    Reader(usize),
}

#[derive(Default)]
struct State {
    /// The bytes from `first` to `end`.
    chunks: VecDeque<Arc<[u8]>>,
    first: u64,
    end: u64,
    ending: Ending,
    /// True while everything from the first byte on is held.
    is_whole: bool,
    readers: Vec<Option<u64>>,
    waiting: Vec<Waker>,
    writer: Option<Writer>,
    reserved_bytes: usize,
    /// Progress of writing to disk, if it is to be stored there.
    disk: Option<DiskProgress>,
}

/// The state of the body's writer.
struct Writer {
    waker: Waker,
    since: Instant,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Ending {
    #[default]
    Open,
    /// Completely received; with the object, if it is held in memory.
    Complete(Option<Arc<Object>>),
    /// The writer ended early.
    Truncated,
}

impl State {
    fn slice(&self, position: u64) -> Option<Slice> {
        // Searched from the end, where readers mostly are.
        let mut end = self.end;
        for chunk in self.chunks.iter().rev() {
            let start = end - chunk.len() as u64;
            if start <= position && position < end {
                return Some(Slice::whole(Arc::clone(chunk)).from((position - start) as usize));
            }
            end = start;
        }
        None
    }

    fn has_room(&self, memory: &Memory) -> bool {
        let buffer_bytes_max = match self.disk {
            _ if !memory.is_exhausted() => BUFFER_BYTES_MAX,
            Some(_) => disk::BUFFER_BYTES_MIN,
            None => BUFFER_BYTES_MIN,
        };
        self.is_whole || self.end - self.first < buffer_bytes_max
    }

    fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    fn wake_readers(&mut self, busy: &BusyObject) {
        self.waiting.drain(..).for_each(Waker::wake);
        self.trim(busy);
    }

    /// The position of the slowest reader; the end if there are none.
    fn slowest_reader(&self) -> u64 {
        self.readers.iter().flatten().copied().min().unwrap_or(self.end)
    }

    /// Drops bytes that no reader needs any more, unless the whole body is held.
    fn trim(&mut self, busy: &BusyObject) {
        if self.is_whole {
            return;
        }
        let on_disk = self.disk.map_or(self.end, |turn| turn.position);
        let slowest = self.slowest_reader().min(on_disk);
        while let Some(chunk) = self.chunks.front() {
            let end = self.first + chunk.len() as u64;
            if end > slowest {
                break;
            }
            let left = self.reserved_bytes.saturating_sub(chunk.len() + CHUNK_OVERHEAD_BYTES);
            busy.release(self, left);
            self.chunks.pop_front();
            self.first = end;
        }
        if self.writer.is_some() && self.has_room(&busy.memory) {
            self.writer.take().into_iter().for_each(|writer| writer.waker.wake());
        }
    }
}
