//! The request to stop: a flag, an eventfd to wait for, and the signals that make it.
//!
//! Each process has its own. The first signal starts a graceful shutdown, a second one ends the process at once. A
//! server forwards the request to its children with a separate signal, [`PASSED_ON`], which does not count as a second
//! one; otherwise a signal to the whole process group would cut requests short.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::c_int;
use rustix::event::{EventfdFlags, eventfd};

use crate::signals::{PASSED_ON, handle, unblock_signals};

/// The exit status after a second signal.
const CUT_SHORT: c_int = 1;

/// The stop that the signal handler requests.
static CURRENT: AtomicPtr<Stop> = AtomicPtr::new(ptr::null_mut());

/// The request to stop; it cannot be withdrawn.
#[derive(Debug)]
pub struct Stop {
    requested: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    pub fn new() -> io::Result<Stop> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Stop { requested: AtomicBool::new(false), event })
    }

    /// A stop that each of `signals` requests from now on, replacing any earlier one.
    ///
    /// It needs no thread, so a process that forks can be single-threaded. Waiting system calls are interrupted.
    pub fn on_signals(signals: &[c_int]) -> io::Result<&'static Stop> {
        let stop: &'static Stop = Box::leak(Box::new(Stop::new()?));
        CURRENT.store(ptr::from_ref(stop).cast_mut(), Ordering::Release);
        for signal in signals {
            handle(*signal, on_signal)?;
        }
        // The parent may have blocked them before it executed this program.
        unblock_signals(signals);
        Ok(stop)
    }

    /// Requests the stop and wakes all threads that wait for it.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
        // It can only fail if the counter is full, and then it is readable already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// Readable once the stop is requested; it is never read, so every process sees it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

/// An atomic store and a raw system call that preserves `errno`: allowed in a signal handler.
extern "C" fn on_signal(signal: c_int) {
    // SAFETY: null, or leaked and so valid forever.
    let Some(stop) = (unsafe { CURRENT.load(Ordering::Acquire).as_ref() }) else { return };
    if stop.is_requested() && signal != PASSED_ON {
        // SAFETY: `_exit` is allowed in a signal handler.
        unsafe { libc::_exit(CUT_SHORT) }
    }
    stop.request();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_requests_it() {
        let stop = Stop::on_signals(&[libc::SIGUSR1]).unwrap();
        assert!(!stop.is_requested());
        // SAFETY: the handler is in place.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert!(stop.is_requested());
        let mut waits = [rustix::event::PollFd::new(stop, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut waits, None), Ok(1));
    }
}
