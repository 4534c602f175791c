//! The proxy between real sockets: what passes it, and what it does about upstreams that fail.

mod engine;
#[path = "proxy/exchange.rs"]
mod exchange;
#[path = "proxy/upstream.rs"]
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::Client;
use exchange::{exchange, get, status};
use sojourn_server::Counter;
use upstream::{Upstream, over_all, over_sharing, proxy};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello";

#[test]
fn one_request_each_way() {
    over_all(
        &[],
        || Upstream::answering(OK),
        |server, upstream| {
            let mut client = server.connect();
            client.send(b"GET http://h/a?b HTTP/1.1\r\nHost: x\r\nConnection: x-a\r\nX-A: 1\r\nX-B: 2\r\nUpgrade: h2c\r\n\r\n");
            let expected = b"HTTP/1.1 200 OK\r\nDate: x\r\nVia: 1.1 me\r\nContent-Length: 5\r\nCache-Status: me; fwd=uri-miss\r\n\r\nhello";
            assert_eq!(client.take(expected.len()), expected);
            // The same connections, on both sides.
            assert!(exchange(&mut client, "HEAD / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
            let heads = upstream.heads();
            assert!(heads[0].starts_with("GET /a?b HTTP/1.1\r\n"), "{}", heads[0]);
            for line in ["Host: h", "X-B: 2", "Via: 1.1 me", "X-Forwarded-For: 127.0.0.1"] {
                assert!(heads[0].contains(&format!("\r\n{line}\r\n")), "{line}: {}", heads[0]);
            }
            assert!(!heads[0].contains("X-A") && !heads[0].contains("Upgrade"), "{}", heads[0]);
            let host = format!("\r\nHost: {}\r\n", upstream.address);
            assert!(heads[1].starts_with("HEAD / HTTP/1.1\r\n") && heads[1].contains(&host), "{heads:?}");
            assert_eq!(server.counters().value(Counter::UpstreamRequests), 2);
        },
    );
}

#[test]
fn bodies_of_every_framing_reach_every_client() {
    let framed: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5;x=y\r\nworld\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nhello world",
    ];
    let serve = move |peer: &mut upstream::Peer| {
        while let Some(head) = peer.head() {
            let which: usize = head[5..6].parse().unwrap();
            peer.send(framed[which]);
            if which == 2 {
                return;
            }
        }
    };
    over_all(
        &[],
        move || Upstream::start(serve),
        |server, _| {
            for (target, chunked) in [("/0", false), ("/1", true), ("/2", true)] {
                let answer = get(server, target);
                let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                assert_eq!(head.contains("Transfer-Encoding: chunked"), chunked, "{target}: {head}");
                let body = if chunked { unchunked(body) } else { body.to_owned() };
                assert_eq!(body, "hello world", "{target}");
                let answer = server.get(target);
                assert!(answer.ends_with("\r\n\r\nhello world"), "{target} for HTTP/1.0: {answer}");
            }
        },
    );
}

/// What is in chunks; it must end with the last.
fn unchunked(mut coded: &str) -> String {
    let mut body = String::new();
    loop {
        let (size, rest) = coded.split_once("\r\n").unwrap_or_else(|| panic!("not whole: {coded:?}"));
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&rest[..size]);
        coded = rest[size..].strip_prefix("\r\n").unwrap();
        if size == 0 {
            assert_eq!(coded, "");
            return body;
        }
    }
}

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
        // It ends when the proxy closes.
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
fn patience_with_upstreams_ends() {
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
            let counters = server.counters();
            assert_eq!(counters.value(Counter::LimitUpstreamHead), 1);
            assert_eq!(counters.value(Counter::LimitUpstreamBody), 1);
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
        let counters = server.counters();
        assert!(counters.value(Counter::UpstreamRetries) >= 1, "{counters:?}");
        let dead = proxy(architecture, &[Upstream::dead()], &[]);
        assert_eq!(status(&get(&dead, "/")), "502");
    }
}

#[test]
fn who_fails_health_checks_is_left_out() {
    let is_well = Arc::new(std::sync::atomic::AtomicBool::new(false));
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
    // One connection waits to be accepted, and there is room for no other: connecting takes until it is accepted.
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
        let mut peer = engine::client::patient(listener.accept().unwrap().0);
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
    // Each connection answers once and then dies as the next request comes.
    let serve = |peer: &mut upstream::Peer| {
        peer.head();
        peer.send(OK);
        peer.head();
    };
    over_all(
        &[],
        || Upstream::start(serve),
        |server, upstream| {
            // Another connection could be another loop's, with connections of its own.
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
fn request_bodies_are_passed_on() {
    let serve = |peer: &mut upstream::Peer| {
        while let Some(head) = peer.head() {
            if head.contains("Expect: 100-continue") {
                peer.send(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            let body = match head.contains("Transfer-Encoding: chunked") {
                true => peer.until(b"0\r\n\r\n"),
                false => peer.until(b"END"),
            };
            let body = String::from_utf8(body).unwrap();
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        }
    };
    over_all(
        &[],
        || Upstream::start(serve),
        |server, _| {
            let mut client = server.connect();
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nhello");
            std::thread::sleep(Duration::from_millis(50));
            // The rest, and another request right behind it, coded in its own way.
            client.send(
                b"ENDPUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n",
            );
            client.send(b"0\r\nX-T: z\r\n\r\n");
            let first = client.take(b"HTTP/1.1 200 OK\r\nVia: 1.1 me\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 8\r\nCache-Status: me; fwd=method\r\n\r\nhelloEND".len());
            assert!(first.ends_with(b"helloEND"));
            let rest = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
            client.send(rest.as_bytes());
            let second = client.take(b"HTTP/1.1 200 OK\r\nVia: 1.1 me\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 13\r\nCache-Status: me; fwd=method\r\n\r\n3\r\nabc\r\n0\r\n\r\n".len());
            assert!(
                second.ends_with(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
                "{}",
                String::from_utf8_lossy(&second)
            );
            assert_eq!(client.take(25), b"HTTP/1.1 100 Continue\r\n\r\n");
            client.send(b"END");
            assert!(client.rest().ends_with(b"END"));
        },
    );
}

#[test]
fn an_early_answer_ends_an_upload() {
    let serve = |peer: &mut upstream::Peer| {
        peer.head();
        peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!");
        std::thread::sleep(Duration::from_millis(100));
    };
    over_all(
        &[],
        || Upstream::start(serve),
        |server, _| {
            let mut client = server.connect();
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
            let answer = String::from_utf8(client.rest()).unwrap();
            assert!(status(&answer) == "413" && answer.ends_with("no!"), "{answer}");
            assert!(answer.contains("Connection: close\r\n"));
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
            // When the client goes, so does the exchange.
            drop(client);
            server.wait_until(Counter::UpstreamConnectionsOpen, 0);
        },
    );
}

#[test]
fn loops_and_other_requests_that_go_no_further() {
    over_all(
        &[],
        || Upstream::answering(OK),
        |server, upstream| {
            for (request, expected) in [
                ("GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 a, 1.1 me\r\n", "508"),
                ("TRACE / HTTP/1.1\r\nHost: h\r\n", "501"),
                ("CONNECT h:443 HTTP/1.1\r\nHost: h\r\n", "501"),
                ("OPTIONS * HTTP/1.1\r\nHost: h\r\n", "204"),
                ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", "400"),
            ] {
                let answer = exchange(&mut server.connect(), &format!("{request}Connection: close\r\n\r\n"));
                assert_eq!(status(&answer), expected, "{request}");
            }
            assert_eq!(upstream.heads(), Vec::<String>::new());
        },
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let serve = |peer: &mut upstream::Peer| {
        while let Some(head) = peer.head() {
            let target = head.split(' ').nth(1).unwrap();
            if target == "/1" {
                std::thread::sleep(Duration::from_millis(100));
            }
            peer.send(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len()).as_bytes(),
            );
        }
    };
    over_all(
        &[],
        || Upstream::start(serve),
        |server, _| {
            let requests: String =
                (1..=9).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
            let last = "GET /10 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            let answers = exchange(&mut server.connect(), &(requests + last));
            let bodies: Vec<_> = answers
                .split("HTTP/1.1 200 OK")
                .filter_map(|answer| answer.split("\r\n\r\n").nth(1))
                .collect();
            assert_eq!(bodies, ["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9", "/10"]);
        },
    );
}

const FRESH: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\nETag: \"x\"\r\n\r\nhello";

fn with(fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{fields}\r\n\r\nhello").into_bytes()
}

#[test]
fn what_is_fresh_is_answered_from_memory() {
    over_sharing(
        &[],
        || Upstream::answering(FRESH),
        |server, upstream| {
            let first = get(server, "/a");
            assert!(first.ends_with("hello") && !first.contains("Age: "), "{first}");
            let second = get(server, "/a");
            assert!(second.ends_with("hello") && second.contains("Cache-Status: me; hit; ttl="), "{second}");
            assert!(second.contains("\r\nAge: ") && second.contains("\r\nETag: \"x\"\r\n"), "{second}");
            let request =
                |fields: &str| format!("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
            let current = exchange(&mut server.connect(), &request("If-None-Match: \"x\"\r\n"));
            assert!(status(&current) == "304" && current.ends_with("\r\n\r\n"), "{current}");
            let head =
                exchange(&mut server.connect(), "HEAD /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            assert!(head.contains("Content-Length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
            assert_eq!(upstream.heads().len(), 1);
            // Other hosts, other answers; what the client does not want is not used; what may have changed is gone.
            exchange(&mut server.connect(), "GET /a HTTP/1.1\r\nHost: i\r\nConnection: close\r\n\r\n");
            assert_eq!(upstream.heads().len(), 2);
            exchange(&mut server.connect(), &request("Cache-Control: no-cache\r\n"));
            assert_eq!(upstream.heads().len(), 3);
            let delete = "DELETE /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            assert_eq!(status(&exchange(&mut server.connect(), delete)), "200");
            assert!(!get(server, "/a").contains("Cache-Status: me; hit"));
            assert_eq!(upstream.heads().len(), 5);
            let only = exchange(
                &mut server.connect(),
                "GET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\nCache-Control: only-if-cached\r\n\r\n",
            );
            assert_eq!(status(&only), "504");
            server.wait_until(Counter::CacheHits, 3);
        },
    );
}

#[test]
fn what_is_not_for_all_is_kept_for_nobody() {
    for fields in [
        "Cache-Control: private, max-age=60",
        "Cache-Control: no-store",
        "Cache-Control: max-age=60\r\nSet-Cookie: a=b",
        "Cache-Control: max-age=60\r\nVary: *",
        "X: y",
    ] {
        let upstream = Upstream::answering(with(fields));
        let server = proxy("amped", &[upstream.address], &[]);
        for _ in 0..3 {
            assert!(get(&server, "/").ends_with("hello"));
        }
        assert_eq!(upstream.heads().len(), 3, "{fields}");
    }
}

#[test]
fn variants_are_told_apart() {
    let upstream = Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let body = if head.contains("Accept-Language: de") { "guten" } else { "hello" };
            let fields = "Content-Length: 5\r\nCache-Control: max-age=60\r\nVary: Accept-Language";
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}").as_bytes());
        }
    });
    let server = proxy("amped", &[upstream.address], &[]);
    let in_language = |language: &str| {
        let request =
            format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept-Language: {language}\r\n\r\n");
        exchange(&mut server.connect(), &request)
    };
    for _ in 0..2 {
        assert!(in_language("de").ends_with("guten"));
        assert!(in_language("en").ends_with("hello"));
    }
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn a_truncated_answer_is_not_kept() {
    let upstream = Upstream::start(|peer| {
        peer.head();
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\nCache-Control: max-age=60\r\n\r\nhello");
    });
    let server = proxy("amped", &[upstream.address], &[]);
    for _ in 0..2 {
        assert!(get(&server, "/").ends_with("hello"));
    }
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn many_clients_of_one_cold_object_ask_once() {
    const CLIENTS: usize = 1000;
    let body: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
    let theirs = body.clone();
    let upstream = Upstream::start(move |peer| {
        while peer.head().is_some() {
            std::thread::sleep(Duration::from_millis(500));
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=60\r\n\r\n",
                theirs.len()
            );
            peer.send(head.as_bytes());
            peer.send(&theirs);
        }
    });
    for (asked, architecture) in [(1, "amped"), (2, "uring")] {
        let server = proxy(
            architecture,
            &[upstream.address],
            if architecture == "uring" { &["--workers", "1"] } else { &[] },
        );
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(b"GET /cold HTTP/1.0\r\nHost: h\r\n\r\n");
        }
        // One goes away before it has anything, and nobody minds.
        clients.remove(0);
        for client in &mut clients {
            assert!(client.rest().ends_with(&body));
        }
        assert_eq!(upstream.heads().len(), asked);
        let again = exchange(&mut server.connect(), "GET /cold HTTP/1.0\r\nHost: h\r\n\r\n");
        assert!(again.contains("Cache-Status: me; hit"), "{}", &again[..200]);
        assert_eq!(upstream.heads().len(), asked);
    }
}

/// Answers in a fraction of a second with `fields`, and a body that comes in pieces.
fn slow_origin(fields: &'static str) -> (Upstream, Vec<u8>) {
    let body: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
    let theirs = body.clone();
    let upstream = Upstream::start(move |peer| {
        while peer.head().is_some() {
            std::thread::sleep(Duration::from_millis(300));
            peer.send(
                format!("HTTP/1.1 200 OK\r\n{fields}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(),
            );
            for piece in theirs.chunks(50_000) {
                peer.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
                std::thread::sleep(Duration::from_millis(30));
            }
            peer.send(b"0\r\n\r\n");
        }
    });
    (upstream, body)
}

#[test]
fn loops_follow_each_other() {
    const CLIENTS: usize = 40;
    for architecture in ["ncopy", "uring"] {
        for (fields, asked) in [("Cache-Control: max-age=60", 1), ("Cache-Control: private", CLIENTS)] {
            let (upstream, body) = slow_origin(fields);
            let server = proxy(architecture, &[upstream.address], &["--workers", "3"]);
            let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
            for client in &mut clients {
                client.send(b"GET /cold HTTP/1.0\r\nHost: h\r\n\r\n");
            }
            for client in &mut clients {
                assert!(client.rest().ends_with(&body), "{architecture}: {fields}");
            }
            assert_eq!(upstream.heads().len(), asked, "{architecture}: {fields}");
            if asked == 1 {
                let counted = server.stop();
                // Who came too late for that found it stored.
                let followed = counted.value(Counter::CacheCollapsed) + counted.value(Counter::CacheHits);
                assert_eq!(followed, CLIENTS as u64 - 1);
            }
        }
    }
}
