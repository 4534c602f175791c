//! MT: N threads, each serving one connection at a time, over one shared cache.
//!
//! A miss makes only its own connection wait. All threads share the caches and the counters, behind one lock
//! that is held while a connection handles an event; no thread waits for a disk or a client while it holds
//! the lock.

use std::io;

use super::{Architecture, Defaults};
use crate::counters::Served;
use crate::runtime::blocking::{
    BlockingWorker, EventLoopWorker, Service, SharedListeners, Worker, accept_and_serve,
};
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::registry;
use crate::site::Site;
use crate::stop::Stop;

/// As many threads as Flash-MT had (USENIX ATC 1999, 6).
const THREADS: usize = 64;

pub struct Mt;

impl Architecture for Mt {
    fn name(&self) -> &'static str {
        "mt"
    }

    fn summary(&self) -> &'static str {
        "N threads (64), each serving one connection at a time, over one shared cache"
    }

    fn defaults(&self) -> Defaults {
        Defaults { workers: Some(THREADS), ..Defaults::default() }
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        let listeners = SharedListeners::new(listeners)?;
        registry::complete();
        let is_alone = !site.content.makes_connections();
        let service = is_alone.then(|| Service::of_threads(site, site.scoreboard.slot())).transpose()?;
        std::thread::scope(|scope| {
            let start = |number| {
                let acceptor = listeners.acceptor()?;
                let mut worker: Box<dyn Worker + Send> = match &service {
                    Some(service) => Box::new(BlockingWorker::new(service, stop)),
                    None => Box::new(EventLoopWorker::of_thread(site, stop)?),
                };
                let work = move || accept_and_serve(&mut *worker, &acceptor, site, stop);
                std::thread::Builder::new().name(format!("worker-{number}")).spawn_scoped(scope, work)
            };
            // Each holds a descriptor while it waits for a connection; one more than connections, to refuse
            // those above the limit.
            for number in 0..site.workers.min(site.limits.connections_max + 1) {
                // Without one more the others serve; without any there is no server.
                if let (0, Err(error)) = (number, start(number)) {
                    return Err(error);
                }
            }
            Ok(())
        })?;
        Ok(site.counters())
    }
}
