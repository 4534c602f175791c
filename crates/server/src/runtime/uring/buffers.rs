//! Provided buffers: lent to the kernel in a ring, from which it takes one when bytes have arrived.
//!
//! So an idle connection needs no buffer. Received bytes are copied out immediately (requests are short) and the buffer
//! is returned, so a few serve any number of clients. When more arrives at once than there are buffers, the operation
//! fails with `ENOBUFS` and is repeated.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::queue::Queue;
use super::sanitizer;

/// The number of buffers, a power of two: what may arrive between two waits without repeating operations.
pub const BUFFERS: u16 = 256;

/// The most bytes that one operation receives.
pub const BYTES_EACH: usize = 4096;

/// The ID of this buffer group in operations.
pub const GROUP: u16 = 0;

/// The ring's entries come first: they fill one page, so the buffers are aligned.
const ENTRIES_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();

const MAPPED_BYTES: usize = ENTRIES_BYTES + BUFFERS as usize * BYTES_EACH;

/// The buffers of one ring. Must be dropped after the ring, or when no receive is in progress.
pub struct Buffers {
    memory: NonNull<u8>,
    /// Where the next buffer is returned; wraps around.
    tail: u16,
}

impl Buffers {
    /// Registers buffers for operations of `queue`.
    pub fn new(queue: &Queue) -> io::Result<Buffers> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                MAPPED_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let memory = NonNull::new(memory.cast()).expect("a mapping is not at the null address");
        let mut buffers = Buffers { memory, tail: 0 };
        // SAFETY: the entries are at the start of the mapping, which outlives the registration.
        unsafe { queue.submitter().register_buf_ring_with_flags(memory.as_ptr() as u64, BUFFERS, GROUP, 0)? };
        for id in 0..BUFFERS {
            buffers.recycle(id);
        }
        Ok(buffers)
    }

    /// Appends the `length` bytes in buffer `id` to `bytes`, and returns the buffer.
    pub fn take(&mut self, id: u16, length: usize, bytes: &mut Vec<u8>) {
        assert!(id < BUFFERS && length <= BYTES_EACH, "a buffer of ours, not overrun");
        sanitizer::take_back(self.start_of(id), BYTES_EACH);
        // SAFETY: within the mapping; the kernel does not touch the buffer until it is returned.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(self.start_of(id), length) });
        self.recycle(id);
    }

    fn recycle(&mut self, id: u16) {
        let entries = self.memory.as_ptr().cast::<BufRingEntry>();
        let address = self.start_of(id) as u64;
        sanitizer::lend(self.start_of(id), BYTES_EACH);
        // SAFETY: the index is within the ring, and the entry is ours until the tail moves past it.
        let entry = unsafe { &mut *entries.add(usize::from(self.tail % BUFFERS)) };
        entry.set_addr(address);
        entry.set_len(BYTES_EACH as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is in the first entry, aligned, and only accessed atomically.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        // Release: the kernel must see the entry before the tail.
        tail.store(self.tail, Ordering::Release);
    }

    fn start_of(&self, id: u16) -> *mut u8 {
        // SAFETY: within the mapping for every valid id.
        unsafe { self.memory.as_ptr().add(ENTRIES_BYTES + usize::from(id) * BYTES_EACH) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        sanitizer::take_back(self.memory.as_ptr(), MAPPED_BYTES);
        // SAFETY: our own mapping, which is no longer used.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), MAPPED_BYTES) };
    }
}
