//! The interface of workers, which serve connections one after the other.

use std::io;
use std::os::fd::BorrowedFd;

use super::{BlockingWorker, EventLoopWorker, Service};
use crate::counters::Counter;
use crate::counters::scoreboard::{Permit, Slot};
use crate::runtime::contention::Backlog;
use crate::runtime::sockets::accept::Arrival;
use crate::site::Site;
use crate::stop::Stop;

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

/// Runs `life` in a child process with the kind of worker that `site` needs.
///
/// # Errors
/// If the worker cannot be made, or `life` fails.
pub fn run_worker(
    site: &Site,
    slot: Slot,
    stop: &Stop,
    life: impl FnOnce(&mut dyn Worker) -> io::Result<()>,
) -> io::Result<()> {
    if site.content.makes_connections() {
        return life(&mut EventLoopWorker::of_child(site, slot, stop)?);
    }
    let service = Service::of_child(site, slot)?;
    life(&mut BlockingWorker::new(&service, stop))
}

/// Runs in a child process that serves one connection.
///
/// # Errors
/// If the process cannot serve.
pub fn serve_one(site: &Site, arrival: Arrival, slot: Slot, stop: &Stop) -> io::Result<()> {
    run_worker(site, slot, stop, |worker| {
        worker.serve(arrival, None);
        Ok(())
    })
}
