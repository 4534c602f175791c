//! A body that is also written to the disk: its progress there, and which side continues.

use std::time::Duration;

use super::{BusyObject, Ending};
use crate::body::Slice;

/// A writer to disk is called when so many bytes wait for it.
const DISK_WRITE_BYTES: u64 = 256 * 1024;
/// How far the body's writer may be ahead while all of the memory budget is used: enough that the disk is called.
pub(super) const BUFFER_BYTES_MIN: u64 = 2 * DISK_WRITE_BYTES;
/// It takes at most so many at once.
const DISK_TURN_BYTES: u64 = 1024 * 1024;

#[derive(Clone, Copy, Default)]
pub(crate) struct DiskProgress {
    pub position: u64,
    /// A disk thread is writing, or about to.
    pub is_taken: bool,
}

/// The next step of a writer to disk.
pub(crate) enum WriteStep {
    Bytes(Vec<Slice>),
    /// No bytes yet: the writer will be called again.
    Pending,
    Complete,
    Truncated,
}

impl BusyObject {
    pub(crate) fn write_to_disk(&self) {
        self.lock().disk = Some(DiskProgress::default());
    }

    /// It is not to be on disk any more.
    pub(crate) fn leave_disk(&self) {
        let mut state = self.lock();
        state.disk = None;
        state.trim(self);
    }

    /// Returns true if a writer to disk must be called now, and marks it as called.
    pub(crate) fn claim_disk_turn(&self) -> bool {
        let mut state = self.lock();
        let (end, has_ended) = (state.end, !matches!(state.ending, Ending::Open));
        let Some(turn) = state.disk.as_mut().filter(|turn| !turn.is_taken) else { return false };
        turn.is_taken = has_ended || end - turn.position >= DISK_WRITE_BYTES;
        turn.is_taken
    }

    /// Bytes that are held for the disk once the body has come.
    pub(crate) fn bytes_left_at_end(&self) -> Option<u64> {
        let state = self.lock();
        let is_complete = matches!(state.ending, Ending::Complete(_));
        state.disk.filter(|_| is_complete).map(|turn| state.end - turn.position)
    }

    /// The bytes to write from `position` on.
    pub(crate) fn to_disk(&self, position: u64) -> WriteStep {
        let mut state = self.lock();
        let mut slices = Vec::new();
        let mut at = position;
        while at < position + DISK_TURN_BYTES {
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

    /// Returns true if the disk has put backpressure on the insertion for as long as `timeout`.
    pub(crate) fn is_held_back_by_disk(&self, timeout: Duration) -> bool {
        let state = self.lock();
        let is_overdue = state.writer.as_ref().is_some_and(|writer| writer.since.elapsed() >= timeout);
        // A reader that is as slow holds it back all the same.
        is_overdue && state.disk.is_some_and(|turn| turn.position < state.slowest_reader())
    }

    /// Everything before `position` is on disk.
    pub(crate) fn is_on_disk(&self, position: u64) {
        let mut state = self.lock();
        if let Some(turn) = &mut state.disk {
            turn.position = position;
        }
        state.trim(self);
    }
}
