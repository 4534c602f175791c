//! Tests of limits on clients over every architecture: connections by address, requests, and transfer rates.

use crate::engine;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Client, DEADLINE, Server, over_all};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Signal, kill_process};
use sojourn_server::Counter;
use sojourn_testing::fixture;

const KEPT: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n";
const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 ";

/// A connection from `source` with a small receive buffer.
pub fn connect_from(source: Ipv4Addr, server: SocketAddr) -> Client {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&socket, 64 << 10).unwrap();
    bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    connect(&socket, &server).unwrap();
    Client::of(TcpStream::from(socket))
}

fn answer(client: &mut Client) -> Vec<u8> {
    client.send(KEPT);
    let mut answer = client.take(100);
    while !answer.ends_with(b"hello") {
        answer.extend(client.take(1));
    }
    answer
}

#[test]
fn one_address_has_a_limited_number_of_connections() {
    let (here, elsewhere) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
    over_all(&["--connections-per-address", "2"], |server, _| {
        let mut kept = [connect_from(here, server.address), connect_from(here, server.address)];
        kept.iter_mut().for_each(|client| drop(answer(client)));
        assert!(connect_from(here, server.address).rest().starts_with(TURNED_AWAY));
        answer(&mut connect_from(elsewhere, server.address));
        kept.iter_mut().for_each(|client| drop(answer(client)));
        drop(kept);
        let (_, turned_away) = let_in(|| connect_from(here, server.address));
        let counted = server.stop();
        assert_eq!(counted.value(Counter::LimitConnectionsPerAddress), 1 + turned_away);
        assert_eq!(counted.value(Counter::ConnectionsShed), 1 + turned_away);
    });
}

/// Kills every child, and waits until no connection can be passed to one of them, because it would be lost.
fn kill_all(server: &Server) {
    let killed = server.children();
    killed.iter().for_each(|&child| kill_process(child, Signal::KILL).unwrap());
    let begun = Instant::now();
    while server.children().iter().any(|child| killed.contains(child)) {
        assert!(begun.elapsed() < DEADLINE, "killed children are still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Opens a connection that is served; also returns how many were refused before earlier ones were known to have ended.
/// A process per connection gives its place back only when it has ended, after closing the connection.
fn let_in(connect: impl Fn() -> Client) -> (Client, u64) {
    let begun = Instant::now();
    for turned_away in 0.. {
        let mut client = connect();
        client.send(KEPT);
        let start = client.take(TURNED_AWAY.len());
        if start != TURNED_AWAY {
            return (client, turned_away);
        }
        assert!(begun.elapsed() < DEADLINE, "the dead are still counted");
        std::thread::sleep(Duration::from_millis(20));
    }
    unreachable!("the deadline comes first")
}

#[test]
fn who_is_killed_gives_the_place_of_its_client_back() {
    for architecture in ["mp", "helper", "fork", "inetd"] {
        let root = fixture::site();
        let flags = ["--workers", "2", "--connections-per-address", "1"];
        let flags = if matches!(architecture, "fork" | "inetd") { &flags[2..] } else { &flags };
        let server = Server::start(architecture, root.path(), flags);
        for _ in 0..3 {
            let (mut client, _) = let_in(|| server.connect());
            assert!(server.connect().rest().starts_with(TURNED_AWAY), "{architecture}");
            kill_all(&server);
            client.rest();
        }
    }
}

#[test]
fn a_connection_carries_a_limited_number_of_requests() {
    over_all(&["--requests-per-connection-max", "3"], |server, _| {
        let mut client = server.connect();
        for _ in 0..2 {
            assert!(!answer(&mut client).windows(17).any(|text| text == b"Connection: close"));
        }
        client.send(KEPT);
        let last = String::from_utf8(client.rest()).unwrap();
        assert!(last.contains("\r\nConnection: close\r\n") && last.ends_with("hello"), "{last:?}");
        // A client that has already sent more must send its request again elsewhere.
        let mut hasty = server.connect();
        hasty.send(&KEPT.repeat(5));
        assert_eq!(hasty.rest().windows(9).filter(|text| *text == b"\r\n\r\nhello").count(), 3);
        let counted = server.stop();
        assert_eq!(counted.value(Counter::Requests), 6);
        assert_eq!(counted.value(Counter::LimitRequestsPerConnection), 2);
    });
}

#[test]
fn who_reads_too_slowly_is_left_and_who_is_only_slow_is_not() {
    let flags = ["--send-timeout", "1s", "--send-rate-min", "100KiB"];
    let here = Ipv4Addr::LOCALHOST;
    over_all(&flags, |server, root| {
        let huge = std::fs::File::create(root.join("huge")).unwrap();
        huge.set_len(256 << 20).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Several times the minimum rate, in small pieces.
            let steady = scope.spawn(|| {
                let mut client = connect_from(here, server.address);
                client.send(b"GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
                while !is_over.load(Ordering::Relaxed) {
                    client.take(40_000);
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            // Also if this thread panics.
            let over = engine::WhenDropped(&is_over);
            // Sends something every time, but too little.
            let mut client = connect_from(here, server.address);
            client.send(b"GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
            let begun = Instant::now();
            while server.counters().value(Counter::LimitSend) == 0 {
                client.take(500);
                std::thread::sleep(Duration::from_millis(20));
                assert!(begun.elapsed() < DEADLINE, "it is still served");
            }
            std::thread::sleep(Duration::from_millis(1500));
            drop(over);
            steady.join().unwrap();
        });
        assert_eq!(server.counters().value(Counter::LimitSend), 1);
    });
}
