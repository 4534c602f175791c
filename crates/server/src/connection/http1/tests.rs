//! The state machine alone: plays wire scripts, cut at every position, with a disk that answers immediately.

use super::*;
use crate::connection::bench::Bench;
use crate::connection::{HEAD_ALIGNMENT_BYTES, Piece, SendPath};
use sojourn_content::{Job, Origin};
use sojourn_testing::fixture;

use sojourn_testing::script::{self, Script, Step};

/// Longer scripts are cut at this many positions only.
const CUTS_MAX: usize = 150;

impl Bench {
    fn handle(&mut self, connection: &mut Http1, event: Event) -> Want {
        connection.handle(event, &mut self.context())
    }

    /// The output for `pieces`, and whether the connection was closed after them.
    fn exchange(&mut self, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut connection = Http1::new([127, 0, 0, 1].into(), false);
        let mut want = connection.start();
        let mut sent = Vec::new();
        for piece in pieces.iter().copied().filter(|piece| !piece.is_empty()) {
            want = match want {
                Want::Receive(mut buffer) => {
                    buffer.space().extend_from_slice(piece);
                    self.handle(&mut connection, Event::Received(buffer))
                }
                closed => closed,
            };
            want = self.settle(&mut connection, want, &mut sent);
        }
        let is_closed = match (&want, connection.waits_for()) {
            (Want::Close(_), _) | (_, Wait::End) => true,
            (Want::Receive(_), _) => false,
            (other, _) => panic!("it settles on receiving or closing, not on {other:?}"),
        };
        (sent, is_closed)
    }

    /// Performs a want that needs the disk.
    fn perform(&mut self, connection: &mut Http1, want: Want) -> Want {
        let job = match want {
            Want::Open(opening) => Job::Open(opening),
            Want::Load(range) => Job::Load(range),
            other => panic!("{other:?} needs no disk"),
        };
        let done = job.perform(&self.origin, &mut Vec::new());
        self.handle(connection, Event::Done(done))
    }

    /// Performs all wants that need no client.
    fn settle(&mut self, connection: &mut Http1, mut want: Want, sent: &mut Vec<u8>) -> Want {
        loop {
            want = match want {
                Want::Receive(_) | Want::Close(_) => return want,
                Want::Open(_) | Want::Load(_) => self.perform(connection, want),
                Want::Look(_) | Want::Delegate(..) | Want::CancelReceive | Want::Wait => panic!("{want:?}"),
                Want::Send(output) => {
                    sent.extend_from_slice(&output.bytes);
                    match &output.body {
                        None => {}
                        Some(
                            body @ (Piece::Memory(_)
                            | Piece::Part(..)
                            | Piece::Received(_)
                            | Piece::Stored(_)
                            | Piece::Frames(_)),
                        ) => {
                            body.in_memory(0).for_each(|piece| sent.extend_from_slice(piece));
                        }
                        Some(Piece::File(range)) => {
                            let start = sent.len();
                            sent.resize(start + range.length, 0);
                            self.origin.read(&range.document, range.offset, &mut sent[start..]).unwrap();
                        }
                    }
                    self.handle(connection, Event::Sent(output))
                }
            };
        }
    }
}

fn check(script: &Script, answer: &[u8], is_closed: bool, how: &str) {
    let mut rest = answer;
    for step in &script.steps {
        match step {
            Step::Send(_) => {}
            Step::Expect(pattern) => match pattern.take(rest) {
                Ok(Some(count)) => rest = &rest[count..],
                Ok(None) => panic!("{:?}, {how}: {pattern:?} is missing", script.title),
                Err(error) => panic!("{:?}, {how}: {error}", script.title),
            },
            Step::Close => assert!(is_closed, "{:?}, {how}: it stays open", script.title),
        }
    }
    assert_eq!(rest, b"", "{:?}, {how}: surplus", script.title);
}

#[test]
fn every_script_cut_everywhere() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    for script in script::scripts() {
        let sent = |step: &Step| if let Step::Send(bytes) = step { bytes.clone() } else { Vec::new() };
        let input = script.steps.iter().flat_map(sent).collect::<Vec<u8>>();
        for cut in (0..input.len()).step_by(1 + input.len() / CUTS_MAX) {
            let (answer, is_closed) = bench.exchange(&[&input[..cut], &input[cut..]]);
            check(&script, &answer, is_closed, &format!("cut at {cut}"));
        }
    }
}

/// The second request has to wait for the disk, and for the first response to be sent.
#[test]
fn a_body_behind_an_earlier_request_is_thrown_away_once() {
    let root = fixture::site();
    let requests = b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n\
        GET /empty HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
        GET /hello.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let (answer, _) = Bench::new(root.path()).exchange(&[requests]);
    let answer = String::from_utf8(answer).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{answer}");
}

/// The bytes are the same with every send path.
#[test]
fn every_send_path_sends_the_same() {
    let root = fixture::site();
    let request = |name: &str| format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes();
    let requests = ["hello.txt", "medium.bin", "large.bin", "empty", "hello.txt"].map(request).concat();
    let answer = |copied_bytes_max, memory_bytes_max| {
        let mut bench = Bench::new(root.path());
        bench.send_path = SendPath { copied_bytes_max, memory_bytes_max, aligns_heads: false };
        bench.clock.date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
        let first = bench.exchange(&[&requests]).0;
        assert_eq!(bench.exchange(&[&requests]).0, first, "from the caches");
        first
    };
    let usual = answer(SendPath::default().copied_bytes_max, SendPath::default().memory_bytes_max);
    assert!(usual.len() > fixture::LARGE_BYTES);
    for (copied, memory) in [(0, 0), (0, 10_000), (0, 1 << 30), (1 << 30, 0), (1 << 30, 1 << 30)] {
        assert!(answer(copied, memory) == usual, "copied up to {copied}, in memory up to {memory}");
    }
}

#[test]
fn parts_of_a_large_document_are_its_bytes() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    let (answer, _) = bench.exchange(&[
        b"GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=5-1500004,-3,1000000-1000000\r\n\r\n",
    ]);
    let large = fixture::large();
    let (head, body) = answer.split_at(answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4);
    let head = str::from_utf8(head).unwrap();
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    let boundary = head.split_once("boundary=").unwrap().1.split_once("\r\n").unwrap().0;
    let mut expected = Vec::new();
    for (first, last) in [(5, 1_500_004), (2_999_997, 2_999_999), (1_000_000, 1_000_000)] {
        let fields = "Content-Type: application/octet-stream\r\nContent-Range: bytes";
        expected.extend(format!("\r\n--{boundary}\r\n{fields} {first}-{last}/3000000\r\n\r\n").bytes());
        expected.extend(&large[first..=last]);
    }
    expected.extend(format!("\r\n--{boundary}--\r\n").bytes());
    assert!(body == expected, "{} bytes, expected {}", body.len(), expected.len());
}

#[test]
fn a_long_response_is_corked_from_its_head_to_its_end() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    let mut corked = |target: &str| {
        let mut connection = Http1::new([127, 0, 0, 1].into(), false);
        let mut buffer = Buffer::default();
        buffer.space().extend_from_slice(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        let mut want = bench.handle(&mut connection, Event::Received(buffer));
        let mut outputs = Vec::new();
        while !matches!(want, Want::Receive(_)) {
            want = match want {
                Want::Send(output) => {
                    outputs.push((output.corks, output.uncorks));
                    bench.handle(&mut connection, Event::Sent(output))
                }
                disk => bench.perform(&mut connection, disk),
            };
        }
        outputs
    };
    assert_eq!(corked("/hello.txt"), [(false, false)]);
    assert_eq!(corked("/medium.bin"), [(false, false)]);
    let long = corked("/large.bin");
    assert!(long.len() > 2, "{long:?}");
    assert!(long[0] == (true, false) && long[long.len() - 1] == (false, true));
    assert!(long[1..long.len() - 1].iter().all(|turn| *turn == (false, false)), "{long:?}");
}

#[test]
fn the_end_of_a_connection_goes_with_its_last_bytes() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    let mut closing = |target: &str, connection_field: &str| {
        let mut connection = Http1::new([127, 0, 0, 1].into(), false);
        let mut buffer = Buffer::default();
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: {connection_field}\r\n\r\n");
        buffer.space().extend_from_slice(request.as_bytes());
        let mut want = bench.handle(&mut connection, Event::Received(buffer));
        let mut outputs = Vec::new();
        loop {
            want = match want {
                Want::Send(output) => {
                    assert!(!(output.closes && output.uncorks), "closing uncorks");
                    outputs.push(output.closes);
                    bench.handle(&mut connection, Event::Sent(output))
                }
                Want::Receive(_) | Want::Close(_) => return outputs,
                disk => bench.perform(&mut connection, disk),
            };
        }
    };
    assert_eq!(closing("/hello.txt", "keep-alive"), [false]);
    assert_eq!(closing("/hello.txt", "close"), [true]);
    assert_eq!(closing("/medium.bin", "close"), [true]);
    let long = closing("/large.bin", "close");
    assert_eq!(long.iter().filter(|closes| **closes).count(), 1);
    assert!(long.len() > 2 && long.ends_with(&[true]));
}

#[test]
fn aligned_heads_end_at_a_multiple() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    bench.send_path.aligns_heads = true;
    let (answer, _) = bench.exchange(&[b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n"]);
    assert!(answer.ends_with(b"\r\n\r\nhello"));
    assert_eq!((answer.len() - b"hello".len()) % HEAD_ALIGNMENT_BYTES, 0);
}

#[test]
fn nothing_is_held_between_requests() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    let mut connection = Http1::new([127, 0, 0, 1].into(), false);
    for _ in 0..3 {
        let Want::Receive(mut buffer) = connection.start() else { panic!("it begins by receiving") };
        buffer.space().extend_from_slice(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        let want = bench.handle(&mut connection, Event::Received(buffer));
        let want = bench.settle(&mut connection, want, &mut Vec::new());
        assert!(matches!(want, Want::Receive(buffer) if !buffer.is_allocated()));
        assert!(!connection.input.is_allocated() && connection.responses.output.capacity() == 0);
        assert_eq!(connection.waits_for(), Wait::Request);
    }
    assert!(size_of::<Http1>() <= 256, "{} bytes", size_of::<Http1>());
}

#[test]
fn a_hit_is_one_send_and_no_disk() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    bench.exchange(&[b"GET /hello.txt HTTP/1.0\r\n\r\n"]);
    let mut connection = Http1::new([127, 0, 0, 1].into(), false);
    let mut buffer = Buffer::default();
    buffer.space().extend_from_slice(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    let want = bench.handle(&mut connection, Event::Received(buffer));
    let Want::Send(output) = want else { panic!("{want:?}") };
    assert!(output.body.is_none() && output.bytes.ends_with(b"\r\n\r\nhello"));
}

#[test]
fn a_slow_head_is_told_so() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    let mut connection = Http1::new([127, 0, 0, 1].into(), false);
    let mut buffer = Buffer::default();
    buffer.space().extend_from_slice(b"GET / HT");
    bench.handle(&mut connection, Event::Received(buffer));
    assert_eq!(connection.waits_for(), Wait::Head(0));
    let want = bench.handle(&mut connection, Event::Expired);
    let Want::Send(output) = want else { panic!("{want:?}") };
    assert!(output.bytes.starts_with(b"HTTP/1.1 408 ") && output.is_last);
    let want = bench.handle(&mut connection, Event::Sent(output));
    assert!(matches!(want, Want::Receive(_)) && connection.waits_for() == Wait::End);
    assert!(matches!(bench.handle(&mut connection, Event::Expired), Want::Close(Reason::Finished)));
}

#[test]
fn https_is_served_over_secure_connections() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    for (is_secure, status) in [(false, "421 Misdirected Request"), (true, "200 OK")] {
        let mut connection = Http1::new([127, 0, 0, 1].into(), is_secure);
        let mut buffer = Buffer::default();
        buffer.space().extend_from_slice(b"GET https://h/hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        let want = bench.handle(&mut connection, Event::Received(buffer));
        let mut sent = Vec::new();
        bench.settle(&mut connection, want, &mut sent);
        assert!(sent.starts_with(format!("HTTP/1.1 {status}\r\n").as_bytes()));
    }
}

#[test]
fn a_slow_body_is_told_so() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    let mut connection = Http1::new([127, 0, 0, 1].into(), false);
    let mut buffer = Buffer::default();
    buffer.space().extend_from_slice(b"HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhello");
    let want = bench.handle(&mut connection, Event::Received(buffer));
    assert!(matches!(want, Want::Receive(_)) && connection.waits_for() == Wait::Head(0));
    let want = bench.handle(&mut connection, Event::Expired);
    let Want::Send(output) = want else { panic!("{want:?}") };
    assert!(output.bytes.starts_with(b"HTTP/1.1 408 ") && output.is_last);
    assert!(output.bytes.ends_with(b"\r\n\r\n"), "no body for HEAD");
}

#[test]
fn a_trickling_body_is_not_kept() {
    let root = fixture::site();
    let mut bench = Bench::new(root.path());
    let mut connection = Http1::new([127, 0, 0, 1].into(), false);
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut buffer = Buffer::default();
    buffer.space().extend_from_slice(head);
    let mut want = bench.handle(&mut connection, Event::Received(buffer));
    for _ in 0..5000 {
        let Want::Receive(mut buffer) = want else { panic!("{want:?}") };
        assert_eq!(buffer.unread(), head);
        buffer.space().extend_from_slice(b"1\r\nx\r\n");
        want = bench.handle(&mut connection, Event::Received(buffer));
    }
    let Want::Receive(mut buffer) = want else { panic!("{want:?}") };
    buffer.space().extend_from_slice(b"0\r\n\r\n");
    let want = bench.handle(&mut connection, Event::Received(buffer));
    let Want::Send(output) = want else { panic!("{want:?}") };
    assert!(output.bytes.starts_with(b"HTTP/1.1 405 ") && !output.closes);
    assert_eq!(connection.responses.requests, 1);
}
