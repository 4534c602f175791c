//! io_uring: one ring per core, driven by completions instead of readiness.
//!
//! Each ring has a thread with its event loop, caches and helpers; they share only the listening sockets and the
//! connection limit. On one core there is one ring and no other serving thread.

use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread::{available_parallelism, scope};

use super::{Architecture, Defaults, Unavailable};
use crate::counters::Served;
use crate::runtime::disk::HelperDisk;
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
        "one io_uring per core: the kernel performs the I/O and reports completions"
    }

    fn defaults(&self) -> Defaults {
        let workers = available_parallelism().map_or(1, NonZero::get);
        Defaults { workers: Some(workers), ..Defaults::default() }
    }

    fn available(&self) -> Result<(), Unavailable> {
        uring::available()
    }

    fn uses_io_uring(&self) -> bool {
        true
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        // Helper processes should start before there are threads.
        let shared = || listeners.iter().map(Listener::try_clone).collect::<io::Result<Vec<_>>>();
        let parts = |_| Ok((shared()?, HelperDisk::new(site)?));
        let mut rings = (0..site.workers.max(1)).map(parts).collect::<io::Result<Vec<_>>>()?;
        // The rings close their own copies when they stop accepting; these must not keep the ports open.
        drop(listeners);
        let built = Barrier::new(rings.len());
        let own = rings.pop().expect("at least one");
        let serve = |(listeners, disk)| {
            let others = StopsOthers(stop);
            let outcome = uring::run(site, listeners, stop, disk, &built);
            if outcome.is_ok() {
                std::mem::forget(others);
            }
            outcome
        };
        let serve = &serve;
        scope(|scope| {
            let threads: Vec<_> = rings.into_iter().map(|ring| scope.spawn(move || serve(ring))).collect();
            let own = serve(own);
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .fold(own, Result::and)
        })?;
        Ok(site.counters())
    }
}

/// If one ring fails or panics, all stop; otherwise the others would go on and hide the failure.
struct StopsOthers<'a>(&'a Stop);

impl Drop for StopsOthers<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use sojourn_content::{Directory, Rules};
    use sojourn_http::Status;
    use sojourn_http::request::Request;

    use super::*;
    use crate::connection::{Handler, Response, Step, Transport};
    use crate::handler::{Content, Kind, Setup, echo};

    /// Panics when asked to, and counts the handlers that were dropped.
    #[derive(Clone, Debug)]
    struct Fragile(Arc<AtomicUsize>);

    #[derive(Debug)]
    struct FragileHandler(Arc<AtomicUsize>);

    impl Content for Fragile {
        fn kind(&self) -> Kind {
            echo::KIND
        }

        fn start(&self, _setup: &Setup<'_>) -> io::Result<Box<dyn Handler>> {
            Ok(Box::new(FragileHandler(Arc::clone(&self.0))))
        }
    }

    impl Handler for FragileHandler {
        fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
            assert_ne!(request.target, b"/panic", "as requested");
            response.page(request, Status::Ok)
        }
    }

    impl Drop for FragileHandler {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The other rings stop, and the ring itself keeps its memory: the kernel may still write there.
    #[test]
    fn a_panic_in_one_ring_ends_all_and_frees_nothing_that_the_kernel_uses() {
        for rings in [1, 2] {
            let root = tempfile::tempdir().unwrap();
            let dropped = Arc::new(AtomicUsize::new(0));
            let site = Site {
                content: Arc::new(Fragile(Arc::clone(&dropped))),
                workers: rings,
                ..Site::new(Arc::new(Directory::new(root.path(), Rules::default()).unwrap()))
            };
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            let (over, ended) = mpsc::channel();
            std::thread::spawn(move || {
                let listeners = vec![Listener { socket, transport: Transport::Plain }];
                let stop = Stop::new().unwrap();
                let serve = || Uring.serve(&site, listeners, &stop).map(drop);
                let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(serve));
                over.send(served.is_err()).unwrap();
            });
            let _waiting = TcpStream::connect(address).unwrap();
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"GET /panic HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let has_panicked = ended.recv_timeout(Duration::from_secs(20)).expect("the others go on");
            assert!(has_panicked);
            assert_eq!(dropped.load(Ordering::SeqCst), rings - 1);
        }
    }
}
