//! The shared memory of a scoreboard: a row for the whole server, a row per slot, and the table of connections per
//! address.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::SLOTS_MAX;
use super::per_address::HALF;
use crate::counters::{COUNT, Served};

#[derive(Debug)]
pub struct Memory {
    file: OwnedFd,
    start: NonNull<AtomicU64>,
}

/// The counters of a row and its permit, rounded up to cache lines so that neighbours do not share one.
const ROW: usize = (COUNT + 1).next_multiple_of(8);

const ROWS_BYTES: usize = (SLOTS_MAX + 1) * ROW * size_of::<u64>();

const MEMORY_BYTES: usize = ROWS_BYTES + 2 * HALF * size_of::<AtomicU32>();

// SAFETY: it is a table of atomics, mapped until the last owner is dropped.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new() -> io::Result<Memory> {
        let file = memfd_create("counters", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, MEMORY_BYTES as u64)?;
        // A process that truncated it would crash all others.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Memory::map(file)
    }

    pub fn map(file: OwnedFd) -> io::Result<Memory> {
        if rustix::fs::fstat(&file)?.st_size != MEMORY_BYTES as i64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a scoreboard of this version"));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses, of a file whose length is sealed, or a
        // predecessor's.
        let start =
            unsafe { mmap(std::ptr::null_mut(), MEMORY_BYTES, protection, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).expect("mappings do not begin at 0");
        Ok(Memory { file, start })
    }

    /// Open connections in all processes.
    pub fn open(&self) -> &AtomicU64 {
        self.shared(0)
    }

    /// How often reopening the log files was requested.
    pub fn reopenings(&self) -> &AtomicU64 {
        self.shared(1)
    }

    /// Not 0 if the last line of the log file is incomplete.
    pub fn log_incomplete(&self) -> &AtomicU64 {
        self.shared(2)
    }

    /// Not 0 once a successor serves.
    pub fn has_successor(&self) -> &AtomicU64 {
        self.shared(3)
    }

    /// A cell of the shared row, which precedes the slots.
    fn shared(&self, cell: usize) -> &AtomicU64 {
        assert!(cell < ROW);
        // SAFETY: a cell of the mapping's first row; any bits are a valid atomic, and it lives as long as `self`.
        unsafe { self.start.add(cell).as_ref() }
    }

    /// The counters of a slot.
    pub fn row(&self, index: usize) -> &[AtomicU64] {
        assert!(index < SLOTS_MAX);
        // SAFETY: row `index + 1` is within the mapping; any bits are valid atomics, and they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.add((index + 1) * ROW).as_ptr(), COUNT) }
    }

    /// The permit of the connection that a slot's process serves, if it serves one at a time.
    pub fn permit(&self, index: usize) -> &AtomicU64 {
        assert!(index < SLOTS_MAX);
        // SAFETY: the cell behind the counters of row `index + 1`, as in `row`.
        unsafe { self.start.add((index + 1) * ROW + COUNT).as_ref() }
    }

    pub fn per_address(&self) -> &[AtomicU32] {
        // SAFETY: the table follows the rows in the mapping; any bits are valid atomics, and they live as long as
        // `self`.
        unsafe {
            let start = self.start.cast::<u8>().add(ROWS_BYTES).cast::<AtomicU32>();
            std::slice::from_raw_parts(start.as_ptr(), 2 * HALF)
        }
    }

    /// Reads the counters of a slot.
    pub fn read(&self, index: usize) -> Served {
        let row = self.row(index);
        Served::of(std::array::from_fn(|counter| row[counter].load(Ordering::Relaxed)))
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; nothing borrowed from it outlives it.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), MEMORY_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_length_is_sealed() {
        let memory = Memory::new().unwrap();
        for length in [0, MEMORY_BYTES as u64 * 2] {
            assert_eq!(ftruncate(&memory.file, length), Err(rustix::io::Errno::PERM));
        }
    }
}
