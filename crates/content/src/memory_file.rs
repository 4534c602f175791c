//! A file that is in memory alone: what is made and not found becomes a document like any other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, write};

/// A file in memory that is being written.
#[derive(Debug)]
pub struct MemoryFile(OwnedFd);

impl MemoryFile {
    /// An empty one, which `/proc` shows as `name`.
    pub fn new(name: &str) -> Result<MemoryFile, Errno> {
        memfd_create(name, MemfdFlags::CLOEXEC).map(MemoryFile)
    }

    /// Appends `bytes`.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match write(&self.0, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<MemoryFile> for OwnedFd {
    fn from(file: MemoryFile) -> OwnedFd {
        file.0
    }
}
