//! Clients of a server under test, and waiting for what it does at its own pace.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::script;

/// The deadline for everything in tests; reaching it means that something hangs.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Calls `look` until it returns a value.
///
/// # Panics
/// If there is none by the [`DEADLINE`].
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "not in {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A client that reads with a deadline.
pub struct Client<S = TcpStream> {
    pub stream: S,
    received: Vec<u8>,
}

/// Sets the deadline for reads.
pub fn with_deadline(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        Client::of(TcpStream::connect(address).unwrap())
    }

    pub fn of(stream: TcpStream) -> Client {
        Client::over(with_deadline(stream))
    }

    /// A second handle of the same connection, for a thread that only reads.
    pub fn reader(&self) -> Client {
        Client::over(self.stream.try_clone().unwrap())
    }

    /// Shuts down the sending side.
    pub fn end(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Client<S> {
        Client { stream, received: Vec::new() }
    }

    /// Sends; ignores errors if the server has already closed.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Everything until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.receive() {}
        std::mem::take(&mut self.received)
    }

    /// Consumes received bytes that match `pattern`.
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

    pub fn take(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.receive(), "the connection ended after {} of {count} bytes", self.received.len());
        }
        self.received.drain(..count).collect()
    }

    /// Reads everything up to and including `end`.
    pub fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.received.windows(end.len()).position(|part| part == end) {
                return self.received.drain(..at + end.len()).collect();
            }
            assert!(self.receive(), "the connection ended before {:?}", String::from_utf8_lossy(end));
        }
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
            Err(error) => panic!("nothing received in {DEADLINE:?}: {error}"),
        }
    }
}

/// A server under test, in the test's process or in one of its own.
pub trait Serving {
    fn address(&self) -> SocketAddr;
}

/// Sends `request`, which must end the connection, and returns everything received.
pub fn exchange(client: &mut Client, request: &str) -> String {
    client.send(request.as_bytes());
    String::from_utf8_lossy(&client.rest()).into_owned()
}

pub fn get(server: &impl Serving, target: &str) -> String {
    get_with(server, target, "")
}

/// A GET with additional field lines.
pub fn get_with(server: &impl Serving, target: &str, lines: &str) -> String {
    ask(server, "GET", target, lines)
}

/// A request without body on a connection of its own.
pub fn ask(server: &impl Serving, method: &str, target: &str, lines: &str) -> String {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n");
    exchange(&mut Client::to(server.address()), &request)
}

pub fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}
