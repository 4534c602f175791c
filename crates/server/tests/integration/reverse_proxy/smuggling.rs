//! Request smuggling and response splitting: what two servers could read differently arrives as one request in one
//! framing, or not at all; ambiguous upstream responses reach no client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Options, proxy};
use sojourn_server::Counter;
use sojourn_testing::smuggling::{AFTER, PASSED, REFUSED};
use sojourn_testing::until;
use sojourn_testing::upstream::{Peer, Upstream};

/// A request line and a body as they arrived.
type Arrived = (String, String);

/// Reads as strictly as possible and records requests; whatever cannot be read so fails the test.
fn record(peer: &mut Peer, arrived: &Mutex<Vec<Arrived>>, faults: &Mutex<Vec<String>>) {
    while let Some(head) = peer.head() {
        let mut lines = head.strip_suffix("\r\n\r\n").unwrap().split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let mut framings = Vec::new();
        let mut hosts = 0;
        for field in lines {
            let (name, value) = field.split_once(':').unwrap_or_default();
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if name.is_empty()
                || !name.bytes().all(is_name)
                || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            {
                faults.lock().unwrap().push(format!("{field:?} in {head:?}"));
            }
            hosts += usize::from(name.eq_ignore_ascii_case("host"));
            if ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str()) {
                framings.push(field.to_owned());
            }
        }
        let body = match &framings[..] {
            [] => Some(Vec::new()),
            [field] if field == "Transfer-Encoding: chunked" => unchunked(peer),
            [field] => {
                let length = field.strip_prefix("Content-Length: ").and_then(|length| length.parse().ok());
                length.and_then(|length: usize| peer.take(length))
            }
            _ => {
                faults.lock().unwrap().push(format!("two framings: {head:?}"));
                None
            }
        };
        if hosts != 1 || line.split(' ').count() != 3 || !line.ends_with(" HTTP/1.1") {
            faults.lock().unwrap().push(head);
        }
        // An incomplete request does not count.
        let Some(body) = body else { return };
        arrived.lock().unwrap().push((line, String::from_utf8_lossy(&body).into_owned()));
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

/// A chunked body without extensions and trailers; `None` if it is anything else or incomplete.
fn unchunked(peer: &mut Peer) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = Vec::new();
        while !size.ends_with(b"\r\n") {
            size.extend(peer.take(1)?);
        }
        let size = std::str::from_utf8(&size[..size.len() - 2]).ok()?;
        let size =
            usize::from_str_radix(size, 16).ok().filter(|_| size.bytes().all(|b| b.is_ascii_hexdigit()))?;
        body.extend(peer.take(size)?);
        if peer.take(2)? != b"\r\n" {
            return None;
        }
        if size == 0 {
            return Some(body);
        }
    }
}

#[test]
fn what_arrives_is_one_request_or_nothing() {
    let (arrived, faults) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (their_arrived, their_faults) = (Arc::clone(&arrived), Arc::clone(&faults));
    let upstream = Upstream::start(move |peer| record(peer, &their_arrived, &their_faults));
    for architecture in ["amped", "uring"] {
        let server = proxy(architecture, &[upstream.address], &[&|options| options.memory.memory_bytes = 0]);
        let try_out = |request: &str| {
            let mut client = server.connect();
            client.send(request.as_bytes());
            client.send(AFTER.as_bytes());
            let answer = String::from_utf8_lossy(&client.rest()).into_owned();
            (answer, std::mem::take(&mut *arrived.lock().unwrap()))
        };
        for request in REFUSED {
            let (answer, arrived) = try_out(request);
            assert_eq!(arrived, [], "{request:?}: {answer}");
            assert!(
                answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5"),
                "{request:?}: {answer}"
            );
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?}: {answer}");
        }
        for (request, line, body) in PASSED {
            let (answer, arrived) = try_out(request);
            let expected = [(*line, *body), ("GET /after HTTP/1.1", "")];
            let arrived: Vec<_> = arrived.iter().map(|(line, body)| (&line[..], &body[..])).collect();
            assert_eq!(arrived, expected, "{request:?}: {answer}");
        }
        assert_eq!(*faults.lock().unwrap(), Vec::<String>::new());
    }
}

/// A proxy in front sends a client's body as it is, on a connection that other clients' requests follow on.
#[test]
fn a_body_that_begins_like_http2_is_a_body() {
    const BODY: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for architecture in ["amped", "uring"] {
        let (arrived, faults) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (their_arrived, their_faults) = (Arc::clone(&arrived), Arc::clone(&faults));
        let upstream = Upstream::start(move |peer| record(peer, &their_arrived, &their_faults));
        let server = proxy(architecture, &[upstream.address], &[&|options| options.memory.memory_bytes = 0]);
        let mut client = server.connect();
        client
            .send(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", BODY.len()).as_bytes());
        // Without the head, which the upstream has got, it comes in a buffer of its own.
        until("the head has arrived", || (upstream.heads().len() == 1).then_some(()));
        client.send(BODY.as_bytes());
        client.send(AFTER.as_bytes());
        let answers = String::from_utf8_lossy(&client.rest()).into_owned();
        assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{architecture}: {answers}");
        let expected = [("POST / HTTP/1.1", BODY), ("GET /after HTTP/1.1", "")];
        let arrived: Vec<_> = std::mem::take(&mut *arrived.lock().unwrap());
        let arrived: Vec<_> = arrived.iter().map(|(line, body)| (&line[..], &body[..])).collect();
        assert_eq!((arrived, faults.lock().unwrap().len()), (expected.to_vec(), 0), "{architecture}");
        assert_eq!(server.counters().value(Counter::ConnectionsHttp2), 0);
    }
}

/// Responses of which no client may receive anything, each followed by what would be the next response.
const BAD_ANSWERS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\npoison",
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n6\r\npoison\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: +6\r\n\r\npoison",
    "HTTP/1.1 200 OK\r\nContent-Length: 6, 7\r\n\r\npoison",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\npoison",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\npoison",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\npoison\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX: a\r\n Content-Length: 6\r\n\r\npoison",
    "HTTP/1.1 200 OK\r\nContent-Length : 6\r\n\r\npoison",
    "HTTP/1.1 200 OK\nContent-Length: 6\n\npoison",
    "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: poison\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX: \0poison\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 20 OK\r\nContent-Length: 6\r\n\r\npoison",
    "HTTP/1.1  200 OK\r\nContent-Length: 6\r\n\r\npoison",
    "HTTP/2 200\r\nContent-Length: 6\r\n\r\npoison",
    "ICY 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    "poison",
    "\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\npoison",
];

#[test]
fn bad_answers_are_nobodys() {
    let next = Arc::new(Mutex::new(""));
    let theirs = Arc::clone(&next);
    let upstream = Upstream::start(move |peer| {
        while peer.head().is_some() {
            peer.send(theirs.lock().unwrap().as_bytes());
        }
    });
    for architecture in ["amped", "uring"] {
        let set = |options: &mut Options| {
            let limits = &mut options.site.limits.upstream;
            (limits.failures_max, limits.head) = (1_000_000, Duration::from_secs(5));
        };
        let server = proxy(architecture, &[upstream.address], &[&set]);
        let get = |target: &str| {
            let mut client = server.connect();
            client.send(format!("GET /{target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
            String::from_utf8_lossy(&client.rest()).into_owned()
        };
        for (number, bad) in BAD_ANSWERS.iter().enumerate() {
            *next.lock().unwrap() = bad;
            let answer = get(&number.to_string());
            assert!(answer.starts_with("HTTP/1.1 502 ") && !answer.contains("poison"), "{bad:?}: {answer}");
            *next.lock().unwrap() = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
            let answer = get(&number.to_string());
            assert!(answer.ends_with("\r\n\r\ngood"), "after {bad:?}: {answer}");
        }
    }
}
