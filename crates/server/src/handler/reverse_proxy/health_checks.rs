//! Health checks and repeated DNS lookups of upstreams, outside of the event loops.
//!
//! Each upstream has a thread, so no loop waits. The results are in the upstream's
//! [`UpstreamState`](super::UpstreamState), where every loop reads them.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustls::StreamOwned;
use sojourn_http::limits::HEAD_BYTES_MAX;
use sojourn_http::upstream::{Parser, RequestKind};

use super::upstream_client::FastCgi;
use super::{Protocol, Proxy, Upstream};
use crate::connection::Address;
use crate::stderr;

/// How often names are looked up again.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct HealthCheck {
    /// The path to request, with an optional query.
    pub path: String,
    pub interval: Duration,
    /// The timeout for connecting and receiving the response head, together.
    pub timeout: Duration,
    /// Successes in a row after which a failing upstream is healthy.
    pub rise: u32,
    /// Failures in a row after which it is failing.
    pub fall: u32,
}

/// Watches the upstreams of `proxy` until the process ends.
///
/// # Errors
/// If a thread cannot be started.
pub fn watch(proxy: &Arc<Proxy>, check: Option<&HealthCheck>) -> io::Result<()> {
    for index in 0..proxy.upstreams.len() {
        let (proxy, check) = (Arc::clone(proxy), check.cloned());
        let is_named = proxy.upstreams[index].is_named();
        // CGI scripts have no address.
        let check = check.filter(|_| !matches!(proxy.upstreams[index].protocol, Protocol::Cgi(_)));
        if is_named || check.is_some() {
            let thread = std::thread::Builder::new().name("upstream".to_owned());
            thread.spawn(move || watch_upstream(&proxy.upstreams[index], check.as_ref(), is_named))?;
        }
    }
    Ok(())
}

fn watch_upstream(upstream: &Upstream, check: Option<&HealthCheck>, is_named: bool) -> ! {
    let mut looked_up = Instant::now();
    let mut health = CheckHistory::default();
    loop {
        if is_named && looked_up.elapsed() >= LOOKUP_INTERVAL {
            looked_up = Instant::now();
            // If a lookup fails temporarily, the old addresses stay.
            let found = (&*upstream.host, upstream.port).to_socket_addrs();
            let found: Vec<_> = found.into_iter().flatten().map(Address::Internet).collect();
            if !found.is_empty() && found[..] != *upstream.presence.addresses() {
                upstream.presence.move_to(&found);
            }
        }
        if let Some(check) = check {
            let has_passed = passes(upstream, check);
            upstream.presence.count(has_passed);
            if let Some(is_failing) = health.after(has_passed, check) {
                upstream.presence.set_failing(is_failing);
                let verb =
                    if is_failing { "fails its health checks" } else { "passes its health checks again" };
                stderr::write(&format!("upstream {} {verb}\n", upstream.name));
            }
        }
        std::thread::sleep(check.map_or(LOOKUP_INTERVAL, |check| check.interval));
    }
}

/// The recent results of one upstream.
#[derive(Debug, Default)]
struct CheckHistory {
    is_failing: bool,
    /// Checks in a row that contradict the current verdict.
    against: u32,
}

impl CheckHistory {
    /// The new verdict after one more check, if it changes.
    fn after(&mut self, has_passed: bool, check: &HealthCheck) -> Option<bool> {
        if has_passed != self.is_failing {
            self.against = 0;
            return None;
        }
        self.against += 1;
        if self.against < if has_passed { check.rise } else { check.fall } {
            return None;
        }
        *self = CheckHistory { is_failing: !has_passed, against: 0 };
        Some(self.is_failing)
    }
}

/// Returns true if it responds at any of its addresses.
fn passes(upstream: &Upstream, check: &HealthCheck) -> bool {
    let deadline = Instant::now() + check.timeout;
    upstream
        .presence
        .addresses()
        .iter()
        .any(|address| check_address(upstream, address, &check.path, deadline).is_some())
}

/// Sends one check. The response must have status 2xx or 3xx; its body is not read.
fn check_address(upstream: &Upstream, address: &Address, path: &str, deadline: Instant) -> Option<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", upstream.authority);
    let status = match address {
        Address::Internet(address) => {
            let stream = TcpStream::connect_timeout(address, left(deadline)?).ok()?;
            stream.set_read_timeout(left(deadline)).ok()?;
            stream.set_write_timeout(left(deadline)).ok()?;
            match &upstream.tls {
                None => exchange(stream, &request, &upstream.protocol, deadline),
                Some(tls) => {
                    exchange(StreamOwned::new(tls.connect(), stream), &request, &upstream.protocol, deadline)
                }
            }
        }
        Address::Unix(path) => {
            let stream = connect_unix(path, left(deadline)?).ok()?;
            stream.set_read_timeout(left(deadline)).ok()?;
            stream.set_write_timeout(left(deadline)).ok()?;
            exchange(stream, &request, &upstream.protocol, deadline)
        }
    };
    status.filter(|status| (200..400).contains(status)).map(drop)
}

/// Connects to the Unix socket at `path`. If the application accepts nothing, and its queue is full, that takes no longer than
/// `timeout`.
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // It limits connecting, too.
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// The status of the response, without interim responses.
fn exchange(
    mut stream: impl Read + Write,
    request: &str,
    protocol: &Protocol,
    deadline: Instant,
) -> Option<u16> {
    let mut rewritten = Vec::new();
    let request = match protocol {
        Protocol::FastCgi(application) => {
            return FastCgi::new(Arc::clone(application))
                .exchange(stream, request, || left(deadline).is_some());
        }
        Protocol::Http => request.as_bytes(),
        Protocol::S3(bucket) => {
            bucket.append_request(request.as_bytes(), &mut rewritten).ok()?;
            &rewritten
        }
        Protocol::Cgi(_) => unreachable!("scripts have no address to be asked at"),
    };
    stream.write_all(request).ok()?;
    let (mut received, mut parser) = (Vec::new(), Parser::default());
    let mut chunk = [0; 4096];
    loop {
        while let Some(head) = parser.parse(&received, RequestKind::Other).ok()? {
            if head.status >= 200 {
                return Some(head.status);
            }
            let head_len = head.head_len;
            received.drain(..head_len);
        }
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        received.extend_from_slice(&chunk[..count]);
        // An upstream that trickles is not healthy either.
        if received.len() > HEAD_BYTES_MAX || left(deadline).is_none() {
            return None;
        }
    }
}

fn left(deadline: Instant) -> Option<Duration> {
    Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_queue_that_stays_full_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let connect = || connect_unix(&path, Duration::from_millis(20));
        let queued: Vec<_> = std::iter::from_fn(|| connect().ok()).collect();
        assert!(!queued.is_empty());
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(listener);
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn who_rises_and_who_falls() {
        let check = HealthCheck {
            path: "/".to_owned(),
            interval: Duration::ZERO,
            timeout: Duration::ZERO,
            rise: 2,
            fall: 3,
        };
        let mut health = CheckHistory::default();
        let said: Vec<_> = "++--+---+-++-+".chars().map(|sign| health.after(sign == '+', &check)).collect();
        let mut expected = vec![None; 14];
        (expected[7], expected[11]) = (Some(true), Some(false));
        assert_eq!(said, expected);
    }
}
