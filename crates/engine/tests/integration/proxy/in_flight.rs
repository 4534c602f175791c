//! Tests of bodies in flight to clients that do not read: they share the cache's memory budget.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sojourn_testing::client::with_deadline;
use sojourn_testing::upstream::Upstream;

use super::proxy;
use crate::engine::{DEADLINE, Server};

const BODY_BYTES: usize = 4_000_000;
const CLIENTS: usize = 50;
/// The allowed memory besides the cache's 16 MiB: code, and a little per client.
const RESIDENT_MIB_MAX: u64 = 16 + 50;

fn body(number: usize) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| (0..BODY_BYTES + CLIENTS).map(|at| (at * at / 7) as u8).collect());
    &bytes[number..][..BODY_BYTES]
}

fn upstream(fields: &'static str) -> Upstream {
    Upstream::start(move |peer| {
        while let Some(head) = peer.head() {
            let number = head[5..].split(' ').next().unwrap().parse().unwrap();
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n{fields}\r\n").as_bytes());
            peer.send(body(number));
        }
    })
}

fn resident_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// A client that has requested the body at `number` and does not read; its receive buffer is small.
fn silent(server: &Server, number: usize) -> TcpStream {
    let mut client = with_deadline(TcpStream::connect(server.address).unwrap());
    write!(client, "GET /{number} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    client
}

/// The rest of a client's response.
fn rest(client: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    bytes
}

fn check(architecture: &str, fields: &'static str, flags: &[&str]) {
    let upstream = upstream(fields);
    let server = proxy(architecture, &[upstream.address], &[&["--cache-memory", "16MiB"], flags].concat());
    let mut clients: Vec<_> = (0..CLIENTS).map(|number| silent(&server, number)).collect();
    let begun = Instant::now();
    while upstream.heads().len() < CLIENTS {
        assert!(begun.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(10));
    }
    // By then everything that can be received has been.
    std::thread::sleep(Duration::from_millis(500));
    let resident = resident_mib(&server);
    assert!(resident < RESIDENT_MIB_MAX, "{architecture} {flags:?}: {resident} MiB are resident");
    // A client that finally reads gets every byte.
    for (number, client) in clients.iter_mut().enumerate().step_by(7) {
        assert!(rest(client).ends_with(body(number)), "{architecture} {flags:?}: {number}");
    }
    drop(clients);
}

#[test]
fn silent_readers_share_one_budget() {
    check("amped", "Cache-Control: max-age=60\r\n", &[]);
    check("uring", "Cache-Control: max-age=60\r\n", &[]);
    check("amped", "Cache-Control: no-store\r\n", &[]);
}

#[test]
fn silent_readers_share_one_budget_before_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    check("amped", "Cache-Control: max-age=60\r\n", &["--cache-dir", path]);
}

#[test]
fn evicted_bodies_count_while_they_are_read() {
    let upstream = upstream("Cache-Control: max-age=60\r\n");
    let server = proxy("amped", &[upstream.address], &["--cache-memory", "16MiB"]);
    let mut pinned = Vec::new();
    for number in 0..CLIENTS {
        let mut reader = silent(&server, number);
        assert!(rest(&mut reader).len() > BODY_BYTES);
        // The body is stored now if there is room, and this client holds it.
        pinned.push(silent(&server, number));
    }
    let resident = resident_mib(&server);
    assert!(resident < RESIDENT_MIB_MAX, "{resident} MiB are resident");
    assert!(rest(&mut pinned[0]).ends_with(body(0)));
}
