//! The shared memory of a scoreboard: a part for the whole server, one per slot, and the table of connections per
//! address.

use std::ffi::c_void;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(any(test, not(miri)))]
use rustix::fs::ftruncate;
#[cfg(not(miri))]
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::SLOTS_MAX;
use super::per_address::HALF;
use crate::counters::{COUNT, Served};

/// What all processes read and write. Any bits are valid atomics, and zeroed memory is an empty board.
#[repr(C)]
pub struct Board {
    pub server: OfServer,
    pub slots: [OfSlot; SLOTS_MAX],
    pub per_address: [AtomicU32; 2 * HALF],
}

/// The part of the whole server, in a cache line of its own.
#[repr(C, align(64))]
pub struct OfServer {
    /// Open connections in all processes.
    pub open: AtomicU64,
    /// How often reopening the log files was requested.
    pub reopenings: AtomicU64,
    /// Not 0 if the last line of the log file is incomplete.
    pub log_incomplete: AtomicU64,
    /// Not 0 once a successor serves.
    pub has_successor: AtomicU64,
    /// How many connections may still be accepted after a stop, and one; 0 before anybody has counted who waits.
    pub left_after_stop: AtomicU64,
}

/// The part of a loop or process. Neighbours share no cache line.
#[repr(C, align(64))]
pub struct OfSlot {
    pub counters: [AtomicU64; COUNT],
    /// The permit of the connection that the process serves, if it serves one at a time.
    pub permit: AtomicU64,
}

impl OfSlot {
    /// Reads the counters.
    pub fn read(&self) -> Served {
        Served::of(self.counters.each_ref().map(|counter| counter.load(Ordering::Relaxed)))
    }
}

/// A mapped board, and the file that other processes map it from.
#[derive(Debug)]
pub struct Memory {
    file: OwnedFd,
    board: NonNull<Board>,
}

// SAFETY: a board is a table of atomics, mapped until the last owner is dropped.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

#[cfg(miri)]
impl Memory {
    /// The interpreter has no mappings: memory of this process stands in for it.
    pub fn new() -> io::Result<Memory> {
        // SAFETY: zeroed memory is an empty board.
        let board = unsafe { Box::<Board>::new_zeroed().assume_init() };
        let board = NonNull::new(Box::into_raw(board)).expect("a box is not at 0");
        Ok(Memory { file: std::fs::File::open("/dev/null")?.into(), board })
    }
}

impl Memory {
    #[cfg(not(miri))]
    pub fn new() -> io::Result<Memory> {
        let file = memfd_create("counters", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, size_of::<Board>() as u64)?;
        // A process that truncated it would crash all others.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Memory::map(file)
    }

    pub fn map(file: OwnedFd) -> io::Result<Memory> {
        if rustix::fs::fstat(&file)?.st_size != size_of::<Board>() as i64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a scoreboard of this version"));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses, of a file whose length is sealed, or a
        // predecessor's.
        let start = unsafe {
            mmap(std::ptr::null_mut(), size_of::<Board>(), protection, MapFlags::SHARED, &file, 0)?
        };
        let board = NonNull::new(start.cast()).expect("mappings do not begin at 0");
        Ok(Memory { file, board })
    }
}

impl Deref for Memory {
    type Target = Board;

    fn deref(&self) -> &Board {
        // SAFETY: mapped in `map` with this size, page-aligned, and for as long as `self` lives.
        unsafe { self.board.as_ref() }
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if cfg!(miri) {
            // SAFETY: it was a box, as above.
            return drop(unsafe { Box::from_raw(self.board.as_ptr()) });
        }
        // SAFETY: mapped in `map` with this length; nothing borrowed from it outlives it.
        let _ = unsafe { munmap(self.board.as_ptr().cast::<c_void>(), size_of::<Board>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there are no mappings")]
    fn its_length_is_sealed() {
        let memory = Memory::new().unwrap();
        for length in [0, size_of::<Board>() as u64 * 2] {
            assert_eq!(ftruncate(&memory.file, length), Err(rustix::io::Errno::PERM));
        }
    }
}
