//! What clients, files and limits do to a server, over every architecture.

mod support;

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sojourn_content::Directory;
use sojourn_server::{ALL, Architecture, Counter, Served, Site};
use support::fixture::{LARGE_BYTES, large, write};
use support::{Client, Server, fixture};

const KEPT: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n";

/// Runs `test` over every architecture, each on a site of its own.
fn over_all(adjust: fn(&mut Site), test: fn(Server, &Path)) {
    for architecture in ALL {
        let root = fixture::site();
        let mut site = Site::new(Arc::new(Directory::new(root.path(), false).unwrap()));
        site.limits.drain = Duration::from_secs(5);
        adjust(&mut site);
        eprintln!("over {}", architecture.name());
        test(Server::with(*architecture, site), root.path());
    }
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The answer to a kept GET of `hello.txt`, its body checked.
fn hello(client: &mut Client) {
    client.send(KEPT);
    let mut received = client.take(100);
    while !received.ends_with(b"hello") {
        received.extend(client.take(1));
    }
    assert!(received.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

fn value(served: &Served, counter: Counter) -> u64 {
    served.value(counter)
}

#[test]
fn files_that_change_are_seen_to_change() {
    let adjust = |site: &mut Site| site.budgets.recheck_after = Duration::ZERO;
    over_all(adjust, |server, root| {
        assert_eq!(body(&server.get("/hello.txt")), "hello");
        write(root, "next", b"replaced");
        fs::rename(root.join("next"), root.join("hello.txt")).unwrap();
        assert_eq!(body(&server.get("/hello.txt")), "replaced");
        write(root, "hello.txt", b"cut");
        assert_eq!(body(&server.get("/hello.txt")), "cut");
        fs::remove_file(root.join("hello.txt")).unwrap();
        assert!(server.get("/hello.txt").starts_with("HTTP/1.1 404 "));
        fs::create_dir(root.join("hello.txt")).unwrap();
        assert!(server.get("/hello.txt").contains("\r\nLocation: /hello.txt/\r\n"));
        fs::remove_dir(root.join("hello.txt")).unwrap();
        write(root, "hello.txt", b"back");
        assert_eq!(body(&server.get("/hello.txt")), "back");
    });
}

#[test]
fn what_is_trusted_is_trusted_for_a_bounded_time() {
    let adjust = |site: &mut Site| site.budgets.recheck_after = Duration::from_millis(500);
    over_all(adjust, |server, root| {
        assert_eq!(body(&server.get("/hello.txt")), "hello");
        write(root, "hello.txt", b"new");
        let changed = Instant::now();
        while body(&server.get("/hello.txt")) != "new" {
            assert!(changed.elapsed() < Duration::from_secs(5), "the old version is still served");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn without_caches_everything_is_still_served() {
    let adjust = |site: &mut Site| {
        site.budgets.path_bytes = 0;
        site.budgets.head_bytes = 0;
        site.budgets.body_bytes = 0;
    };
    over_all(adjust, |server, _| {
        let mut client = server.connect();
        (0..3).for_each(|_| hello(&mut client));
        assert_eq!(body(&server.get("/medium.bin")).len(), 20_000);
        assert!(body(&server.get("/hello.txt")) == "hello");
        let served = server.stop();
        assert_eq!(value(&served, Counter::PathCacheHits), 0);
    });
}

#[test]
fn a_file_truncated_while_it_is_sent_ends_the_connection_short() {
    over_all(
        |_| {},
        |server, root| {
            // More than the socket buffers of both sides can hold.
            let size = 64 << 20;
            let file =
                OpenOptions::new().write(true).create(true).truncate(true).open(root.join("huge")).unwrap();
            file.set_len(size).unwrap();
            let mut client = server.connect();
            client.send(b"GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
            client.take(1000);
            file.set_len(1 << 20).unwrap();
            let received = client.rest().len() as u64;
            assert!(received < size, "{received} bytes came of a file that has 1 MiB");
            hello(&mut server.connect());
        },
    );
}

#[test]
fn a_file_that_grows_while_it_is_sent_keeps_its_announced_length() {
    over_all(
        |_| {},
        |server, root| {
            let mut client = server.connect();
            client.send(b"GET /large.bin HTTP/1.0\r\n\r\n");
            let mut received = client.take(1000);
            let content = [large(), vec![b'x'; 1000]].concat();
            fs::write(root.join("other"), content).unwrap();
            fs::rename(root.join("other"), root.join("large.bin")).unwrap();
            received.extend(client.rest());
            let start = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            assert_eq!(received.len() - start, LARGE_BYTES);
            assert!(received[start..] == large());
        },
    );
}

#[test]
fn clients_that_leave_are_forgotten() {
    over_all(
        |_| {},
        |server, _| {
            for _ in 0..50 {
                let mut client = server.connect();
                client.send(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
                client.take(10);
                let mut partial = server.connect();
                partial.send(b"GET /la");
            }
            hello(&mut server.connect());
            let patience = Instant::now();
            while server.site.counters().value(Counter::ConnectionsOpen) > 0 {
                assert!(patience.elapsed() < support::PATIENCE, "connections remain");
                std::thread::sleep(Duration::from_millis(10));
            }
        },
    );
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answer() {
    over_all(
        |_| {},
        |server, _| {
            let mut client = server.connect();
            client.send(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
            client.end();
            assert!(client.rest().len() > LARGE_BYTES);
        },
    );
}

#[test]
fn a_slow_reader_gets_everything() {
    over_all(
        |_| {},
        |server, _| {
            let mut client = server.connect();
            client.send(b"GET /large.bin HTTP/1.0\r\n\r\n");
            let mut received = Vec::new();
            for _ in 0..20 {
                received.extend(client.take(50_000));
                std::thread::sleep(Duration::from_millis(5));
            }
            received.extend(client.rest());
            assert!(received.ends_with(&large()));
        },
    );
}

#[test]
fn patience_ends() {
    let adjust = |site: &mut Site| {
        let limits = &mut site.limits;
        for limit in [&mut limits.idle, &mut limits.head, &mut limits.send, &mut limits.end] {
            *limit = Duration::from_millis(500);
        }
    };
    over_all(adjust, |server, root| {
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).open(root.join("huge")).unwrap();
        file.set_len(64 << 20).unwrap();
        let mut idle = server.connect();
        let mut used = server.connect();
        hello(&mut used);
        let mut slow = server.connect();
        slow.send(b"GET / HTTP/1.1\r\nHo");
        let mut deaf = server.connect();
        deaf.send(b"GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(idle.rest(), b"");
        assert_eq!(used.rest(), b"");
        assert!(slow.rest().starts_with(b"HTTP/1.1 408 Request Timeout\r\n"));
        let patience = Instant::now();
        while server.site.counters().value(Counter::ConnectionsOpen) > 0 {
            assert!(patience.elapsed() < support::PATIENCE, "connections remain");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(deaf.rest().len() < 64 << 20);
        assert_eq!(value(&server.stop(), Counter::Timeouts), 4);
    });
}

#[test]
fn patience_begins_with_the_connection() {
    over_all(
        |site| site.limits.idle = Duration::from_millis(500),
        |server, _| {
            // Nobody is there, so nothing wakes the server.
            std::thread::sleep(Duration::from_millis(1200));
            hello(&mut server.connect());
            assert_eq!(value(&server.stop(), Counter::Timeouts), 0);
        },
    );
}

#[test]
fn a_trickling_head_does_not_buy_time() {
    let adjust = |site: &mut Site| site.limits.head = Duration::from_millis(500);
    over_all(adjust, |server, _| {
        let mut client = server.connect();
        client.stream.set_nonblocking(true).unwrap();
        let begun = Instant::now();
        client.send(b"GET / HTTP/1.1\r\n");
        while server.site.counters().value(Counter::Timeouts) == 0 {
            client.send(b"X: y\r\n");
            assert!(begun.elapsed() < Duration::from_secs(8), "it still waits for the head");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn too_many_connections_are_told_so() {
    over_all(
        |site| site.limits.connections_max = 2,
        |server, _| {
            let mut kept = [server.connect(), server.connect()];
            kept.iter_mut().for_each(hello);
            let mut surplus = server.connect();
            assert!(surplus.rest().starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"));
            kept.iter_mut().for_each(hello);
            drop(kept);
            let patience = Instant::now();
            while server.site.counters().value(Counter::ConnectionsOpen) > 0 {
                assert!(patience.elapsed() < support::PATIENCE, "connections remain");
            }
            hello(&mut server.connect());
            assert_eq!(value(&server.stop(), Counter::ConnectionsShed), 1);
        },
    );
}

#[test]
fn many_pipelined_requests() {
    over_all(
        |_| {},
        |server, _| {
            let mut client = server.connect();
            let mut reader = client.reader();
            let count = 20_000;
            let writer = std::thread::spawn(move || {
                for _ in 0..count / 100 {
                    client.send(&KEPT.repeat(100));
                }
                client.end();
            });
            let received = reader.rest();
            writer.join().unwrap();
            assert_eq!(received.windows(9).filter(|window| *window == b"\r\n\r\nhello").count(), count);
        },
    );
}

#[test]
fn stopping_finishes_what_was_begun() {
    over_all(
        |_| {},
        |server, _| {
            let mut idle = server.connect();
            hello(&mut idle);
            let mut busy = server.connect();
            busy.send(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
            let mut received = busy.take(1000);
            server.request_stop();
            assert_eq!(idle.rest(), b"");
            received.extend(busy.rest());
            assert!(received.ends_with(&large()));
            let address = server.address;
            let served = server.wait();
            assert_eq!(value(&served, Counter::Requests), 2);
            assert_eq!(value(&served, Counter::ConnectionsOpen), 0);
            assert!(std::net::TcpStream::connect(address).is_err());
        },
    );
}

#[test]
fn a_client_that_never_reads_does_not_hold_up_a_stop() {
    let adjust = |site: &mut Site| site.limits.drain = Duration::from_secs(1);
    over_all(adjust, |server, root| {
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).open(root.join("huge")).unwrap();
        file.set_len(64 << 20).unwrap();
        let mut deaf = server.connect();
        deaf.send(b"GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
        deaf.take(10);
        let begun = Instant::now();
        server.stop();
        assert!(begun.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn names_are_unique() {
    let names = |architecture: &&dyn Architecture| architecture.name();
    for name in ALL.iter().map(names) {
        assert_eq!(ALL.iter().map(names).filter(|other| *other == name).count(), 1);
        assert!(sojourn_server::architecture::by_name(name).is_some());
    }
}
