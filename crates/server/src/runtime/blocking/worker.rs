//! Who serves connections one after the other, whatever they are served with.

use std::io;
use std::os::fd::BorrowedFd;

use super::{BlockingWorker, EventLoopWorker, Service};
use crate::counters::Counter;
use crate::counters::scoreboard::{Permit, Place};
use crate::runtime::sockets::accept::Arrival;
use crate::site::Site;
use crate::stop::Stop;

/// Serves one connection at a time.
pub trait Worker {
    /// Serves one connection until it is over.
    fn serve(&mut self, arrival: Arrival);

    /// Counts something and shows it.
    fn count(&mut self, counter: Counter);

    /// Whoever is served next has `permit`, for a process that serves one at a time and may die meanwhile.
    fn permit(&mut self, permit: Permit);

    /// Does what is due between two connections.
    fn rest(&mut self);

    /// Waits until `source` is readable, or a stop is requested if it `heeds_stop`; returns whether `source` is.
    fn wait_for_work(&mut self, source: BorrowedFd<'_>, heeds_stop: bool) -> bool;

    /// Returns true if a stop was requested and the time to finish is over.
    fn is_overdue(&mut self) -> bool;
}

/// The `life` of a child process with the worker that it has for `site`.
///
/// # Errors
/// If there can be no worker, or `life` fails.
pub fn run_worker(
    site: &Site,
    place: Place,
    stop: &Stop,
    life: impl FnOnce(&mut dyn Worker) -> io::Result<()>,
) -> io::Result<()> {
    if site.content.makes_connections() {
        return life(&mut EventLoopWorker::of_child(site, place, stop)?);
    }
    let service = Service::of_child(site, place)?;
    life(&mut BlockingWorker::new(&service, stop))
}

/// The life of a child process that serves one connection.
///
/// # Errors
/// If the process cannot serve.
pub fn serve_one(site: &Site, arrival: Arrival, place: Place, stop: &Stop) -> io::Result<()> {
    run_worker(site, place, stop, |worker| {
        worker.serve(arrival);
        Ok(())
    })
}
