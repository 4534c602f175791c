//! Bodies in memory files (memfd), from which the kernel sends without copying.
//!
//! A memory file needs a descriptor, which are scarce, and pages of its own, so only objects that are sent often get
//! one. It is sealed before it is shared, and mapped, so that its bytes can be read like any others.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::Mmap;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Kernel memory per file beside its pages; docs/cache-storage.md has the measurement.
pub const FILE_OVERHEAD_BYTES: usize = 2048;

/// The granularity of a file's memory.
const PAGE_BYTES: usize = 4096;

pub struct MemoryFile {
    file: File,
    bytes: Mmap,
    _place: FilePermit,
}

/// The number of open memory files, and its limit.
#[derive(Debug)]
pub struct MemoryFiles {
    open: AtomicUsize,
    max: usize,
}

#[derive(Debug)]
pub struct FilePermit(Arc<MemoryFiles>);

/// Shared bytes, in the heap or in a memory file.
#[derive(Clone, Debug)]
pub enum SharedBytes {
    Heap(Arc<[u8]>),
    File(Arc<MemoryFile>),
}

impl MemoryFiles {
    pub fn new(max: usize) -> Arc<MemoryFiles> {
        Arc::new(MemoryFiles { open: AtomicUsize::new(0), max })
    }

    /// A permit for one more file, if any are left.
    pub fn take(self: &Arc<MemoryFiles>) -> Option<FilePermit> {
        let place = FilePermit(Arc::clone(self));
        // There was no permit left: undo the increment.
        (self.open.fetch_add(1, Ordering::Relaxed) < self.max).then_some(place)
    }
}

impl Drop for FilePermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MemoryFile {
    /// A memory file with these `pieces` in sequence, of which at least one is not empty.
    pub fn new<'p>(pieces: impl Iterator<Item = &'p [u8]>, place: FilePermit) -> io::Result<MemoryFile> {
        let mut file = File::from(memfd_create("body", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        for piece in pieces {
            file.write_all(piece)?;
        }
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
        // SAFETY: the seals forbid writing to the file and truncating it.
        let bytes = unsafe { Mmap::map(&file)? };
        Ok(MemoryFile { file, bytes, _place: place })
    }

    pub fn memory_bytes(&self) -> usize {
        FILE_OVERHEAD_BYTES + self.bytes.len().next_multiple_of(PAGE_BYTES)
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryFile").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl SharedBytes {
    pub fn memory_bytes(&self) -> usize {
        match self {
            SharedBytes::Heap(bytes) => bytes.len(),
            SharedBytes::File(file) => file.memory_bytes(),
        }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            SharedBytes::Heap(bytes) => bytes,
            SharedBytes::File(file) => &file.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_file_has_all_its_pieces_and_keeps_them() {
        let files = MemoryFiles::new(1);
        let pieces = [b"abc".as_slice(), b"", b"defgh"];
        let file = MemoryFile::new(pieces.into_iter(), files.take().unwrap()).unwrap();
        assert_eq!(rustix::io::pwrite(&file, b"x", 0), Err(Errno::PERM), "it is sealed");
        assert_eq!(rustix::fs::ftruncate(&file, 1), Err(Errno::PERM), "it is sealed");
        assert!(file.memory_bytes() >= PAGE_BYTES);
        assert_eq!(&*SharedBytes::File(Arc::new(file)), b"abcdefgh");
    }

    #[test]
    fn there_are_no_more_than_there_may_be() {
        let files = MemoryFiles::new(2);
        let places = [files.take(), files.take(), files.take()];
        assert_eq!(places.each_ref().map(Option::is_some), [true, true, false]);
        drop(places);
        assert!(files.take().is_some());
        assert!(MemoryFiles::new(0).take().is_none());
    }
}
