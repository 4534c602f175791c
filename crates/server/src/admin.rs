//! The admin listener, which serves one client at a time from its own thread: `GET /metrics` for Prometheus,
//! `/metrics.json` with the same counters, `/health` for load balancers (until the server is told to stop), and
//! [operations](Figures::operate) on a proxy's cache.
//!
//! It answers requests for IP addresses and for host names that nobody can register, so that a web page cannot reach it
//! by DNS rebinding.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use serde_json::Value;
use sojourn_http::request::{Method, Parsed, Parser, Request};
use sojourn_http::{Status, head, limits::HEAD_BYTES_MAX};

use crate::clock::Clock;
use crate::metrics;
use crate::site::Site;
use crate::stop::Stop;

/// How long a client may take to send its request, and then to read the response: others wait meanwhile.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

/// The figures that the admin listener serves.
pub trait Figures: Sync {
    /// The counters in the Prometheus text format.
    fn page(&self) -> String;

    /// The counters as a JSON object.
    fn json(&self) -> String;

    /// The response to an operator's request; `None` if the path is unknown.
    fn operate(&self, _request: &Request<'_>) -> Option<(Status, Value)> {
        None
    }
}

impl Figures for Site {
    fn page(&self) -> String {
        metrics::page(&self.counters(), &self.scoreboard.workers())
    }

    fn json(&self) -> String {
        serde_json::to_string(&self.counters()).expect("numbers can be written")
    }

    fn operate(&self, request: &Request<'_>) -> Option<(Status, Value)> {
        self.content.operate(request)
    }
}

/// Answers on `listener` until `stop`.
pub fn serve(figures: &dyn Figures, listener: &TcpListener, stop: &Stop) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // Reserves a descriptor while no client is connected: when descriptors run out, people need the metrics to see why.
    let mut permit = reserve();
    while !stop.is_requested() {
        let stopped = stop.fd();
        let mut waits = [PollFd::new(listener, PollFlags::IN), PollFd::new(&stopped, PollFlags::IN)];
        match poll(&mut waits, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !waits[1].revents().is_empty() {
            break;
        }
        drop(permit.take());
        match listener.accept() {
            Ok((client, _)) => {
                // Errors of clients are not reported.
                let _ = answer(&client, figures);
                // A child forked meanwhile holds the socket too, so closing it here would not end the connection.
                let _ = client.shutdown(Shutdown::Both);
            }
            // No descriptors in spite of the reserve: retrying at once would fail again.
            Err(_) => std::thread::sleep(CLIENT_TIMEOUT),
        }
        permit = reserve();
    }
    Ok(())
}

fn reserve() -> Option<OwnedFd> {
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn answer(client: &TcpStream, figures: &dyn Figures) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let mut receiver = Timed::new(client);
    let mut bytes = Vec::new();
    let mut parser = Parser::default();
    while bytes.len() <= HEAD_BYTES_MAX {
        let mut chunk = [0; 1024];
        let count = receiver.read(&mut chunk)?;
        bytes.extend_from_slice(&chunk[..count]);
        let response = match parser.parse(&bytes) {
            Ok(Parsed::Partial) if count > 0 => continue,
            Ok(Parsed::Partial) => return Ok(()),
            Ok(Parsed::Complete(request)) => response(&request, figures),
            Err(error) => page(error.status(), "text/html", ""),
        };
        return Timed::new(client).write_all(&response);
    }
    Ok(())
}

/// A client, which has [`CLIENT_TIMEOUT`] for all that is read from it, or written to it, here.
struct Timed<'a> {
    client: &'a TcpStream,
    deadline: Instant,
}

impl Timed<'_> {
    fn new(client: &TcpStream) -> Timed<'_> {
        Timed { client, deadline: Instant::now() + CLIENT_TIMEOUT }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.client.set_read_timeout(self.left()?)?;
        self.client.read(into)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.client.set_write_timeout(self.left()?)?;
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Domains of local networks, which nobody can register for the public DNS (RFC 6761, RFC 6762, and ICANN's reservation
/// of `internal`).
const LOCAL_DOMAINS: [&str; 3] = ["localhost", "local", "internal"];

/// Returns true if `host` cannot be the name of a web page that resolves to this server (DNS rebinding).
fn is_local(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let domain = name.rsplit('.').next().unwrap_or(name);
    let is_of_network = !name.contains('.') || LOCAL_DOMAINS.iter().any(|it| domain.eq_ignore_ascii_case(it));
    is_of_network || name.parse::<IpAddr>().is_ok()
}

fn response(request: &Request<'_>, figures: &dyn Figures) -> Vec<u8> {
    if !request.host.is_none_or(is_local) {
        return page(Status::MisdirectedRequest, "text/html", &head::error_page(Status::MisdirectedRequest));
    }
    if let Some((status, value)) = figures.operate(request) {
        return page(status, "application/json", &format!("{value}\n"));
    }
    match (request.method, request.target) {
        (Method::Get, b"/metrics") => page(Status::Ok, "text/plain; version=0.0.4", &figures.page()),
        (Method::Get, b"/metrics.json") => page(Status::Ok, "application/json", &figures.json()),
        (Method::Get, b"/health") => page(Status::Ok, "text/plain", "ok\n"),
        (Method::Get, _) => page(Status::NotFound, "text/html", &head::error_page(Status::NotFound)),
        _ => page(Status::MethodNotAllowed, "text/html", ""),
    }
}

fn page(status: Status, media_type: &str, body: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 256);
    head::start(&mut bytes, status, &Clock::new().date);
    head::connection(&mut bytes, head::Connection::Close);
    head::content_length(&mut bytes, body.len() as u64);
    head::field(&mut bytes, "Content-Type", media_type);
    head::end(&mut bytes);
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct NoFigures;

    impl Figures for NoFigures {
        fn page(&self) -> String {
            String::new()
        }

        fn json(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn a_slow_client_holds_nobody_up_for_long() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(Stop::new().unwrap());
        let their_stop = Arc::clone(&stop);
        let server = std::thread::spawn(move || serve(&NoFigures, &listener, &their_stop).unwrap());
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
        // It sends something all the time, but not the rest.
        std::thread::spawn(move || {
            for _ in 0..200 {
                std::thread::sleep(CLIENT_TIMEOUT / 10);
                if slow.write_all(b"x").is_err() {
                    return;
                }
            }
        });
        let mut other = TcpStream::connect(address).unwrap();
        other.set_read_timeout(Some(10 * CLIENT_TIMEOUT)).unwrap();
        other.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        other.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
        stop.request();
        server.join().unwrap();
    }

    #[test]
    fn only_names_of_the_network_are_answered() {
        for host in
            ["", "127.0.0.1:8081", "[::1]:9", "localhost:1", "proxy", "a.b.svc.cluster.local", "x.Internal"]
        {
            assert!(is_local(host.as_bytes()), "{host}");
        }
        for host in
            ["rebind.example:8081", "127.0.0.1.example", "local.example.", "a.localx", "\u{fc}.example"]
        {
            assert!(!is_local(host.as_bytes()), "{host}");
        }
    }
}
