//! A body on its way: one writes, many read, each at its own pace.
//!
//! Bytes appended are there for every reader at once. What is to be kept is held from its first byte to its last;
//! what is not is held for the readers alone, and the writer is asked to pause when it is a window ahead of the
//! slowest. Who waits leaves a [`Waker`] and is woken once.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;

use super::chunks::CHUNK_BYTES_BESIDE;
use super::extent::Slice;
use super::filling_state::{Ending, State, Writer};
use super::key::Key;
use super::memory::Memory;
use super::reader::Reader;

/// How far the writer of a body that is not kept may be ahead of its slowest reader.
pub const WINDOW_BYTES: u64 = 1024 * 1024;

/// A body on its way, as its readers see it.
pub struct Filling {
    key: Key<'static>,
    number: u64,
    memory: Arc<Memory>,
    started: OnceLock<Started>,
    state: Mutex<State>,
}

/// What is known when the response's head is.
#[derive(Clone, Debug)]
pub struct Started {
    /// What others keep with the object.
    pub metadata: Box<[u8]>,
    /// Bytes of the body, if the head says so.
    pub length: Option<u64>,
    /// What it varies by.
    pub vary: Option<Vary>,
    /// Who may have it.
    pub sharing: Sharing,
}

/// Which variant of a resource a response is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// The request fields by which the response was chosen.
    pub fields: Vec<Box<[u8]>>,
    /// Their values, normalised: equal for requests that it answers.
    pub secondary: Box<[u8]>,
}

/// Who may have a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Everybody, now and later: it is kept.
    Stored,
    /// Who waits for it already.
    Waiting,
    /// Only who began it.
    Private,
}

/// How far a filling object is.
#[derive(Debug)]
pub enum Stage<'a> {
    /// The head is not here yet; the waker is called.
    Waiting,
    /// Read on.
    Started(&'a Started),
    /// There will be none, or it is not for others: ask for yourself.
    Failed,
}

/// What a reader finds at its position.
pub(super) enum At {
    Bytes(Slice),
    Later,
    End,
    /// The bytes were here and are no longer.
    Gone,
    Truncated,
}

impl Filling {
    pub(super) fn new(key: Key<'static>, number: u64, memory: Arc<Memory>) -> Filling {
        let state = Mutex::new(State { is_whole: true, ..State::default() });
        Filling { key, number, memory, started: OnceLock::new(), state }
    }

    /// What was asked for.
    pub fn key(&self) -> &Key<'static> {
        &self.key
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How far it is; `waker` is called at the next change if it waits for the head.
    pub fn stage(&self, waker: &Waker) -> Stage<'_> {
        let mut state = self.lock();
        match (self.started.get(), &state.ending) {
            (Some(started), _) if started.sharing == Sharing::Private => Stage::Failed,
            (Some(started), _) => Stage::Started(started),
            (None, Ending::Open) => {
                state.wait(waker);
                Stage::Waiting
            }
            (None, _) => Stage::Failed,
        }
    }

    /// What is known since the head is here.
    pub fn started(&self) -> Option<&Started> {
        self.started.get()
    }

    /// Reads the body from its beginning; `None` if that is no longer held.
    pub fn reader(self: &Arc<Self>) -> Option<Reader> {
        let mut state = self.lock();
        if let Ending::Complete(Some(object)) = &state.ending {
            return Some(Reader::of_object(Arc::clone(object)));
        }
        if state.first > 0 {
            return None;
        }
        let place = state.readers.iter().position(Option::is_none).unwrap_or(state.readers.len());
        if place == state.readers.len() {
            state.readers.push(None);
        }
        state.readers[place] = Some(0);
        drop(state);
        Some(Reader::of_filling(Arc::clone(self), place))
    }

    pub(super) fn start(&self, started: Started) {
        let is_kept = started.sharing == Sharing::Stored;
        let was_first = self.started.set(started).is_ok();
        assert!(was_first, "a fill starts once");
        let mut state = self.lock();
        state.is_whole &= is_kept;
        state.wake_readers(self);
    }

    /// Adds bytes; `object_bytes_max` is what an object in memory may have at most.
    pub(super) fn append(&self, bytes: Arc<[u8]>, object_bytes_max: u64) {
        let cost = bytes.len() + CHUNK_BYTES_BESIDE;
        let mut state = self.lock();
        let length = state.end + bytes.len() as u64;
        let promised = self.started.get().and_then(|started| started.length).unwrap_or(0);
        let is_to_be_whole = state.is_whole && length.max(promised) <= object_bytes_max;
        drop(state);
        // Evicting takes time and other locks: readers go on meanwhile.
        let fits = is_to_be_whole && self.memory.reserve(cost, self.key.hash());
        if !fits {
            self.memory.reserve_regardless(cost);
        }
        state = self.lock();
        state.is_whole &= fits;
        state.reserved_bytes += cost;
        state.end = length;
        state.chunks.push_back(bytes);
        state.wake_readers(self);
    }

    /// Whether the writer may go on; `waker` is called when it may again.
    pub(super) fn has_room(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        let has_room = state.is_whole || state.end - state.first < WINDOW_BYTES;
        if !has_room {
            let since = state.writer.take().map_or_else(Instant::now, |writer| writer.since);
            state.writer = Some(Writer { waker: waker.clone(), since });
        }
        has_room
    }

    /// Whether anybody wants the bytes that are still to come.
    pub(super) fn is_wanted(&self) -> bool {
        let state = self.lock();
        let is_kept = state.is_whole && self.started.get().is_none_or(|it| it.sharing == Sharing::Stored);
        is_kept || state.disk.is_some() || state.readers.iter().any(Option::is_some)
    }

    /// The whole body, if all of it is held.
    pub(super) fn whole(&self) -> Option<Vec<Arc<[u8]>>> {
        let state = self.lock();
        state.is_whole.then(|| state.chunks.iter().map(Arc::clone).collect())
    }

    /// It is over.
    pub(super) fn end(&self, ending: Ending) {
        let mut state = self.lock();
        if let Ending::Complete(Some(_)) = ending {
            state.chunks.clear();
            state.first = state.end;
        }
        state.is_whole = false;
        state.ending = ending;
        state.wake_readers(self);
    }

    pub(super) fn length(&self) -> u64 {
        self.lock().end
    }

    /// What there is at `position`, for the reader at `place`, who is woken when there is more.
    pub(super) fn at(&self, place: usize, position: u64, waker: &Waker) -> At {
        let mut state = self.lock();
        if let Ending::Complete(Some(object)) = &state.ending {
            return object.slice(position).map_or(At::End, At::Bytes);
        }
        if position < state.first {
            return At::Gone;
        }
        if let Some(slice) = state.slice(position) {
            return At::Bytes(slice);
        }
        debug_assert!(state.readers[place].is_some(), "who reads is registered");
        match state.ending {
            Ending::Open => {
                state.wait(waker);
                At::Later
            }
            Ending::Complete(_) => At::End,
            Ending::Truncated => At::Truncated,
        }
    }

    /// The reader at `place` has come to `position`, or is gone.
    pub(super) fn moved(&self, place: usize, position: Option<u64>) {
        let mut state = self.lock();
        state.readers[place] = position;
        state.trim(self);
    }

    /// Gives its part of the memory budget back.
    pub(super) fn release_all(&self) {
        self.release(&mut self.lock(), 0);
    }

    pub(super) fn release(&self, state: &mut State, bytes_left: usize) {
        self.memory.release(state.reserved_bytes - bytes_left);
        state.reserved_bytes = bytes_left;
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        let reserved = self.lock().reserved_bytes;
        self.memory.release(reserved);
    }
}

impl std::fmt::Debug for Filling {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        formatter.debug_struct("Filling").field("end", &state.end).field("ending", &state.ending).finish()
    }
}
