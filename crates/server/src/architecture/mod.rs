//! Architectures: how processes, threads and waiting are organised. One file each, one table.
//!
//! An architecture serves a site on listening sockets until it is told to stop. It decides about processes and threads,
//! but knows nothing of HTTP, caches or the steps within a request.

use std::io;
use std::time::Duration;

use sojourn_content::Budgets;

use crate::counters::Served;
use crate::limits::Limits;
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

mod amped;
mod amped_nowait;
mod fork;
mod helper;
mod inetd;
mod mp;
mod mt;
mod ncopy;
mod sped;
mod uring;

pub use crate::runtime::uring::Unavailable;

/// A way to organise a server.
pub trait Architecture: Sync {
    /// The name on the command line and in results.
    fn name(&self) -> &'static str;

    /// One line of help.
    fn summary(&self) -> &'static str;

    /// Default settings of a site under this architecture.
    fn defaults(&self) -> Defaults {
        Defaults::default()
    }

    /// Checks that this system can run it, before the server reports that it listens.
    fn available(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    /// The processes that share a proxy's cache; `None` if this architecture cannot run a proxy.
    fn cache_scope(&self) -> Option<CacheScope> {
        Some(CacheScope::Server)
    }

    /// Whether its processes use io_uring, which the sandbox then allows.
    fn uses_io_uring(&self) -> bool {
        false
    }

    /// Makes the sockets that `workers` serve on from `listeners`, while the process may still bind to their ports.
    fn listeners(&self, listeners: Vec<Listener>, _workers: usize) -> io::Result<Vec<Listener>> {
        Ok(listeners)
    }

    /// Serves `site` on `listeners` until `stop`; returns when all accepted connections are closed.
    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served>;
}

/// Settings of an architecture that options can override.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Processes, threads or loops; `None` if there is one loop, or one process per connection.
    pub workers: Option<usize>,
    /// Budgets of each cache; a server with several processes has several caches.
    pub budgets: Budgets,
    /// How long a request may take to arrive.
    pub head: Duration,
}

/// The time for a request to arrive where a process or thread waits for it and does nothing else: a few hundred clients that
/// send theirs slowly are enough to keep all of them busy.
pub const HEAD_TIMEOUT_OF_WORKERS: Duration = Duration::from_secs(5);

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults { workers: None, budgets: Budgets::default(), head: Limits::default().head }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// All loops and threads of the server share the cache.
    Server,
    /// Each worker process has its own cache.
    Worker,
    /// Each connection has its own cache, which ends with the connection's process.
    Connection,
}

/// Every architecture, in the order of the documentation.
pub const ALL: &[&dyn Architecture] = &[
    &fork::Fork,
    &inetd::Inetd,
    &helper::HELPER,
    &helper::HELPER_FORK,
    &helper::STANDARD,
    &mp::Mp,
    &mt::Mt,
    &sped::Sped,
    &amped::Amped,
    &amped_nowait::AmpedNowait,
    &ncopy::Ncopy,
    &uring::Uring,
];

/// The architecture called `name` in [`ALL`].
pub fn by_name(name: &str) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|architecture| architecture.name() == name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    use sojourn_http::Status;
    use sojourn_http::request::Request;

    use super::*;
    use crate::connection::{Handler, Response, Step, Transport};
    use crate::handler::reverse_proxy::NoDocuments;
    use crate::handler::{Content, Kind, Setup, echo};

    /// So many clients come, one for each that is served.
    const CLIENTS: usize = 400;

    #[derive(Clone, Debug)]
    struct Overload {
        address: SocketAddr,
        clients: Arc<Mutex<Vec<TcpStream>>>,
    }

    impl Overload {
        fn add_client(&self) {
            let mut clients = self.clients.lock().unwrap();
            // Once the listener is closed, nobody comes any more.
            if clients.len() < CLIENTS
                && let Ok(mut client) = TcpStream::connect(self.address)
            {
                client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
                clients.push(client);
            }
        }
    }

    impl Content for Overload {
        fn kind(&self) -> Kind {
            echo::KIND
        }

        fn start(&self, _setup: &Setup<'_>) -> io::Result<Box<dyn Handler>> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Handler for Overload {
        fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
            self.add_client();
            response.page(request, Status::Ok)
        }
    }

    /// As under overload, where the queue is never empty.
    #[test]
    fn a_stop_does_not_wait_until_nobody_comes_any_more() {
        for name in ["sped", "uring"] {
            let architecture = by_name(name).unwrap();
            if architecture.available().is_err() {
                continue;
            }
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let overload = Overload { address: socket.local_addr().unwrap(), clients: Arc::default() };
            overload.add_client();
            let mut site = Site::new(Arc::new(NoDocuments));
            site.content = Arc::new(overload.clone());
            site.limits.end = Duration::from_millis(50);
            let stop = Stop::new().unwrap();
            stop.request();
            architecture.serve(&site, vec![Listener { socket, transport: Transport::Plain }], &stop).unwrap();
            let came = overload.clients.lock().unwrap().len();
            assert!(came < CLIENTS, "{name}: it has served all {came}");
        }
    }
}
