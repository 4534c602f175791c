//! The interface of workers, which serve connections one after the other.

use std::os::fd::BorrowedFd;

use crate::counters::Counter;
use crate::counters::scoreboard::Permit;
use crate::runtime::contention::Backlog;
use crate::runtime::sockets::accept::Arrival;

pub trait Worker {
    /// Serves one connection until it ends. A client that keeps the worker waiting gives way to those in the backlog.
    fn serve(&mut self, arrival: Arrival, backlog: Option<&Backlog<'_>>);

    /// Counts and publishes.
    fn count(&mut self, counter: Counter);

    /// Records the permit of the next connection; if the process dies, its parent releases it.
    fn permit(&mut self, permit: Permit);

    /// Does the work that is due between two connections.
    fn rest(&mut self);

    /// Waits until `source` is readable; returns true if it is. A stop ends the wait if it `heeds_stop`.
    fn wait_for_work(&mut self, source: BorrowedFd<'_>, heeds_stop: bool) -> bool;

    /// Returns true if a stop was requested and the drain timeout has passed.
    fn is_overdue(&mut self) -> bool;
}
