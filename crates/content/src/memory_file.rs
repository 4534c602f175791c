//! A memory file (memfd), so that a generated document can be served like any file.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// A memory file being written.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// An empty file, listed in `/proc` as `name`.
    pub fn new(name: &str) -> Result<MemoryFile, Errno> {
        memfd_create(name, MemfdFlags::CLOEXEC).map(|file| MemoryFile(file.into()))
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        self.0.write_all(bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<MemoryFile> for OwnedFd {
    fn from(file: MemoryFile) -> OwnedFd {
        file.0.into()
    }
}
