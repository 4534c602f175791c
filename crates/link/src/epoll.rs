//! Waits until descriptors are readable; each has a token.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;

/// Events per wait; the rest follow at the next wait.
const EVENTS_MAX: usize = 16;

pub struct Readiness {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Readiness {
    pub fn new() -> io::Result<Readiness> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Readiness { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// Waits until something is readable and returns the tokens; none if a signal interrupted the wait.
    pub fn wait(&mut self) -> io::Result<impl Iterator<Item = u64>> {
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), None) {
            Ok(_) | Err(Errno::INTR) => Ok(self.events.iter().map(|event| event.data.u64())),
            Err(error) => Err(error.into()),
        }
    }
}
