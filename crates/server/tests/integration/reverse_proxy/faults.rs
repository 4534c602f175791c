//! Upstreams that fail in every way: each client gets the whole body, a visible cut, or an error; nothing of it is stored,
//! and the next request is answered in full.

use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sojourn_server::Counter;
use sojourn_testing::Client;
use sojourn_testing::upstream::{Peer, Upstream};

use super::{Options, proxy};

/// More than one read and one piece of the cache, and no multiple of either.
const BODY_BYTES: usize = 200_003;

/// Timeouts for a silent upstream; those that answer must not reach them, whatever else the machine does.
const TIMEOUT: Duration = Duration::from_millis(if cfg!(address_sanitizer) { 3000 } else { 200 });

fn body() -> Vec<u8> {
    (0..BODY_BYTES).map(|at| ((at * 7) >> 4) as u8).collect()
}

fn head(framing: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\n{framing}\r\n").into_bytes()
}

fn sized() -> Vec<u8> {
    head(&format!("Content-Length: {BODY_BYTES}\r\n"))
}

fn whole() -> Vec<u8> {
    [sized(), body()].concat()
}

/// The body in chunks, without the last one.
fn chunks() -> Vec<u8> {
    let mut bytes = head("Transfer-Encoding: chunked\r\n");
    for part in body().chunks(70_000) {
        bytes.extend(format!("{:x}\r\n", part.len()).bytes());
        bytes.extend([part, b"\r\n"].concat());
    }
    bytes
}

fn half() -> Vec<u8> {
    [sized(), body()[..BODY_BYTES / 2].to_vec()].concat()
}

/// Sends `part` over and over, until the proxy closes.
fn flood(peer: &mut Peer, part: &[u8]) {
    while peer.try_send(part) {}
}

/// What the client may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Whole,
    /// A response that is visibly not whole, or an error before it has begun.
    Cut,
    Error(&'static str),
}

/// What an upstream does with a request instead of answering, and what comes of it.
struct Fault(&'static str, fn(&mut Peer), Outcome);

const BAD_GATEWAY: Outcome = Outcome::Error("502");
const TIMED_OUT: Outcome = Outcome::Error("504");

const FAULTS: &[Fault] = &[
    Fault("the end at once", |_| {}, BAD_GATEWAY),
    Fault("a reset at once", Peer::reset, BAD_GATEWAY),
    Fault(
        "silence",
        |peer| {
            peer.is_closed();
        },
        TIMED_OUT,
    ),
    Fault("half a head, then the end", |peer| peer.send(&sized()[..40]), BAD_GATEWAY),
    Fault(
        "half a head, then a reset",
        |peer| {
            peer.send(&sized()[..40]);
            peer.reset();
        },
        BAD_GATEWAY,
    ),
    Fault(
        "half a head, then silence",
        |peer| {
            peer.send(&sized()[..40]);
            peer.is_closed();
        },
        TIMED_OUT,
    ),
    Fault("a head without its empty line", |peer| peer.send(b"HTTP/1.1 200 OK\r\nX: y\r\n"), BAD_GATEWAY),
    Fault(
        "an endless head",
        |peer| flood(peer, b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"),
        BAD_GATEWAY,
    ),
    Fault(
        "endless interim responses",
        |peer| flood(peer, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
        BAD_GATEWAY,
    ),
    Fault("noise", |peer| flood(peer, &[0x16, 0x03, 0x01, 0xff, 0x00]), BAD_GATEWAY),
    Fault(
        "a length beyond 64 bits",
        |peer| peer.send(&head("Content-Length: 99999999999999999999\r\n")),
        BAD_GATEWAY,
    ),
    Fault(
        "a length that never comes",
        |peer| peer.send(&[head("Content-Length: 9223372036854775807\r\n"), body()].concat()),
        Outcome::Cut,
    ),
    Fault("a head alone", |peer| peer.send(&sized()), Outcome::Cut),
    Fault("half a body, then the end", |peer| peer.send(&half()), Outcome::Cut),
    Fault(
        "half a body, then a reset",
        |peer| {
            peer.send(&half());
            peer.reset();
        },
        Outcome::Cut,
    ),
    Fault(
        "half a body, then the end of one side",
        |peer| {
            peer.send(&half());
            peer.stream.shutdown(Shutdown::Write).unwrap();
            peer.is_closed();
        },
        Outcome::Cut,
    ),
    Fault(
        "half a body, then silence",
        |peer| {
            peer.send(&half());
            peer.is_closed();
        },
        Outcome::Cut,
    ),
    Fault("chunks without the last one", |peer| peer.send(&chunks()), Outcome::Cut),
    Fault("half a chunk", |peer| peer.send(&chunks()[..100_000]), Outcome::Cut),
    Fault("no size after a chunk", |peer| peer.send(&[chunks(), b"xyz\r\n".to_vec()].concat()), Outcome::Cut),
    Fault("a negative size", |peer| peer.send(&[chunks(), b"-1\r\n".to_vec()].concat()), Outcome::Cut),
    Fault(
        "a chunk longer than it says",
        |peer| peer.send(&[chunks(), b"1\r\nab\r\n0\r\n\r\n".to_vec()].concat()),
        Outcome::Cut,
    ),
    Fault(
        "an endless extension",
        |peer| {
            peer.send(&[chunks(), b"1;".to_vec()].concat());
            flood(peer, &[b'x'; 1000]);
        },
        Outcome::Cut,
    ),
    Fault(
        "endless trailers",
        |peer| {
            peer.send(&[chunks(), b"0\r\n".to_vec()].concat());
            flood(peer, b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n");
        },
        Outcome::Cut,
    ),
    Fault(
        "an end that is a reset",
        |peer| {
            peer.send(&[head("Connection: close\r\n"), body()].concat());
            // Otherwise the reset would overtake the body.
            std::thread::sleep(TIMEOUT / 3);
            peer.reset();
        },
        Outcome::Cut,
    ),
    Fault("an end that is the end", |peer| peer.send(&[head(""), body()].concat()), Outcome::Whole),
    Fault("chunks", |peer| peer.send(&[chunks(), b"0\r\n\r\n".to_vec()].concat()), Outcome::Whole),
    Fault(
        "the beginning byte by byte",
        |peer| {
            let (slow, rest) = (&whole()[..200], &whole()[200..]);
            slow.iter().for_each(|byte| peer.send(&[*byte]));
            peer.send(rest);
        },
        Outcome::Whole,
    ),
    Fault(
        "what nobody asked for behind the body",
        |peer| peer.send(&[whole(), b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison".to_vec()].concat()),
        Outcome::Whole,
    ),
];

/// Without the interim responses before it.
fn final_response(mut answer: Vec<u8>) -> Vec<u8> {
    while answer.starts_with(b"HTTP/1.1 1") {
        let head_end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        answer.drain(..head_end);
    }
    answer
}

/// The body, if the response is whole by its framing.
fn whole_body(answer: &[u8]) -> Option<Vec<u8>> {
    let head_end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..head_end]).unwrap();
    let mut rest = &answer[head_end..];
    if let Some((_, after)) = head.split_once("\r\nContent-Length: ") {
        let length: u64 = after.split("\r\n").next().unwrap().parse().unwrap();
        assert!(rest.len() as u64 <= length, "bytes behind the body: {head}");
        return (rest.len() as u64 == length).then(|| rest.to_vec());
    }
    assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "a cut could not be seen: {head}");
    let mut body = Vec::new();
    loop {
        let line_end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line_end]).unwrap(), 16).unwrap();
        rest = &rest[line_end + 2..];
        if size == 0 {
            return (rest == b"\r\n").then_some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[test]
fn each_fault_is_seen_and_nothing_of_it_stays() {
    let try_out = |architecture: &str| {
        let is_over: Vec<AtomicBool> = FAULTS.iter().map(|_| AtomicBool::new(false)).collect();
        let is_over: &'static [AtomicBool] = is_over.leak();
        let upstream = Upstream::start(|peer| {
            while let Some(head) = peer.head() {
                let number: usize = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
                if !is_over[number].load(Ordering::SeqCst) {
                    return FAULTS[number].1(peer);
                }
                peer.send(&whole());
            }
        });
        let directory = tempfile::tempdir().unwrap();
        let set = |options: &mut Options| {
            options.keep_in(directory.path());
            let limits = &mut options.site.limits.upstream;
            (limits.failures_max, limits.head, limits.body) = (1_000_000, TIMEOUT, TIMEOUT);
        };
        let server = proxy(architecture, &[upstream.address], &[&set]);
        let get = |number: usize| {
            let mut client = Client::to(server.address);
            client.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
            final_response(client.rest())
        };
        let check = |number: usize| {
            let Fault(name, _, expected) = FAULTS[number];
            let answer = get(number);
            let status = String::from_utf8_lossy(answer.get(9..12).unwrap_or_default()).into_owned();
            let is_whole = status == "200" && whole_body(&answer).is_some();
            assert!(!answer.windows(6).any(|six| six == b"poison"), "{name}");
            match expected {
                Outcome::Whole => assert!(whole_body(&answer) == Some(body()), "{name}: {status}"),
                Outcome::Cut => {
                    assert!(!is_whole && ["200", "502", "504"].contains(&&*status), "{name}: {status}");
                }
                Outcome::Error(expected) => assert_eq!(status, expected, "{name}"),
            }
            is_over[number].store(true, Ordering::SeqCst);
            // Once from the upstream, unless it was whole, and once from the cache.
            for _ in 0..2 {
                assert!(whole_body(&get(number)) == Some(body()), "after {name}");
            }
        };
        std::thread::scope(|scope| {
            for (number, Fault(name, ..)) in FAULTS.iter().enumerate() {
                let thread = std::thread::Builder::new().name((*name).to_owned());
                thread.spawn_scoped(scope, move || check(number)).unwrap();
            }
        });
        server.wait_until(Counter::ConnectionsOpen, 0);
        assert_eq!(server.stop().value(Counter::CacheDiskDamaged), 0);
    };
    std::thread::scope(|scope| {
        for architecture in ["amped", "uring"] {
            scope.spawn(move || try_out(architecture));
        }
    });
}

/// An upstream may close a kept connection at any time, also while the next request is on its way.
#[test]
fn connections_that_end_while_they_are_kept_lose_no_request() {
    const CLIENTS: u64 = 8;
    const REQUESTS_EACH: u64 = 200;
    for architecture in ["amped", "uring"] {
        let upstream = Upstream::start(|peer| {
            while let Some(head) = peer.head() {
                let target = head.split(' ').nth(1).unwrap();
                let length = target.len();
                peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}").as_bytes());
                let number: u64 = target[1..].parse().unwrap();
                let pause = |micros| std::thread::sleep(Duration::from_micros(micros));
                match number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 {
                    0 => return,
                    1 => return pause(50),
                    2 => return pause(300),
                    3 => {
                        pause(3000);
                        return peer.reset();
                    }
                    _ => {}
                }
            }
        });
        let server = proxy(
            architecture,
            &[upstream.address],
            &[&|options| {
                options.memory.memory_bytes = 0;
                options.site.limits.upstream.failures_max = 1_000_000;
            }],
        );
        let ask = |first: u64| {
            let mut client = Client::to(server.address);
            for number in first..first + REQUESTS_EACH {
                client.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
                let head = String::from_utf8(client.until(b"\r\n\r\n")).unwrap();
                assert!(head.starts_with("HTTP/1.1 200 "), "{architecture}: {head}");
                let target = format!("/{number}");
                assert_eq!(client.take(target.len()), target.as_bytes(), "{architecture}");
            }
        };
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let ask = &ask;
                scope.spawn(move || ask(client * REQUESTS_EACH));
            }
        });
        server.wait_until(Counter::ConnectionsOpen, 0);
        assert!(upstream.connections() > 100, "{architecture}");
        server.stop();
    }
}
