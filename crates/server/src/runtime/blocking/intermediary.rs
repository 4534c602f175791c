//! A proxy's worker: it serves one client at a time and waits for that client and for upstreams, whichever comes first.
//!
//! What is done is the event loop's, with one client. Connections to upstreams are the worker's own, and are kept from one
//! client to the next.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Attendant;
use crate::counters::Counter;
use crate::counters::scoreboard::{Permit, Place};
use crate::runtime::disk::Inline;
use crate::runtime::epoll::Loop;
use crate::runtime::sockets::accept::Arrival;
use crate::site::Site;
use crate::stop::Stop;

/// One thread of a proxy.
pub struct Intermediary<'a> {
    company: Loop<'a, Inline>,
    stop: &'a Stop,
}

impl<'a> Intermediary<'a> {
    /// For a thread of the process that serves `site`.
    pub fn of_thread(site: &'a Site, stop: &'a Stop) -> io::Result<Intermediary<'a>> {
        Ok(Intermediary { company: Loop::of_thread(site, stop, Inline::new(&site.origin))?, stop })
    }

    /// For a child process.
    pub fn of_child(site: &'a Site, place: Place, stop: &'a Stop) -> io::Result<Intermediary<'a>> {
        let inline = Inline::new(&site.origin);
        Ok(Intermediary { company: Loop::of_child(site, place, stop, inline)?, stop })
    }
}

impl Attendant for Intermediary<'_> {
    fn serve(&mut self, arrival: Arrival) {
        self.company.serve(arrival);
    }

    fn count(&mut self, counter: Counter) {
        self.company.count(counter);
    }

    fn seat(&mut self, seat: Permit) {
        self.company.seat(seat);
    }

    fn rest(&mut self) {
        self.company.rest();
    }

    fn wait_for_work(&mut self, source: BorrowedFd<'_>, heeds_stop: bool) -> bool {
        self.company.rest();
        let timeout = self.company.rests_for().and_then(|time| Timespec::try_from(time).ok());
        let company = self.company.as_fd();
        let mut waits = [&source, &company].map(|fd| PollFd::new(fd, PollFlags::IN)).to_vec();
        if heeds_stop {
            waits.push(PollFd::new(self.stop, PollFlags::IN));
        }
        poll(&mut waits, timeout.as_ref()).is_ok() && !waits[0].revents().is_empty()
    }

    fn is_overdue(&mut self) -> bool {
        self.company.is_overdue()
    }
}

impl Drop for Intermediary<'_> {
    fn drop(&mut self) {
        self.company.end();
    }
}
