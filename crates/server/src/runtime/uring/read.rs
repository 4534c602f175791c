//! Reads documents through the ring.
//!
//! The kernel reads buffered files without a thread if the file system supports that, otherwise with a thread of its
//! own; either way the loop gets a completion. Bytes to be returned are read directly into their final place. Bytes
//! that only need to be in the page cache go to a scratch buffer shared by all such reads.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::io::Errno;
use sojourn_content::{Done, FileRange, LoadError};

/// The most that one operation reads into the scratch buffer.
const SCRATCH_BYTES: usize = 512 * 1024;

/// The buffer for bytes that only need to be in the page cache. It never moves, because the kernel may write to it at
/// any time.
pub struct Scratch(Box<[MaybeUninit<u8>]>);

impl Scratch {
    /// Memory that costs nothing until it is used.
    pub fn new() -> Scratch {
        Scratch(Box::new_uninit_slice(SCRATCH_BYTES))
    }
}

/// A range being read.
pub struct Reading {
    range: FileRange,
    /// Where the bytes are stored, if they are to be returned.
    bytes: Option<Arc<[MaybeUninit<u8>]>>,
    read: usize,
}

impl Reading {
    /// # Panics
    /// If the document is no file.
    pub fn new(range: FileRange) -> Reading {
        let bytes = range.into_memory.then(|| Arc::new_uninit_slice(range.length));
        Reading { range, bytes, read: 0 }
    }

    /// The operation that reads the missing bytes, or a part of them. `self` and `scratch` must live until it
    /// completes.
    pub fn operation(&mut self, scratch: &mut Scratch) -> squeue::Entry {
        let rest = self.range.length - self.read;
        let (start, length) = match &mut self.bytes {
            Some(bytes) => {
                let bytes = Arc::get_mut(bytes).expect("shared only when it is complete");
                (bytes[self.read..].as_mut_ptr(), rest)
            }
            None => (scratch.0.as_mut_ptr(), rest.min(SCRATCH_BYTES)),
        };
        let file = self.range.document.file().expect("a file");
        let file = types::Fd(file.as_raw_fd());
        opcode::Read::new(file, start.cast(), length as u32)
            .offset(self.range.offset + self.read as u64)
            .build()
    }

    /// Handles a completion; returns the outcome unless there is more to read.
    pub fn advance(&mut self, result: Result<u32, Errno>) -> Option<Done> {
        match result {
            Ok(0) => Some(Done::Loaded(Err(LoadError::Truncated))),
            Ok(count) => {
                self.read += count as usize;
                (self.read >= self.range.length).then(|| {
                    Done::Loaded(Ok(self.bytes.take().map(|bytes| {
                        // SAFETY: the kernel has filled all of it.
                        unsafe { bytes.assume_init() }
                    })))
                })
            }
            Err(Errno::INTR | Errno::AGAIN) => None,
            Err(_) => Some(Done::Loaded(Err(LoadError::Failed))),
        }
    }
}
