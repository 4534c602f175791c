//! io_uring: one ring per core, driven by completions instead of readiness.
//!
//! Each ring has a thread with its event loop, caches and helpers; they share only the listening sockets and the
//! connection limit. On one core there is one ring and no other serving thread.

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
        // Helper processes should start before there are threads.
        let shared = || listeners.iter().map(Listener::try_clone).collect::<io::Result<Vec<_>>>();
        let parts = |_| Ok((shared()?, Helped::new(site)?));
        let mut rings = (0..site.workers.max(1)).map(parts).collect::<io::Result<Vec<_>>>()?;
        // The rings close their own copies when they stop accepting; these must not keep the ports open.
        drop(listeners);
        let built = Barrier::new(rings.len());
        let own = rings.pop().expect("at least one");
        let serve = |(listeners, disk)| {
            let outcome = uring::run(site, listeners, stop, disk, &built);
            if outcome.is_err() {
                // If one fails, stop all; otherwise the others would go on and hide the failure.
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
