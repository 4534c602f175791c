//! Tests of architectures whose workers serve one connection each: clients that keep them waiting give way to others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sojourn_server::Counter;
use sojourn_testing::fixture;
use sojourn_testing::upstream::Upstream;

use crate::engine::{Client, Server};
use crate::proxy::proxy;

const KEPT: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n";

/// Runs `test` on servers with two workers, with and without event loops of their own.
fn with_two_workers(flags: &[&str], test: impl Fn(&Server, &str) + Sync) {
    let root = fixture::site();
    let upstream = Upstream::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec());
    let flags = [flags, &["--workers", "2"]].concat();
    std::thread::scope(|scope| {
        for architecture in ["mt", "mp"] {
            let (test, flags, root, upstream) = (&test, &flags, root.path(), &upstream);
            scope.spawn(move || test(&Server::start(architecture, root, flags), architecture));
            scope.spawn(move || {
                test(&proxy(architecture, &[upstream.address], flags), &format!("{architecture}, a proxy"));
            });
        }
    });
}

fn hello(client: &mut Client) -> String {
    client.send(KEPT);
    String::from_utf8(client.until(b"\r\n\r\nhello")).unwrap()
}

#[test]
fn an_idle_connection_is_kept_until_somebody_needs_its_worker() {
    with_two_workers(&[], |server, name| {
        let mut idle = [server.connect(), server.connect()];
        idle.iter_mut().for_each(|client| drop(hello(client)));
        std::thread::sleep(Duration::from_millis(500));
        idle.iter_mut().for_each(|client| drop(hello(client)));
        assert_eq!(server.counters().value(Counter::LimitWorkers), 0, "{name}");
        let began = Instant::now();
        let mut next = [server.connect(), server.connect()];
        next.iter_mut().for_each(|client| drop(hello(client)));
        assert!(began.elapsed() < Duration::from_secs(5), "{name}: {:?}", began.elapsed());
        // The first of them may itself be the one that is idle, once it has been answered.
        let gave_way = server.counters().value(Counter::LimitWorkers);
        assert!((2..=4).contains(&gave_way), "{name}: {gave_way}");
    });
}

/// Clients that wait for their turn get it, although others never pause.
#[test]
fn a_busy_connection_ends_with_a_response_that_says_so() {
    with_two_workers(&[], |server, name| {
        let last_ones = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let mut client = server.connect();
                    for _ in 0..25 {
                        if hello(&mut client).contains("\r\nConnection: close\r\n") {
                            last_ones.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(client.rest(), b"", "{name}");
                            client = server.connect();
                        }
                        std::thread::sleep(Duration::from_millis(20));
                    }
                });
            }
        });
        assert!(last_ones.into_inner() >= 2, "{name}");
    });
}

#[test]
fn slow_heads_keep_nobody_out_for_long() {
    with_two_workers(&["--head-timeout", "60s"], |server, name| {
        let mut slow: Vec<Client> = (0..6).map(|_| server.connect()).collect();
        slow.iter_mut().for_each(|client| client.send(b"GET / HTTP/1.1\r\nHo"));
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        hello(&mut server.connect());
        assert!(began.elapsed() < Duration::from_secs(8), "{name}: {:?}", began.elapsed());
        assert!(slow.iter_mut().all(|client| client.rest().starts_with(b"HTTP/1.1 408 ")), "{name}");
    });
}
