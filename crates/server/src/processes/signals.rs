//! Signals held back for a moment.

use std::mem::MaybeUninit;
use std::ptr;

use crate::stop::PASSED_ON;

/// The stop signals of this thread are held back until it is dropped.
pub struct HeldBack {
    before: libc::sigset_t,
}

/// Holds the stop signals back.
pub fn hold_back() -> HeldBack {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` and `pthread_sigmask` initialise the sets; with valid arguments they do not fail.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, PASSED_ON] {
            libc::sigaddset(signals.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), before.as_mut_ptr());
        HeldBack { before: before.assume_init() }
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // SAFETY: the set was initialised by the kernel.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}
