//! Tests of the proxy as a program: forwarding under every architecture that supports it, its options, processes and
//! disk. The server's crate tests the cache itself.

mod configuration;
pub mod early_responses;
mod failures;
mod fair_shares;
pub mod fastcgi;
mod files;
mod forward;
mod hanging_disk;
mod in_flight;
mod log;
mod processes;
mod request_buffering;
mod storage;
mod upgrades;
mod upstream_tls;

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use sojourn_server::{ALL, CacheScope, Counter};
use sojourn_testing::client::{exchange, get, status};
use sojourn_testing::upstream::{self, Upstream};

use crate::engine::{ENGINE, Server};

/// Runs `test` over every architecture that supports a proxy, one after the other.
pub fn over_all(flags: &[&str], upstream: impl Fn() -> Upstream, test: impl Fn(&Server, &Upstream)) {
    over(|scope| scope.is_some(), flags, upstream, test);
}

/// The same over architectures with one cache for the whole server.
pub fn over_sharing(flags: &[&str], upstream: impl Fn() -> Upstream, test: impl Fn(&Server, &Upstream)) {
    over(|scope| scope == Some(CacheScope::Server), flags, upstream, test);
}

fn over(
    has_part: impl Fn(Option<CacheScope>) -> bool,
    flags: &[&str],
    upstream: impl Fn() -> Upstream,
    test: impl Fn(&Server, &Upstream),
) {
    for architecture in ALL.iter().filter(|architecture| has_part(architecture.cache_scope())) {
        eprintln!("{}:", architecture.name());
        let upstream = upstream();
        let server = proxy(architecture.name(), &[upstream.address], flags);
        test(&server, &upstream);
        server.stop();
    }
}

/// A proxy for `upstreams`.
pub fn proxy(architecture: &str, upstreams: &[SocketAddr], flags: &[&str]) -> Server {
    let mut command = Command::new(ENGINE);
    command.args(["proxy", "--listen", "127.0.0.1:0", "--architecture", architecture, "--via", "me"]);
    for upstream in upstreams {
        command.args(["--upstream", &format!("http://{upstream}")]);
    }
    Server::run(command.args(flags))
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello";

/// Without TCP_NODELAY, an upstream sends a small part when the one before is acknowledged: the kernel delays that by 40 ms.
#[test]
fn parts_of_a_response_are_acknowledged_at_once() {
    const RESPONSES: u32 = 60;
    let upstream = || {
        Upstream::start(|peer| {
            peer.stream.set_nodelay(false).unwrap();
            while peer.head().is_some() {
                for part in [&b"HTTP/1.1 200 OK\r\n"[..], b"Content-Length: 4\r\n\r\n", b"ab", b"c", b"d"] {
                    peer.send(part);
                }
            }
        })
    };
    over_all(&[], upstream, |server, upstream| {
        let mut client = server.connect();
        let began = Instant::now();
        for _ in 0..RESPONSES {
            client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            client.until(b"\r\n\r\nabcd");
        }
        let delay = Duration::from_millis(40);
        assert!(began.elapsed() < RESPONSES * delay, "{:?}", began.elapsed());
        assert_eq!(upstream.connections(), 1);
    });
}

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
            // The same connections on both sides.
            assert!(exchange(&mut client, "HEAD / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
            let heads = upstream.heads();
            assert!(heads[0].starts_with("GET /a?b HTTP/1.1\r\n"), "{}", heads[0]);
            for line in ["Host: h", "X-B: 2", "Via: 1.1 me", "X-Forwarded-For: 127.0.0.1"] {
                assert!(heads[0].contains(&format!("\r\n{line}\r\n")), "{line}: {}", heads[0]);
            }
            assert!(!heads[0].contains("X-A") && !heads[0].contains("Upgrade"), "{}", heads[0]);
            let host = format!("\r\nHost: {}\r\n", upstream.address);
            assert!(heads[1].starts_with("HEAD / HTTP/1.1\r\n") && heads[1].contains(&host), "{heads:?}");
            server.wait_until(Counter::UpstreamRequests, 2);
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

/// RFC 9110, 15.2.
#[test]
fn interim_responses_are_passed_on() {
    const HINTS: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nConnection: x\r\nX: 1\r\n\r\n";
    over_all(
        &[],
        || {
            Upstream::start(|peer: &mut upstream::Peer| {
                while peer.head().is_some() {
                    peer.send(HINTS);
                    peer.send(OK);
                }
            })
        },
        |server, _| {
            let answer = get(server, "/");
            let expected = "HTTP/1.1 102 Processing\r\nVia: 1.1 me\r\n\r\n\
                HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nVia: 1.1 me\r\n\r\nHTTP/1.1 200 OK\r\n";
            assert!(answer.starts_with(expected) && answer.ends_with("\r\n\r\nhello"), "{answer}");
            let answer = exchange(&mut server.connect(), "GET / HTTP/1.0\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "HTTP/1.0 knows none: {answer}");
        },
    );
}

/// The content of a chunked body, which must end with the last chunk.
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
            // The rest, followed by another request with a different coding.
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
