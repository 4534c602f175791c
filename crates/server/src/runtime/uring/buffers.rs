//! Memory that the kernel receives into: lent to it as a ring, from which it takes a buffer only when there are
//! bytes to put in.
//!
//! So an idle connection needs no buffer. Received bytes are copied out at once, a request being short, and
//! the buffer goes back: a few of them serve any number of clients. When more arrives at once than there are
//! buffers, the operation fails with `ENOBUFS` and is asked for again.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::queue::Queue;

/// Buffers: what may arrive between two waits without being asked for again. A power of two.
pub const BUFFERS: u16 = 256;

/// The most that one operation receives.
const BYTES_EACH: usize = 4096;

/// How operations name this group of buffers.
pub const GROUP: u16 = 0;

/// The entries of the ring come first: they fill one page and so leave the buffers aligned.
const ENTRIES_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();

const MAPPED_BYTES: usize = ENTRIES_BYTES + BUFFERS as usize * BYTES_EACH;

/// The buffers of one ring. To be dropped after the ring, or when nothing is being received any more.
pub struct Buffers {
    memory: NonNull<u8>,
    /// Where the next one is given back; it runs over.
    tail: u16,
}

impl Buffers {
    /// Buffers for operations of `queue`.
    pub fn new(queue: &Queue) -> io::Result<Buffers> {
        // SAFETY: a new mapping, wherever the kernel wants it.
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
        // SAFETY: the entries lie at the start of the mapping, which outlives the registration.
        unsafe { queue.submitter().register_buf_ring_with_flags(memory.as_ptr() as u64, BUFFERS, GROUP, 0)? };
        for id in 0..BUFFERS {
            buffers.give_back(id);
        }
        Ok(buffers)
    }

    /// Adds the `length` bytes that the kernel put into the buffer `id` to `bytes`, and gives the buffer back.
    pub fn take(&mut self, id: u16, length: usize, bytes: &mut Vec<u8>) {
        assert!(id < BUFFERS && length <= BYTES_EACH, "a buffer of ours, not overrun");
        // SAFETY: within the mapping; the kernel does not touch the buffer until it is given back.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(self.start_of(id), length) });
        self.give_back(id);
    }

    fn give_back(&mut self, id: u16) {
        let entries = self.memory.as_ptr().cast::<BufRingEntry>();
        let address = self.start_of(id) as u64;
        // SAFETY: the index is within the ring, and until the tail moves past it the entry is ours.
        let entry = unsafe { &mut *entries.add(usize::from(self.tail % BUFFERS)) };
        entry.set_addr(address);
        entry.set_len(BYTES_EACH as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry, aligned, and is only accessed atomically.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        // The kernel sees the entry no later than the tail.
        tail.store(self.tail, Ordering::Release);
    }

    fn start_of(&self, id: u16) -> *mut u8 {
        // SAFETY: within the mapping for every id there is.
        unsafe { self.memory.as_ptr().add(ENTRIES_BYTES + usize::from(id) * BYTES_EACH) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which is no longer used.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), MAPPED_BYTES) };
    }
}
