//! A server in this process, and clients for it.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use sojourn_content::Directory;
use sojourn_server::{Architecture, Served, Site, Stop};

pub mod fixture;
pub mod script;

/// Nothing in these tests takes as long as this unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running server. Dropping it stops it.
pub struct Server {
    pub address: SocketAddr,
    pub site: Arc<Site>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<Served>>,
}

impl Server {
    /// Serves `root`.
    pub fn start(architecture: &'static dyn Architecture, root: &Path) -> Server {
        Server::with(architecture, Site::new(Arc::new(Directory::new(root, false).unwrap())))
    }

    /// Serves `site`.
    pub fn with(architecture: &'static dyn Architecture, site: Site) -> Server {
        Server::on(listener(), architecture, site)
    }

    /// Serves `site` on `listener`.
    pub fn on(listener: TcpListener, architecture: &'static dyn Architecture, site: Site) -> Server {
        let address = listener.local_addr().unwrap();
        let (site, stop) = (Arc::new(site), Arc::new(Stop::new().unwrap()));
        let (their_site, their_stop) = (Arc::clone(&site), Arc::clone(&stop));
        let thread =
            std::thread::spawn(move || architecture.serve(&their_site, listener, &their_stop).unwrap());
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
pub fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 4096).unwrap();
    listener
}

/// A client that reads with patience.
pub struct Client {
    pub stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, received: Vec::new() }
    }

    /// Another end of the same connection, for a thread that only reads.
    pub fn reader(&self) -> Client {
        Client { stream: self.stream.try_clone().unwrap(), received: Vec::new() }
    }

    /// Sends; a server that has closed already is no error here.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Says that no more will be sent.
    pub fn end(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Everything until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.receive() {}
        std::mem::take(&mut self.received)
    }

    /// Takes what `pattern` expects off the front of what is received.
    pub fn expect(&mut self, pattern: &script::Pattern) -> Result<(), String> {
        loop {
            if let Some(count) = pattern.take(&self.received)? {
                self.received.drain(..count);
                return Ok(());
            }
            if !self.receive() {
                return Err(format!("the connection ended before {pattern:?}; left: {:?}", self.received));
            }
        }
    }

    /// Takes exactly `count` bytes.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.receive(), "the connection ended after {} of {count} bytes", self.received.len());
        }
        self.received.drain(..count).collect()
    }

    /// Reads once; `false` at the end.
    fn receive(&mut self) -> bool {
        let mut chunk = [0; 65536];
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend_from_slice(&chunk[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing received in {PATIENCE:?}: {error}"),
        }
    }
}
