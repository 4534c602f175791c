//! Tests of shared connections to upstreams: a client that holds many leaves some to others, and waiting requests are
//! served in turn.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use sojourn_server::Counter;
use sojourn_testing::client::status;
use sojourn_testing::upstream::Upstream;

use super::proxy;
use crate::engine::{Client, DEADLINE, Server};
use crate::limits::connect_from;

const CONNECTIONS_MAX: usize = 8;

/// An upstream that answers `/hold` at the end of the test, everything else soon.
fn upstream() -> Upstream {
    Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            if head.starts_with("GET /hold") {
                peer.is_closed();
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: no-store\r\n\r\nok");
        }
    })
}

fn ask(server: &Server, source: u8, path: &str) -> Client {
    let mut client = connect_from(Ipv4Addr::new(127, 0, 0, source), server.address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
    client
}

fn answer(client: &mut Client) -> String {
    String::from_utf8(client.rest()).unwrap()
}

/// Runs `test` on single-loop proxies with this many connections.
fn over_loops(connections_max: usize, test: impl Fn(&Server, &Upstream)) {
    for (architecture, workers) in [("amped", &[][..]), ("uring", &["--workers", "1"])] {
        let upstream = upstream();
        let most = connections_max.to_string();
        let flags = ["--upstream-connections-max", &most, "--upstream-queue-timeout", "700ms"];
        let server = proxy(architecture, &[upstream.address], &[&flags[..], workers].concat());
        test(&server, &upstream);
    }
}

#[test]
fn who_holds_many_leaves_some_to_others() {
    over_loops(CONNECTIONS_MAX, |server, upstream| {
        let begun = Instant::now();
        let mut holding: Vec<Client> =
            (0..3 * CONNECTIONS_MAX).map(|number| ask(server, 1, &format!("/hold/{number}"))).collect();
        while upstream.connections() < CONNECTIONS_MAX / 2 {
            assert!(begun.elapsed() < DEADLINE);
            std::thread::sleep(Duration::from_millis(10));
        }
        for source in [2, 3, 4] {
            let answer = answer(&mut ask(server, source, &format!("/{source}")));
            assert!(answer.ends_with("ok"), "{answer}");
        }
        // A request beyond the client's share is neither refused at once nor waits for ever.
        let last = holding.last_mut().unwrap();
        assert_eq!(status(&answer(last)), "503");
        assert!(begun.elapsed() >= Duration::from_millis(700));
        let refused = 3 * CONNECTIONS_MAX - CONNECTIONS_MAX / 2;
        server.wait_until(Counter::LimitUpstreamConnections, refused as u64);
    });
}

#[test]
fn who_waits_is_served_in_turn() {
    over_loops(2, |server, _| {
        let mut clients: Vec<Client> =
            (0..8).map(|number| ask(server, 1 + number % 2, &format!("/{number}"))).collect();
        for client in &mut clients {
            let answer = answer(client);
            assert!(answer.ends_with("ok"), "{answer}");
        }
    });
}
