//! Scripted upstreams: slow, dead, lying or misbehaving.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::client::with_deadline;

/// An upstream that listens until the test ends.
pub struct Upstream {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
}

/// A connection made by the server under test.
pub struct Peer {
    pub stream: TcpStream,
    received: Vec<u8>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// Serves each connection with `serve`.
    pub fn start(serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 4096).unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, heads) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (their_connections, their_heads) = (Arc::clone(&connections), Arc::clone(&heads));
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                their_connections.fetch_add(1, Ordering::SeqCst);
                let (serve, heads) = (Arc::clone(&serve), Arc::clone(&their_heads));
                std::thread::spawn(move || {
                    serve(&mut Peer { stream: with_deadline(stream), received: Vec::new(), heads });
                });
            }
        });
        Upstream { address, connections, heads }
    }

    /// An upstream that answers every request with `answer` verbatim.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Upstream {
        let answer = answer.into();
        Upstream::start(move |peer| {
            while peer.head().is_some() {
                peer.send(&answer);
            }
        })
    }

    /// An address where nothing listens.
    pub fn dead() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Peer {
    /// The head of the next request; `None` at the end of the connection.
    pub fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.received.drain(..end + 4).collect();
                let head = String::from_utf8(head).unwrap();
                self.heads.lock().unwrap().push(head.clone());
                return Some(head);
            }
            self.receive()?;
        }
    }

    /// The next bytes of a body up to `end`.
    pub fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.received.windows(end.len()).position(|part| part == end) {
                return self.received.drain(..at + end.len()).collect();
            }
            self.receive().expect("the connection ended");
        }
    }

    /// Exactly this many bytes of a body; `None` if the connection ends before.
    pub fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.received.len() < count {
            self.receive()?;
        }
        Some(self.received.drain(..count).collect())
    }

    /// Sends; ignores errors if the proxy has closed.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends; returns false if the other side has closed.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Closes with a reset, so that data in transit is lost.
    pub fn reset(&mut self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(std::time::Duration::ZERO)).unwrap();
    }

    /// Returns true if the other side closes or resets.
    pub fn is_closed(&mut self) -> bool {
        while self.receive().is_some() {}
        true
    }

    fn receive(&mut self) -> Option<()> {
        let mut chunk = [0; 65536];
        let count = self.stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        self.received.extend_from_slice(&chunk[..count]);
        Some(())
    }
}
