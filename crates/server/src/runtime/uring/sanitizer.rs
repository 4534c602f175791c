//! What AddressSanitizer does not see: memory that the kernel uses. Only builds of `scripts/sanitize` check it.
//!
//! The sanitizer checks the accesses of the program, not those of the kernel. So the memory of every operation is noted when it is
//! submitted, and must still be allocated when the operation completes: the sanitizer marks freed memory and does not use it
//! again for a while. Buffers that are lent to the kernel may not be accessed until they come back.

pub use implementation::{KernelMemory, lend, take_back};

#[cfg(address_sanitizer)]
mod implementation {
    use std::collections::HashMap;
    use std::ffi::c_void;
    use std::fmt::Debug;

    use io_uring::opcode;
    use io_uring::squeue::Entry;

    unsafe extern "C" {
        fn __asan_region_is_poisoned(start: *const c_void, size: usize) -> *const c_void;
        fn __asan_poison_memory_region(start: *const c_void, size: usize);
        fn __asan_unpoison_memory_region(start: *const c_void, size: usize);
    }

    /// The memory of the operations in progress, by their user data: addresses and lengths.
    #[derive(Default)]
    pub struct KernelMemory(HashMap<u64, Vec<(usize, usize)>>);

    impl KernelMemory {
        /// Notes the memory of `operation`, which is about to be submitted.
        pub fn note(&mut self, operation: &Entry, data: u64) {
            let regions = regions(operation);
            if !regions.is_empty() {
                let before = self.0.insert(data, regions);
                assert!(before.is_none(), "{data:x} has two operations with memory");
            }
        }

        /// The operation has completed.
        ///
        /// # Panics
        /// If memory of it has been freed meanwhile.
        pub fn check(&mut self, purpose: impl Debug, data: u64) {
            for (start, length) in self.0.remove(&data).into_iter().flatten() {
                // SAFETY: it only looks at the sanitizer's marks.
                let freed = unsafe { __asan_region_is_poisoned(start as *const c_void, length) };
                assert!(freed.is_null(), "{purpose:?} of {data:x}: {freed:?} was freed before it completed");
            }
        }
    }

    fn regions(operation: &Entry) -> Vec<(usize, usize)> {
        const { assert!(size_of::<Entry>() == size_of::<[u64; 8]>()) };
        // SAFETY: it consists of integers, and has their size and alignment (struct io_uring_sqe).
        let fields: &[u64; 8] = unsafe { &*std::ptr::from_ref(operation).cast() };
        let (code, address, length) = (fields[0] as u8, fields[2] as usize, fields[3] as u32 as usize);
        match code {
            opcode::Send::CODE | opcode::Read::CODE => vec![(address, length)],
            // Otherwise into a provided buffer.
            opcode::Recv::CODE if address != 0 => vec![(address, length)],
            opcode::SendMsg::CODE => {
                // SAFETY: the operation points to a header, which points to its pieces.
                let (header, pieces) = unsafe {
                    let header = &*(address as *const libc::msghdr);
                    (header, std::slice::from_raw_parts(header.msg_iov, header.msg_iovlen))
                };
                let pieces_bytes = size_of_val(pieces);
                let mut regions =
                    vec![(address, size_of::<libc::msghdr>()), (header.msg_iov as usize, pieces_bytes)];
                regions.extend(pieces.iter().map(|piece| (piece.iov_base as usize, piece.iov_len)));
                regions
            }
            _ => Vec::new(),
        }
    }

    /// The kernel may write here from now on.
    pub fn lend(start: *const u8, length: usize) {
        // SAFETY: it marks memory that nothing else uses.
        unsafe { __asan_poison_memory_region(start.cast(), length) };
    }

    /// The memory is the program's again.
    pub fn take_back(start: *const u8, length: usize) {
        // SAFETY: it removes marks that `lend` has made.
        unsafe { __asan_unpoison_memory_region(start.cast(), length) };
    }
}

#[cfg(not(address_sanitizer))]
mod implementation {
    use std::fmt::Debug;

    use io_uring::squeue::Entry;

    #[derive(Default)]
    pub struct KernelMemory {}

    impl KernelMemory {
        pub fn note(&mut self, _operation: &Entry, _data: u64) {}

        pub fn check(&mut self, _purpose: impl Debug, _data: u64) {}
    }

    pub fn lend(_start: *const u8, _length: usize) {}

    pub fn take_back(_start: *const u8, _length: usize) {}
}
