//! Tests of misbehaving clients, changing files and low limits, over every architecture.

use std::fs::{self, OpenOptions};
use std::time::{Duration, Instant};

use crate::engine::{Client, Server, over_all, side_by_side};
use sojourn_server::{ALL, Architecture, Counter};
use sojourn_testing::fixture::{LARGE_BYTES, large, site, write};

const KEPT: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n";

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// Reads the response to a keep-alive GET of `hello.txt` and checks its body.
fn hello(client: &mut Client) {
    client.send(KEPT);
    let mut received = client.take(100);
    while !received.ends_with(b"hello") {
        received.extend(client.take(1));
    }
    assert!(received.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[test]
fn files_that_change_are_seen_to_change() {
    over_all(&["--recheck-after", "0s"], |server, root| {
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
    over_all(&["--recheck-after", "500ms"], |server, root| {
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
    let none = ["--path-cache", "0", "--head-cache", "0", "--body-cache", "0"];
    over_all(&none, |server, _| {
        let mut client = server.connect();
        (0..3).for_each(|_| hello(&mut client));
        assert_eq!(body(&server.get("/medium.bin")).len(), 20_000);
        assert!(body(&server.get("/hello.txt")) == "hello");
        let served = server.stop();
        assert_eq!(served.value(Counter::PathCacheHits), 0);
    });
}

#[test]
fn a_file_truncated_while_it_is_sent_ends_the_connection_short() {
    over_all(&[], |server, root| {
        // More than the socket buffers of both sides.
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
    });
}

#[test]
fn a_file_that_grows_while_it_is_sent_keeps_its_announced_length() {
    over_all(&[], |server, root| {
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
    });
}

#[test]
fn clients_that_leave_are_forgotten() {
    over_all(&[], |server, _| {
        for _ in 0..50 {
            let mut client = server.connect();
            client.send(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
            client.take(10);
            let mut partial = server.connect();
            partial.send(b"GET /la");
        }
        hello(&mut server.connect());
        server.wait_until(Counter::ConnectionsOpen, 0);
    });
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answer() {
    over_all(&[], |server, _| {
        let mut client = server.connect();
        client.send(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
        client.end();
        assert!(client.rest().len() > LARGE_BYTES);
    });
}

/// What is wrong is wrong, whether the rest comes or not.
#[test]
fn a_head_that_breaks_off_is_refused_and_not_passed_over_in_silence() {
    over_all(&[], |server, _| {
        for head in
            ["GET /hello.txt HTTP/1.0\r\nHost: a b\r\n", "GET /hello.txt HTTP/1.1\r\nHost: h\r\n", "GET /hel"]
        {
            let mut client = server.connect();
            client.send(head.as_bytes());
            client.end();
            let answer = String::from_utf8(client.rest()).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
        }
    });
}

#[test]
fn a_slow_reader_gets_everything() {
    over_all(&[], |server, _| {
        let mut client = server.connect();
        client.send(b"GET /large.bin HTTP/1.0\r\n\r\n");
        let mut received = Vec::new();
        for _ in 0..20 {
            received.extend(client.take(50_000));
            std::thread::sleep(Duration::from_millis(5));
        }
        received.extend(client.rest());
        assert!(received.ends_with(&large()));
    });
}

#[test]
fn timeouts_end_connections() {
    let flags =
        ["--idle-timeout", "--head-timeout", "--send-timeout", "--end-timeout"].map(|flag| [flag, "500ms"]);
    over_all(flags.as_flattened(), |server, root| {
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
        server.wait_until(Counter::ConnectionsOpen, 0);
        assert!(deaf.rest().len() < 64 << 20);
        assert_eq!(server.stop().value(Counter::Timeouts), 4);
    });
}

#[test]
fn the_idle_timeout_begins_with_the_connection() {
    over_all(&["--idle-timeout", "500ms"], |server, _| {
        // No client is connected, so nothing wakes the server.
        std::thread::sleep(Duration::from_millis(1200));
        hello(&mut server.connect());
        assert_eq!(server.stop().value(Counter::Timeouts), 0);
    });
}

/// Where a worker does nothing else meanwhile, requests have less time to arrive.
#[test]
fn workers_wait_five_seconds_for_a_request() {
    side_by_side(|architecture| {
        let name = architecture.name();
        let is_one_of_workers =
            matches!(name, "fork" | "inetd" | "helper" | "helper+fork" | "standard" | "mp" | "mt");
        let root = site();
        let server = Server::start(name, root.path(), &[]);
        let mut client = server.connect();
        let began = Instant::now();
        client.send(b"GET / HTTP/1.1\r\nHo");
        if is_one_of_workers {
            assert!(client.rest().starts_with(b"HTTP/1.1 408 "), "{name}");
            let took = began.elapsed();
            assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(12), "{name}: {took:?}");
        } else {
            client.stream.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
            let read = std::io::Read::read(&mut client.stream, &mut [0; 1]);
            assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{name}");
        }
    });
}

#[test]
fn a_trickling_head_does_not_buy_time() {
    over_all(&["--head-timeout", "500ms"], |server, _| {
        let mut client = server.connect();
        client.stream.set_nonblocking(true).unwrap();
        let begun = Instant::now();
        client.send(b"GET / HTTP/1.1\r\n");
        while server.counters().value(Counter::Timeouts) == 0 {
            client.send(b"X: y\r\n");
            assert!(begun.elapsed() < Duration::from_secs(8), "it still waits for the head");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn too_many_connections_are_told_so() {
    over_all(&["--connections-max", "2"], |server, _| {
        let mut kept = [server.connect(), server.connect()];
        kept.iter_mut().for_each(hello);
        let mut surplus = server.connect();
        assert!(surplus.rest().starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"));
        kept.iter_mut().for_each(hello);
        drop(kept);
        // A process that ended counts no more before its place is free again.
        let mut told = 1;
        loop {
            let answer = server.get("/hello.txt");
            if body(&answer) == "hello" {
                break;
            }
            assert!(answer.starts_with("HTTP/1.1 503 "));
            told += 1;
        }
        assert_eq!(server.stop().value(Counter::ConnectionsShed), told);
    });
}

#[test]
fn many_pipelined_requests() {
    over_all(&[], |server, _| {
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
    });
}

#[test]
fn stopping_finishes_what_was_begun() {
    over_all(&[], |server, _| {
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
        assert_eq!(served.value(Counter::Requests), 2);
        assert_eq!(served.value(Counter::ConnectionsOpen), 0);
        assert!(std::net::TcpStream::connect(address).is_err());
    });
}

#[test]
fn a_client_that_never_reads_does_not_hold_up_a_stop() {
    over_all(&["--drain-timeout", "1s"], |server, root| {
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
