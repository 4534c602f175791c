//! Files without pages in memory, for tests of how a server handles them.
//!
//! On a busy machine one `POSIX_FADV_DONTNEED` is not enough: pages being written, or waiting in another processor's
//! LRU batch, stay. So the call is repeated until `mincore` finds none.

use std::os::fd::AsFd;
use std::ptr;

use rustix::fs::{Advice, fadvise, fstat, fsync};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use crate::until;

/// Writes `file` to its disk and drops all its pages.
///
/// # Panics
/// If they stay: the file system is in memory, or a process has the file mapped.
pub fn drop_pages(file: &impl AsFd) {
    until("the file's pages are dropped (is it on a disk?)", || {
        fsync(file).unwrap();
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        (resident_pages(file) == 0).then_some(())
    });
}

fn resident_pages(file: &impl AsFd) -> usize {
    let length = fstat(file).unwrap().st_size as usize;
    let mut pages = vec![0u8; length.div_ceil(page_size())];
    if pages.is_empty() {
        return 0;
    }
    // SAFETY: a new mapping that nothing else knows and nobody reads; there is a byte for each of its pages.
    unsafe {
        let mapping = mmap(ptr::null_mut(), length, ProtFlags::empty(), MapFlags::SHARED, file, 0).unwrap();
        assert_eq!(libc::mincore(mapping, length, pages.as_mut_ptr()), 0);
        munmap(mapping, length).unwrap();
    }
    pages.iter().filter(|page| **page & 1 == 1).count()
}
