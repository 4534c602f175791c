//! A server in this process, and clients for it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sojourn_server::connection::Transport;
use sojourn_server::handler::reverse_proxy::DiskThreads;
use sojourn_server::{Architecture, Counter, Listener, Served, Site, Stop, admin};
use sojourn_testing::client::Serving;
use sojourn_testing::{Client, until};

/// A running server; dropping it stops it.
pub struct Server {
    pub address: SocketAddr,
    /// The address of its admin listener.
    pub admin: SocketAddr,
    pub site: Arc<Site>,
    /// The threads of its cache's disk, which end after the server.
    pub disk_threads: Option<DiskThreads>,
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    pub fn with(architecture: &'static dyn Architecture, site: Site) -> Server {
        Server::on(listener(), architecture, site)
    }

    pub fn on(listener: Listener, architecture: &'static dyn Architecture, site: Site) -> Server {
        let address = listener.socket.local_addr().unwrap();
        let admin_listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let admin = admin_listener.local_addr().unwrap();
        // The clients' descriptors are in the same process.
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
        let (site, stop) = (Arc::new(site), Arc::new(Stop::new().unwrap()));
        let (their_site, their_stop) = (Arc::clone(&site), Arc::clone(&stop));
        let serving = std::thread::spawn(move || {
            architecture.serve(&their_site, vec![listener], &their_stop).unwrap();
        });
        let (their_site, their_stop) = (Arc::clone(&site), Arc::clone(&stop));
        let operated = std::thread::spawn(move || {
            admin::serve(&*their_site, &admin_listener, &their_stop).unwrap();
        });
        let threads = vec![serving, operated];
        Server { address, admin, site, disk_threads: None, stop, threads }
    }

    pub fn connect(&self) -> Client {
        Client::to(self.address)
    }

    /// The whole response to one GET on a new connection.
    pub fn get(&self, path: &str) -> String {
        let mut client = self.connect();
        client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
        String::from_utf8_lossy(&client.rest()).into_owned()
    }

    pub fn counters(&self) -> Served {
        self.site.counters()
    }

    pub fn wait_until(&self, counter: Counter, value: u64) {
        until(&format!("{} = {value}", counter.key()), || {
            (self.counters().value(counter) == value).then_some(())
        });
    }

    /// Stops the server; returns its counters.
    pub fn stop(mut self) -> Served {
        self.stop.request();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.counters()
    }
}

impl Serving for Server {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A listening socket on a free port with a long backlog.
pub fn listener() -> Listener {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&socket, 4096).unwrap();
    Listener { socket, transport: Transport::Plain }
}
