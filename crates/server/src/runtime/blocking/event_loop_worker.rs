//! A proxy's worker: serves one client at a time, but waits for that client and upstreams together.
//!
//! The event loop does the work, with a single client. The worker keeps its own connections to upstreams from one
//! client to the next.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Worker;
use crate::access_log::AccessLog;
use crate::counters::Counter;
use crate::counters::scoreboard::{Permit, Slot};
use crate::runtime::contention::Backlog;
use crate::runtime::disk::Inline;
use crate::runtime::epoll::Loop;
use crate::runtime::sockets::accept::Arrival;
use crate::site::Site;
use crate::stop::Stop;

pub struct EventLoopWorker<'a> {
    event_loop: Loop<'a, Inline>,
    stop: &'a Stop,
}

impl<'a> EventLoopWorker<'a> {
    /// For a thread of the process that serves `site`.
    pub fn of_thread(site: &'a Site, stop: &'a Stop) -> io::Result<EventLoopWorker<'a>> {
        Ok(EventLoopWorker { event_loop: Loop::of_thread(site, stop, Inline::new(&site.origin))?, stop })
    }

    /// For a child process, which counts in `slot`.
    pub fn of_child(
        site: &'a Site,
        slot: Slot,
        log: Option<AccessLog>,
        stop: &'a Stop,
    ) -> io::Result<EventLoopWorker<'a>> {
        let inline = Inline::new(&site.origin);
        Ok(EventLoopWorker { event_loop: Loop::of_child(site, slot, log, stop, inline)?, stop })
    }
}

impl Worker for EventLoopWorker<'_> {
    fn serve(&mut self, arrival: Arrival, backlog: Option<&Backlog<'_>>) {
        self.event_loop.serve(arrival, backlog);
    }

    fn count(&mut self, counter: Counter) {
        self.event_loop.count(counter);
    }

    fn permit(&mut self, permit: Permit) {
        self.event_loop.permit(permit);
    }

    fn rest(&mut self) {
        self.event_loop.rest();
    }

    fn wait_for_work(&mut self, source: BorrowedFd<'_>, heeds_stop: bool) -> bool {
        self.event_loop.rest();
        let timeout = self.event_loop.next_timeout().and_then(|time| Timespec::try_from(time).ok());
        let event_loop = self.event_loop.as_fd();
        let mut waits = [&source, &event_loop].map(|fd| PollFd::new(fd, PollFlags::IN)).to_vec();
        if heeds_stop {
            waits.push(PollFd::new(self.stop, PollFlags::IN));
        }
        poll(&mut waits, timeout.as_ref()).is_ok() && !waits[0].revents().is_empty()
    }

    fn is_overdue(&mut self) -> bool {
        self.event_loop.is_overdue()
    }
}

impl Drop for EventLoopWorker<'_> {
    fn drop(&mut self) {
        self.event_loop.end();
    }
}
