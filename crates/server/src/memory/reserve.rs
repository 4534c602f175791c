//! An allocator with a reserve. A failed allocation would abort the server and all requests; instead the reserve is
//! released, which lasts until load shedding has freed memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::process::{Resource, getrlimit};

use super::{SHORTAGE, Shortage};

/// Address space only: it is never written.
const RESERVE: Layout = match Layout::from_size_align(16 << 20, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("a size and an alignment"),
};

/// Below this limit of the address space threads share one arena, because each arena sets aside 64 MiB.
const SMALL_ADDRESS_SPACE: u64 = 4 << 30;

static HELD: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// The allocator of the whole program.
pub struct Allocator;

// SAFETY: each call is the system allocator's, made once more if it failed.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        again_if_null(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        again_if_null(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises; a block that could not be moved is as it was.
        again_if_null(|| unsafe { System.realloc(block, layout, bytes) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[inline]
fn again_if_null(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let block = allocate();
    if block.is_null() { again(allocate) } else { block }
}

#[cold]
fn again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    if let_go() {
        SHORTAGE.store(Shortage::Critical as u8, Ordering::Relaxed);
    }
    allocate()
}

/// Releases the reserve; returns false if it was already released.
fn let_go() -> bool {
    let reserve = HELD.swap(ptr::null_mut(), Ordering::AcqRel);
    if !reserve.is_null() {
        // SAFETY: allocated with this layout, and nobody else has it any more.
        unsafe { System.dealloc(reserve, RESERVE) };
    }
    !reserve.is_null()
}

/// Prepares a server for memory exhaustion before it starts threads.
pub fn prepare() {
    replenish();
    #[cfg(target_env = "gnu")]
    if getrlimit(Resource::As).current.is_some_and(|limit| limit < SMALL_ADDRESS_SPACE) {
        // SAFETY: it changes only where new threads allocate.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Allocates the reserve again if it was released.
pub(super) fn replenish() {
    if HELD.load(Ordering::Acquire).is_null() {
        // SAFETY: the layout has a size.
        let reserve = unsafe { System.alloc(RESERVE) };
        let taken = HELD.compare_exchange(ptr::null_mut(), reserve, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_err() && !reserve.is_null() {
            // SAFETY: allocated just now, and nobody has seen it.
            unsafe { System.dealloc(reserve, RESERVE) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_let_go_once_and_taken_again() {
        replenish();
        assert!(let_go() && !let_go());
        replenish();
        assert!(let_go());
    }
}
