//! Stop signals held back for a moment: around a fork, and until a program that is executed can handle them.

use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_int, sigset_t};

use crate::stop::PASSED_ON;

/// The stop signals of this thread are held back until it is dropped.
pub struct HeldBack {
    before: sigset_t,
}

/// Holds the stop signals back.
pub fn hold_back() -> HeldBack {
    HeldBack { before: change_mask(libc::SIG_BLOCK, &set_of(&[libc::SIGTERM, libc::SIGINT, PASSED_ON])) }
}

/// Lets `signals` through that somebody has held back, perhaps before this program was executed.
pub fn let_through(signals: &[c_int]) {
    change_mask(libc::SIG_UNBLOCK, &set_of(signals));
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, &self.before);
    }
}

fn set_of(signals: &[c_int]) -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set; neither fails with valid arguments.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Returns the mask as it was.
fn change_mask(how: c_int, set: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: with valid arguments it does not fail, and so initialises `before`.
    unsafe {
        libc::pthread_sigmask(how, ptr::from_ref(set), before.as_mut_ptr());
        before.assume_init()
    }
}
