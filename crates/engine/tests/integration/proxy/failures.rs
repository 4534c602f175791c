//! Tests of a proxy with upstreams that fail, send wrong data, or take too long.

use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
use sojourn_server::Counter;

use super::OK;
use super::{over_all, proxy};
use sojourn_testing::client::{exchange, get, status};
use sojourn_testing::upstream::{self, Upstream};

#[test]
fn what_is_no_answer_is_a_502() {
    let bad: &[&[u8]] = &[
        b"<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    ];
    for answer in bad.iter().map(|answer| answer.to_vec()) {
        over_all(
            &[],
            || Upstream::answering(answer.clone()),
            |server, _| {
                let got = get(server, "/");
                assert_eq!(status(&got), "502", "{got}");
                assert!(!got.contains("hello"));
            },
        );
    }
}

#[test]
fn an_endless_head_is_cut_off() {
    let endless = |peer: &mut upstream::Peer| {
        peer.head();
        peer.send(b"HTTP/1.1 200 OK\r\n");
        // Ends when the proxy closes the connection.
        while std::io::Write::write_all(&mut peer.stream, b"X: yyyyyyyyyyyyyyyyyyyyyyyy\r\n").is_ok() {}
    };
    over_all(&[], || Upstream::start(endless), |server, _| assert_eq!(status(&get(server, "/")), "502"));
}

#[test]
fn a_body_that_breaks_off_is_seen_to() {
    let serve = |peer: &mut upstream::Peer| {
        let head = peer.head().unwrap();
        let framing = if head.starts_with("GET /chunked") {
            "Transfer-Encoding: chunked\r\n\r\n5\r\n"
        } else {
            "Content-Length: 50\r\n\r\n"
        };
        peer.send(format!("HTTP/1.1 200 OK\r\n{framing}hello").as_bytes());
        std::thread::sleep(Duration::from_millis(50));
        if head.contains("reset") {
            peer.reset();
        }
    };
    over_all(
        &[],
        || Upstream::start(serve),
        |server, _| {
            for target in ["/length", "/length-reset", "/chunked", "/chunked-reset"] {
                let answer = get(server, target);
                assert_eq!(status(&answer), "200");
                assert!(answer.contains("hello") && !answer.ends_with("0\r\n\r\n"), "{target}: {answer}");
            }
            server.wait_until(Counter::UpstreamFailures, 4);
        },
    );
}

#[test]
fn upstream_timeouts_end_requests() {
    let serve = |peer: &mut upstream::Peer| {
        if peer.head().unwrap().starts_with("GET /body") {
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
        }
        assert!(peer.is_closed());
    };
    let flags = ["--upstream-head-timeout", "200ms", "--upstream-body-timeout", "200ms"];
    over_all(
        &flags,
        || Upstream::start(serve),
        |server, _| {
            assert_eq!(status(&get(server, "/head")), "504");
            assert!(get(server, "/body").ends_with("hello"));
            server.wait_until(Counter::LimitUpstreamHead, 1);
            server.wait_until(Counter::LimitUpstreamBody, 1);
        },
    );
}

#[test]
fn who_is_dead_is_left_out() {
    let upstream = Upstream::answering(OK);
    for architecture in ["amped", "uring"] {
        let server =
            proxy(architecture, &[Upstream::dead(), upstream.address], &["--upstream-failures-max", "2"]);
        for _ in 0..20 {
            assert!(get(&server, "/").ends_with("hello"));
        }
        server.wait_until(Counter::Requests, 20);
        let counters = server.counters();
        assert!(counters.value(Counter::UpstreamRetries) >= 1, "{counters:?}");
        let dead = proxy(architecture, &[Upstream::dead()], &[]);
        assert_eq!(status(&get(&dead, "/")), "502");
    }
}

#[test]
fn who_fails_health_checks_is_left_out() {
    let is_well = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&is_well);
    let sick = Upstream::start(move |peer| {
        while let Some(head) = peer.head() {
            let is_check = head.starts_with("GET /health?x HTTP/1.1\r\n");
            let status = if is_check && !theirs.load(Ordering::SeqCst) { "500 No" } else { "200 OK" };
            peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nsick").as_bytes());
        }
    });
    let well = Upstream::answering(OK);
    for architecture in ["ncopy", "uring"] {
        is_well.store(false, Ordering::SeqCst);
        let flags = ["--health-path", "/health?x", "--health-interval", "50ms", "--health-timeout", "10s"];
        let server = proxy(architecture, &[sick.address, well.address], &flags);
        server.wait_until(Counter::UpstreamsFailingChecks, 1);
        for _ in 0..6 {
            assert!(get(&server, "/").ends_with("hello"));
        }
        is_well.store(true, Ordering::SeqCst);
        server.wait_until(Counter::UpstreamsFailingChecks, 0);
        assert!((0..6).any(|_| get(&server, "/").ends_with("sick")));
        assert!(server.counters().value(Counter::HealthChecksFailed) >= 3);
        let said = format!("upstream {} fails its health checks", sick.address);
        assert!(server.said().contains(&said), "{:?}", server.said());
    }
}

#[test]
fn a_body_that_comes_while_its_upstream_is_connected_to_goes_once() {
    // One connection waits to be accepted and the backlog is full, so connecting takes until it is accepted.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    for architecture in ["amped", "uring"] {
        let server =
            proxy(architecture, &[address], &["--cache-memory", "0", "--upstream-connect-timeout", "15s"]);
        let first = std::net::TcpStream::connect(address).unwrap();
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 15\r\n\r\nhello");
        for part in [b"again", b"again"] {
            std::thread::sleep(Duration::from_millis(100));
            client.send(part);
        }
        drop((first, listener.accept().unwrap()));
        let mut peer = sojourn_testing::with_deadline(listener.accept().unwrap().0);
        let mut received = Vec::new();
        let mut chunk = [0; 4096];
        while !received.ends_with(b"\r\n\r\nhelloagainagain") {
            let count = std::io::Read::read(&mut peer, &mut chunk).unwrap();
            received.extend_from_slice(&chunk[..count]);
            assert!(count > 0, "{}", String::from_utf8_lossy(&received));
        }
        assert_eq!(received.windows(5).filter(|part| part == b"POST ").count(), 1);
        std::io::Write::write_all(&mut peer, OK).unwrap();
        assert!(client.rest().ends_with(b"hello"));
    }
}

#[test]
fn only_what_can_be_repeated_is() {
    // Each connection answers once, then closes at the next request.
    let serve = |peer: &mut upstream::Peer| {
        peer.head();
        peer.send(OK);
        peer.head();
    };
    over_all(
        &[],
        || Upstream::start(serve),
        |server, upstream| {
            // Another connection might be served by another loop with its own connections.
            let mut client = server.connect();
            for number in 1..=2 {
                client.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
                let mut answer = Vec::new();
                while !answer.ends_with(b"\r\n\r\nhello") {
                    answer.extend(client.take(1));
                }
                assert_eq!(upstream.connections(), number, "repeated on a new connection");
            }
            let post = "POST /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab";
            assert_eq!(status(&exchange(&mut client, post)), "502", "sent once, at most");
            assert_eq!(upstream.heads().iter().filter(|head| head.starts_with("POST")).count(), 1);
        },
    );
}

/// The server finds a request and the end of the idle connection that it gives it at once. Nothing of it was sent then.
#[test]
fn what_was_not_sent_moves_to_another_connection() {
    for architecture in ["amped", "uring"] {
        let (close, closing) = mpsc::channel::<()>();
        let (closed, has_closed) = mpsc::channel();
        let closing = Mutex::new(closing);
        let upstream = Upstream::start(move |peer| {
            while let Some(head) = peer.head() {
                peer.send(OK);
                if head.starts_with("GET") {
                    closing.lock().unwrap().recv().unwrap();
                    peer.stream.shutdown(Shutdown::Both).unwrap();
                    return closed.send(()).unwrap();
                }
            }
        });
        let server = proxy(architecture, &[upstream.address], &[]);
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        client.until(b"hello");
        kill_process(server.pid(), Signal::STOP).unwrap();
        waitpid(Some(server.pid()), WaitOptions::UNTRACED).unwrap();
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab");
        close.send(()).unwrap();
        has_closed.recv().unwrap();
        kill_process(server.pid(), Signal::CONT).unwrap();
        let answer = String::from_utf8(client.rest()).unwrap();
        assert_eq!(status(&answer), "200", "{architecture}: {answer}");
        assert_eq!(upstream.connections(), 2, "{architecture}");
    }
}

#[test]
fn what_nobody_asked_for_answers_nobody() {
    let surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    over_all(
        &[],
        || Upstream::answering(*surplus),
        |server, _| {
            for _ in 0..5 {
                assert!(get(server, "/").ends_with("hello"));
            }
        },
    );
}

#[test]
fn a_slow_client_holds_its_upstream_back() {
    const BODY_BYTES: usize = 64 * 1024 * 1024;
    let sent = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&sent);
    let serve = move |peer: &mut upstream::Peer| {
        peer.head();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n").as_bytes());
        let part = vec![b'x'; 64 * 1024];
        while std::io::Write::write_all(&mut peer.stream, &part).is_ok() {
            theirs.fetch_add(part.len(), Ordering::SeqCst);
        }
    };
    over_all(
        &[],
        move || Upstream::start(serve.clone()),
        |server, _| {
            sent.store(0, Ordering::SeqCst);
            let mut client = server.connect();
            client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            let mut before = usize::MAX;
            while before != sent.load(Ordering::SeqCst) {
                before = sent.load(Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(300));
            }
            // The rest is in the sockets' buffers.
            assert!(before < BODY_BYTES / 2, "{before} bytes were taken for a client that reads nothing");
            // When the client leaves, the exchange ends.
            drop(client);
            server.wait_until(Counter::UpstreamConnectionsOpen, 0);
        },
    );
}
