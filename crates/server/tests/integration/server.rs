//! A server in this process, and clients for it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use sojourn_server::connection::Transport;
use sojourn_server::{Architecture, Listener, Served, Site, Stop};
use sojourn_testing::Client;

/// A running server. Dropping it stops it.
pub struct Server {
    pub address: SocketAddr,
    pub site: Arc<Site>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<Served>>,
}

impl Server {
    /// Serves `site`.
    pub fn with(architecture: &'static dyn Architecture, site: Site) -> Server {
        Server::on(listener(), architecture, site)
    }

    /// Serves `site` on `listener`.
    pub fn on(listener: Listener, architecture: &'static dyn Architecture, site: Site) -> Server {
        let address = listener.socket.local_addr().unwrap();
        let (site, stop) = (Arc::new(site), Arc::new(Stop::new().unwrap()));
        let (their_site, their_stop) = (Arc::clone(&site), Arc::clone(&stop));
        let thread =
            std::thread::spawn(move || architecture.serve(&their_site, vec![listener], &their_stop).unwrap());
        Server { address, site, stop, thread: Some(thread) }
    }

    /// A connection to it.
    pub fn connect(&self) -> Client {
        Client::to(self.address)
    }

    /// What one GET on a connection of its own gives, whole.
    pub fn get(&self, path: &str) -> String {
        let mut client = self.connect();
        client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
        String::from_utf8_lossy(&client.rest()).into_owned()
    }

    /// Requests the stop without waiting for it.
    pub fn request_stop(&self) {
        self.stop.request();
    }

    /// Waits until it has stopped.
    pub fn wait(mut self) -> Served {
        self.thread.take().unwrap().join().unwrap()
    }

    /// Stops it.
    pub fn stop(self) -> Served {
        self.request_stop();
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
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
