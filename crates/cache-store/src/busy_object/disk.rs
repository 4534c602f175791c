//! Writing a body in transit to disk: how far the disk is, and when the writer may continue.

use std::time::Duration;

use super::{BusyObject, Ending};
use crate::body::Slice;

/// The disk writer is called when this many bytes wait for it.
const DISK_WRITE_BYTES: u64 = 256 * 1024;
/// How far the body may be ahead of the disk while the memory budget is exhausted; enough for the disk writer to be
/// called.
pub(super) const BUFFER_BYTES_MIN: u64 = 2 * DISK_WRITE_BYTES;
/// The disk writer takes at most this many bytes at once.
const DISK_SLICE_BYTES: u64 = 1024 * 1024;

#[derive(Clone, Copy, Default)]
pub(crate) struct DiskProgress {
    pub position: u64,
    /// True while a disk thread is writing, or queued to write.
    pub is_taken: bool,
}

/// The next step of a disk writer.
pub(crate) enum WriteStep {
    Bytes(Vec<Slice>),
    /// Nothing to write yet: the writer will be called again.
    Pending,
    Complete,
    Truncated,
}

impl BusyObject {
    pub(crate) fn write_to_disk(&self) {
        self.lock().disk = Some(DiskProgress::default());
    }

    /// Stops writing this body to disk.
    pub(crate) fn leave_disk(&self) {
        let mut state = self.lock();
        state.disk = None;
        state.trim(self);
    }

    /// Returns true if the disk writer must be called now, and marks it as called.
    pub(crate) fn claim_disk_turn(&self) -> bool {
        let mut state = self.lock();
        let (end, has_ended) = (state.end, !matches!(state.ending, Ending::Open));
        let Some(turn) = state.disk.as_mut().filter(|turn| !turn.is_taken) else { return false };
        turn.is_taken = has_ended || end - turn.position >= DISK_WRITE_BYTES;
        turn.is_taken
    }

    /// Bytes that wait for the disk after the body has arrived completely.
    pub(crate) fn bytes_left_at_end(&self) -> Option<u64> {
        let state = self.lock();
        let is_complete = matches!(state.ending, Ending::Complete(_));
        state.disk.filter(|_| is_complete).map(|turn| state.end - turn.position)
    }

    /// The bytes to write from `position`.
    pub(crate) fn to_disk(&self, position: u64) -> WriteStep {
        let mut state = self.lock();
        let mut slices = Vec::new();
        let mut at = position;
        while at < position + DISK_SLICE_BYTES {
            let slice = match &state.ending {
                Ending::Truncated => return WriteStep::Truncated,
                Ending::Complete(Some(object)) => object.slice(at),
                _ => state.slice(at),
            };
            let Some(slice) = slice else { break };
            at += slice.as_bytes().len() as u64;
            slices.push(slice);
        }
        match &state.ending {
            _ if !slices.is_empty() => WriteStep::Bytes(slices),
            Ending::Open => {
                if let Some(turn) = &mut state.disk {
                    turn.is_taken = false;
                }
                WriteStep::Pending
            }
            _ => WriteStep::Complete,
        }
    }

    /// Returns true if the disk has held back the insertion for at least `timeout`.
    pub(crate) fn is_blocked_on_disk(&self, timeout: Duration) -> bool {
        let state = self.lock();
        let is_overdue = state.writer.as_ref().is_some_and(|writer| writer.since.elapsed() >= timeout);
        // A reader as slow as the disk would hold it back anyway.
        is_overdue && state.disk.is_some_and(|turn| turn.position < state.slowest_reader())
    }

    /// Records that everything before `position` is on disk.
    pub(crate) fn is_on_disk(&self, position: u64) {
        let mut state = self.lock();
        if let Some(turn) = &mut state.disk {
            turn.position = position;
        }
        state.trim(self);
    }
}
