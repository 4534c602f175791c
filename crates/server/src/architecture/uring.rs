//! io_uring: one ring per core, driven by completions instead of readiness.
//!
//! Each ring has a thread, the loop that belongs to it, caches and helpers of its own; they share the listening
//! sockets, the limit on connections and nothing else. On one core there is one ring and no other thread serves.

use std::io;
use std::num::NonZero;
use std::sync::Barrier;
use std::thread::{available_parallelism, scope};

use super::{Architecture, Defaults, Unavailable};
use crate::counters::Served;
use crate::runtime::disk::Helped;
use crate::runtime::sockets::accept::Listener;
use crate::runtime::uring;
use crate::site::Site;
use crate::stop::Stop;

pub struct Uring;

impl Architecture for Uring {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn summary(&self) -> &'static str {
        "one io_uring per core: the kernel does what is wanted and says when it is done"
    }

    fn defaults(&self) -> Defaults {
        let workers = available_parallelism().map_or(1, NonZero::get);
        Defaults { workers: Some(workers), ..Defaults::default() }
    }

    fn available(&self) -> Result<(), Unavailable> {
        uring::available()
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        // Helpers that are processes are best started before there are threads.
        let shared = || listeners.iter().map(Listener::try_clone).collect::<io::Result<Vec<_>>>();
        let parts = |_| Ok((shared()?, Helped::new(site)?));
        let mut rings = (0..site.workers.max(1)).map(parts).collect::<io::Result<Vec<_>>>()?;
        // The rings' own are closed when they stop accepting: these must not keep the ports.
        drop(listeners);
        let built = Barrier::new(rings.len());
        let own = rings.pop().expect("at least one");
        let serve = |(listeners, disk)| {
            let outcome = uring::run(site, listeners, stop, disk, &built);
            if outcome.is_err() {
                // The others would go on serving, and the failure would stay hidden.
                stop.request();
            }
            outcome
        };
        let serve = &serve;
        scope(|scope| {
            let threads: Vec<_> = rings.into_iter().map(|ring| scope.spawn(move || serve(ring))).collect();
            let own = serve(own);
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a ring does not panic"))
                .fold(own, Result::and)
        })?;
        Ok(site.counters())
    }
}
