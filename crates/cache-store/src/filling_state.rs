//! What is held of a body on its way, for whom, and who waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use super::chunks::CHUNK_BYTES_BESIDE;
use super::disk_turn::DiskTurn;
use super::extent::Slice;
use super::filling::{Filling, WINDOW_BYTES};
use super::object::Object;

/// What is held.
#[derive(Default)]
pub(super) struct State {
    /// The bytes from `first` to `end`.
    pub(super) chunks: VecDeque<Arc<[u8]>>,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) ending: Ending,
    /// Everything is held, from the first byte on.
    pub(super) is_whole: bool,
    /// Where each reader is.
    pub(super) readers: Vec<Option<u64>>,
    pub(super) waiting: Vec<Waker>,
    pub(super) writer: Option<Writer>,
    /// What it takes of the memory budget.
    pub(super) reserved_bytes: usize,
    /// While it is to be on disk, too.
    pub(super) disk: Option<DiskTurn>,
}

/// Who fills the body and waits for room.
pub(super) struct Writer {
    pub(super) waker: Waker,
    pub(super) since: Instant,
}

/// How a body ended.
#[derive(Clone, Debug, Default)]
pub(super) enum Ending {
    /// Not yet.
    #[default]
    Open,
    /// All of it came; the object, if all of it is held.
    Complete(Option<Arc<Object>>),
    /// The writer went away before the end.
    Truncated,
}

impl State {
    pub(super) fn slice(&self, position: u64) -> Option<Slice> {
        // Readers are mostly near the end, and chunks few.
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

    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    pub(super) fn wake_readers(&mut self, filling: &Filling) {
        self.waiting.drain(..).for_each(Waker::wake);
        self.trim(filling);
    }

    /// Where the slowest reader is; the end if nobody reads.
    pub(super) fn slowest_reader(&self) -> u64 {
        self.readers.iter().flatten().copied().min().unwrap_or(self.end)
    }

    /// Lets go of what nobody will read again, unless all is held.
    pub(super) fn trim(&mut self, filling: &Filling) {
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
            let left = self.reserved_bytes.saturating_sub(chunk.len() + CHUNK_BYTES_BESIDE);
            filling.release(self, left);
            self.chunks.pop_front();
            self.first = end;
        }
        if self.end - self.first < WINDOW_BYTES
            && let Some(writer) = self.writer.take()
        {
            writer.waker.wake();
        }
    }
}
