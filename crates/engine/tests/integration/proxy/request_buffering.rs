//! Tests of buffered request bodies: a client that sends slowly holds no connection to an upstream.

use sojourn_server::Counter;
use sojourn_testing::client::{exchange, get, status};
use sojourn_testing::upstream::Upstream;

use super::{over_all, proxy};
use crate::engine::Client;

const CONNECTIONS_MAX: usize = 8;
const BUFFERING: &str = "--upstream-request-buffering";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// An upstream that answers with the body that it got, and knows no framing but Content-Length.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            assert!(!head.contains("Transfer-Encoding") && !head.contains("Expect"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            let Some(body) = peer.take(length) else { return };
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes());
            peer.send(&body);
        }
    })
}

#[test]
fn slow_bodies_hold_no_connections() {
    for (architecture, workers) in [("amped", &[][..]), ("uring", &["--workers", "1"])] {
        let upstream = echo();
        let most = CONNECTIONS_MAX.to_string();
        let flags = [&[BUFFERING, "--upstream-connections-max", &most], workers].concat();
        let server = proxy(architecture, &[upstream.address], &flags);
        let mut slow: Vec<Client> = (0..25 * CONNECTIONS_MAX).map(|_| server.connect()).collect();
        for client in &mut slow {
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nab");
        }
        server.wait_until(Counter::UpstreamGatheredBytes, 2 * slow.len() as u64);
        assert_eq!(upstream.connections(), 0, "{architecture}");
        assert_eq!(status(&get(&server, "/")), "200", "{architecture}");
        for client in &mut slow[..3] {
            client.send(b"c");
            let answer = client.rest();
            assert!(answer.ends_with(b"\r\n\r\nabc"), "{}", String::from_utf8_lossy(&answer));
        }
        assert!(upstream.heads()[1].contains("\r\nContent-Length: 3\r\n"), "{:?}", upstream.heads());
        server.wait_until(Counter::UpstreamGatheredBytes, 2 * (slow.len() - 3) as u64);
        assert_eq!(upstream.connections(), 1, "{architecture}: it is used again");
        drop(slow);
        server.wait_until(Counter::UpstreamGatheredBytes, 0);
    }
}

#[test]
fn bodies_of_any_framing_are_passed_on_with_their_length() {
    over_all(&[BUFFERING, "--upstream-gathered-max", "100000"], echo, |server, upstream| {
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        client.send(b"6\r\n world\r\n0\r\n\r\n");
        client.until(b"\r\n\r\nhello world");
        client.send(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(client.take(CONTINUE.len()), CONTINUE);
        client.send(b"end");
        client.until(b"\r\n\r\nend");
        // A body as long as the limit, and behind it the next request.
        let body = vec![b'x'; 100_000];
        let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
        client.send(&[head.as_bytes(), &body].concat());
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let rest = client.rest();
        let at = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(rest[at..].starts_with(&body) && rest[at + body.len()..].starts_with(b"HTTP/1.1 200 OK"));

        let heads = upstream.heads().len();
        let long = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\n\r\n";
        assert_eq!(status(&exchange(&mut server.connect(), long)), "413");
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n");
        client.send(&[b'x'; 100_001]);
        assert_eq!(status(&String::from_utf8(client.rest()).unwrap()), "413");
        server.wait_until(Counter::LimitGathered, 2);
        assert_eq!(upstream.heads().len(), heads);
    });
}

#[test]
fn all_buffered_bodies_together_are_limited() {
    for (architecture, workers) in [("amped", &[][..]), ("uring", &["--workers", "1"])] {
        let upstream = echo();
        let flags = [&[BUFFERING, "--upstream-gathered-total", "1000"], workers].concat();
        let server = proxy(architecture, &[upstream.address], &flags);
        let head = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 501\r\n\r\n";
        let send = |bytes: &[u8]| {
            let mut client = server.connect();
            client.send(&[head, bytes].concat());
            client
        };
        let mut first = send(&[b'x'; 500]);
        server.wait_until(Counter::UpstreamGatheredBytes, 500);
        let answer = String::from_utf8(send(&[b'x'; 501]).rest()).unwrap();
        assert_eq!(status(&answer), "503", "{architecture}");
        server.wait_until(Counter::LimitGatheredTotal, 1);
        first.send(b"y");
        first.until(b"xy");
        server.wait_until(Counter::UpstreamGatheredBytes, 0);
        send(&[b'x'; 501]).until(&[b'x'; 501]);
    }
}
