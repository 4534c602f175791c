//! Returns memory to the kernel after a burst.
//!
//! The allocator keeps freed memory between used blocks for ever. About once a second this module returns what has been
//! free for a while, or everything if memory is short.

use std::sync::Mutex;
use std::time::Duration;

/// The interval between checks.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Free memory that the allocator may keep for the next burst.
const FREE_BYTES_MAX: usize = 32 << 20;

/// The looks of a process.
#[derive(Debug, Default)]
struct Memory {
    next: Duration,
    free_bytes: usize,
    /// Free bytes that have already been returned.
    returned_bytes: usize,
}

static MEMORY: Mutex<Memory> = Mutex::new(Memory { next: Duration::ZERO, free_bytes: 0, returned_bytes: 0 });

/// Returns unused memory, if a check is due at `now`.
pub(super) fn look(now: Duration, is_short: bool) {
    let Ok(mut memory) = MEMORY.try_lock() else { return };
    if now >= memory.next {
        memory.next = now + LOOK_PERIOD;
        if memory.is_to_return(free_bytes()) || is_short {
            return_free();
        }
    }
}

impl Memory {
    /// Returns true if `free_bytes` should be returned to the kernel.
    fn is_to_return(&mut self, free_bytes: usize) -> bool {
        let lasting_bytes = self.free_bytes.min(free_bytes);
        self.free_bytes = free_bytes;
        // Returned memory that is in use again no longer counts as returned.
        self.returned_bytes = self.returned_bytes.min(free_bytes);
        let is_worth_it = lasting_bytes - self.returned_bytes.min(lasting_bytes) > FREE_BYTES_MAX;
        if is_worth_it {
            self.returned_bytes = free_bytes;
        }
        is_worth_it
    }
}

/// Bytes that the allocator holds and nobody uses.
#[cfg(target_env = "gnu")]
pub(super) fn free_bytes() -> usize {
    // SAFETY: it only reads the allocator's own state, under its locks.
    unsafe { libc::mallinfo2() }.fordblks
}

#[cfg(target_env = "gnu")]
fn return_free() {
    // SAFETY: it returns only pages without a block in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn free_bytes() -> usize {
    0
}

#[cfg(not(target_env = "gnu"))]
fn return_free() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_free_for_two_looks_is_returned_once() {
        const MIB: usize = 1 << 20;
        let mut memory = Memory::default();
        let looks = [(0, false), (200, false), (10, false), (200, false), (150, true), (150, false)];
        let more = [(160, false), (170, false), (20, false), (100, false), (100, true), (100, false)];
        for (free_mib, expected) in looks.into_iter().chain(more) {
            assert_eq!(memory.is_to_return(free_mib * MIB), expected, "{free_mib} MiB: {memory:?}");
        }
    }
}
