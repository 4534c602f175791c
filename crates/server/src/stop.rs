//! The request to stop: a flag for those who look, an eventfd for those who wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Tells a serving architecture to stop; it cannot be taken back.
#[derive(Debug)]
pub struct Stop {
    requested: AtomicBool,
    event: OwnedFd,
}

impl Stop {
    /// Not requested yet.
    pub fn new() -> io::Result<Stop> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Stop { requested: AtomicBool::new(false), event })
    }

    /// Requests the stop and wakes everybody who waits for it.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
        // It can only fail when the counter is full: then it is readable already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Whether the stop was requested.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// Readable from the request on, for ever: nobody reads it, so everybody sees it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
