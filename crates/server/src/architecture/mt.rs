//! MT: N threads, each serving one connection at a time, over one shared cache.
//!
//! A cache miss delays only its own connection. All threads share caches and counters behind one lock, which is held
//! while a connection handles an event, but never while a thread waits for a disk or a client.

use std::io;

use super::{Architecture, Defaults, HEAD_TIMEOUT_OF_WORKERS};
use crate::counters::Served;
use crate::runtime::blocking::{
    BlockingWorker, EventLoopWorker, Service, SharedListeners, Worker, accept_and_serve,
};
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::registry;
use crate::site::Site;
use crate::stop::Stop;

/// Flash-MT's number of threads (USENIX ATC 1999, 6).
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
        Defaults { workers: Some(THREADS), head: HEAD_TIMEOUT_OF_WORKERS, ..Defaults::default() }
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
            // Each waiting thread holds a descriptor. One thread more than connections refuses those above the limit.
            for number in 0..site.workers.min(site.limits.connections_max + 1) {
                // If a thread cannot be started the others serve; without any there is no server.
                if let (0, Err(error)) = (number, start(number)) {
                    return Err(error);
                }
            }
            Ok(())
        })?;
        Ok(site.counters())
    }
}
