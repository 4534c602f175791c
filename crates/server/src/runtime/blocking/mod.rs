//! Blocking service: a process or a thread serves one connection at a time, and waits for each of its
//! operations.
//!
//! The architectures with a process or thread per connection share it; they differ in how connections are accepted and
//! what shares memory. A [`Service`] is what the workers of a process share; a [`BlockingWorker`] serves connection
//! after connection. Limits, deadlines and counters are those of the event loop. A proxy's worker, which also waits for
//! upstreams, is an [`EventLoopWorker`].

use std::io;

use crate::access_log::AccessLog;
use crate::counters::scoreboard::Slot;
use crate::runtime::sockets::accept::Arrival;
use crate::site::Site;
use crate::stop::Stop;

mod accept;
mod blocking_worker;
mod client;
mod event_loop_worker;
mod service;
mod worker;

pub use accept::{SharedListeners, accept_and_serve};
pub use blocking_worker::BlockingWorker;
pub use event_loop_worker::EventLoopWorker;
pub use service::Service;
pub use worker::Worker;

/// Runs `life` in a child process with the kind of worker that `site` needs, and its own `log`.
///
/// # Errors
/// If the worker cannot be made, or `life` fails.
pub fn run_worker(
    site: &Site,
    slot: Slot,
    log: Option<AccessLog>,
    stop: &Stop,
    life: impl FnOnce(&mut dyn Worker) -> io::Result<()>,
) -> io::Result<()> {
    if site.content.makes_connections() {
        return life(&mut EventLoopWorker::of_child(site, slot, log, stop)?);
    }
    let service = Service::of_child(site, slot, log)?;
    life(&mut BlockingWorker::new(&service, stop))
}

/// Runs in a process that serves one connection, which is too short a life for a thread that writes the log.
///
/// # Errors
/// If the process cannot serve.
pub fn serve_one(site: &Site, arrival: Arrival, slot: Slot, stop: &Stop) -> io::Result<()> {
    serve_one_with(site, site.log.as_ref().map(AccessLog::writing_in_caller), arrival, slot, stop)
}

/// The same with another log.
///
/// # Errors
/// If the process cannot serve.
pub fn serve_one_with(
    site: &Site,
    log: Option<AccessLog>,
    arrival: Arrival,
    slot: Slot,
    stop: &Stop,
) -> io::Result<()> {
    run_worker(site, slot, log, stop, |worker| {
        worker.serve(arrival, None);
        Ok(())
    })
}
