//! The state machine alone, with an HTTP/2 client at the other end and a controlled disk.

use std::collections::BTreeMap;
use std::task::{self, Poll, Waker};

use h2::Reason as Code;
use http::Request;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sojourn_content::Job;
use sojourn_http::http2 as protocol;

use super::limits::CANCELLED_MAX;
use super::*;
use crate::connection::bench::BodyEcho;
use sojourn_testing::fixture;

mod client;
mod uploader;

use client::{Client, Server};
use uploader::Uploader;

#[test]
fn answers_are_those_of_http1() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    let hello = client.get("/hello.txt");
    let large = client.get("/large.bin");
    let home = client.get("/");
    let missing = client.get("/missing");
    let head = client.ask(Request::head("http://h/large.bin"));
    let post = client.ask(Request::post("http://h/hello.txt"));
    let range = client.ask(Request::get("http://h/large.bin").header("range", "bytes=100-1000099"));
    let parts = client.ask(Request::get("http://h/medium.bin").header("range", "bytes=0-0,5-6"));
    let hosts = client.ask(Request::get("http://h/").header("host", "elsewhere"));
    let empty = client.get("/empty");
    let redirected = client.get("/dir?q");
    client.talk(&mut server, true);
    client.check(hello, 200, b"hello");
    client.check(large, 200, &fixture::large());
    client.check(home, 200, b"<p>home\n");
    assert_eq!(client.status(missing), 404);
    client.check(head, 200, b"");
    assert_eq!(client.answers[head].head.as_ref().unwrap().1["content-length"], "3000000");
    assert_eq!(client.status(post), 405);
    client.check(range, 206, &fixture::large()[100..1_000_100]);
    assert_eq!(client.status(parts), 206);
    assert_eq!(client.status(hosts), 400);
    client.check(empty, 200, b"");
    assert_eq!(client.answers[redirected].head.as_ref().unwrap().1["location"], "/dir/?q");
    let tag = client.answers[hello].head.as_ref().unwrap().1["etag"].clone();
    let unchanged = client.ask(Request::get("http://h/hello.txt").header("if-none-match", tag));
    client.talk(&mut server, true);
    client.check(unchanged, 304, b"");
    assert!(matches!(server.want, Want::Receive(_)) && server.machine.waits_for() == Wait::Quiet(12));
    assert_eq!(server.bench.served.value(Counter::Requests), 12);
    assert_eq!(server.bench.served.value(Counter::Streams), 12);
}

#[test]
fn a_handler_in_one_file_answers_over_http2() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    server.bench.handler = Box::new(crate::handler::echo::Echo);
    let get = client.ask(Request::get("http://h/a").header("x", "y"));
    client.talk(&mut server, true);
    client.check(get, 200, b"GET /a HTTP/2.0\r\nhost: h\r\nx: y\r\n\r\n");
}

#[test]
fn nothing_is_held_between_requests() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    client.get("/large.bin");
    client.talk(&mut server, true);
    assert_eq!(size_of::<crate::connection::Connection>(), size_of::<crate::connection::Http1>());
    let machine = &mut server.machine;
    assert!(machine.streams.is_empty() && machine.free_lane() == Some(0));
    assert!(machine.protocol.output().capacity() == 0 && !machine.input.is_allocated());
}

#[test]
fn a_stream_that_waits_for_the_disk_holds_nobody_up() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    server.holds =
        |job| matches!(job, Job::Open(opening) if opening.resource.path.as_bytes() == b"medium.bin");
    let slow = client.get("/medium.bin");
    let fast = client.get("/hello.txt");
    client.talk(&mut server, true);
    client.check(fast, 200, b"hello");
    assert!(client.answers[slow].head.is_none());
    assert!(matches!(server.want, Want::Receive(_)) && server.machine.waits_for() == Wait::Disk);
    let later = client.get("/");
    client.talk(&mut server, true);
    client.check(later, 200, b"<p>home\n");
    server.release();
    client.talk(&mut server, true);
    client.check(slow, 200, &[b'm'; 20_000]);
}

#[test]
fn jobs_for_the_disk_are_limited_and_the_others_wait() {
    let root = fixture::site();
    let names: Vec<String> = (0..40).map(|index| format!("file{index}")).collect();
    names.iter().for_each(|name| fixture::write(root.path(), name, name.as_bytes()));
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    server.holds = |_| true;
    for name in &names {
        client.get(&format!("/{name}"));
    }
    client.talk(&mut server, true);
    assert_eq!(server.held.len(), JOBS_MAX);
    while !server.held.is_empty() {
        server.release();
        assert!(server.held.len() <= JOBS_MAX);
    }
    client.talk(&mut server, true);
    names.iter().enumerate().for_each(|(index, name)| client.check(index, 200, name.as_bytes()));
}

#[test]
fn a_client_that_takes_nothing_gets_no_more_than_its_window() {
    const WINDOW: u32 = 4000;
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(WINDOW));
    for _ in 0..limits::STREAMS_MAX {
        client.get("/large.bin");
    }
    client.talk(&mut server, false);
    assert!(server.unsent_bytes() <= limits::READ_AHEAD_BYTES_MAX + limits::SLICE_BYTES_MIN);
    assert_eq!(server.machine.waits_for(), Wait::Window);
    // A ping is no progress.
    server.receive(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(server.machine.waits_for(), Wait::Window);
    server.happen(Event::Expired);
    assert!(server.is_shut && server.machine.waits_for() == Wait::End);
    assert_eq!(server.bench.served.value(Counter::Timeouts), 1);
}

#[test]
fn streams_have_their_turns() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 24));
    let [first, second] = [client.get("/large.bin"), client.get("/large.bin")];
    let bytes = client.take_sent();
    server.receive(&bytes);
    let sent = std::mem::take(&mut server.sent);
    client.receive(&sent[..sent.len() / 2], true);
    let [first, second] = [first, second].map(|index| client.answers[index].bytes.len());
    assert!(first.abs_diff(second) <= limits::OUTPUT_BYTES_MAX, "{first} and {second}");
}

/// RFC 9218: the most urgent first, then in the order of requests, unless the client wants parts of several.
#[test]
fn the_urgent_goes_first() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 24));
    let mut ask =
        |priority: &str| client.ask(Request::get("http://h/large.bin").header("priority", priority));
    let asked = ["u=5", "u=3", "u=3", "u=1, i", "u=1, i"].map(&mut ask);
    let bytes = client.take_sent();
    server.receive(&bytes);
    let sent = std::mem::take(&mut server.sent);
    let mut shares = Vec::new();
    for part in sent.chunks(sent.len() / 5 + 1) {
        client.receive(part, true);
        shares.push(asked.map(|index| client.answers[index].bytes.len()));
    }
    let length = fixture::large().len();
    assert_eq!(shares[0][..3], [0; 3], "the urgent two first: {shares:?}");
    assert!(shares[0][3].abs_diff(shares[0][4]) <= limits::OUTPUT_BYTES_MAX, "in turns: {shares:?}");
    assert!(shares[2][1] > length / 2 && shares[2][2] < length / 10, "then one after the other: {shares:?}");
    assert!(shares[3][0] < length / 10, "the least urgent last: {shares:?}");
    assert_eq!(shares[4], [length; 5]);
}

#[test]
fn the_stop_is_announced_and_what_was_begun_is_finished() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    server.holds =
        |job| matches!(job, Job::Open(opening) if opening.resource.path.as_bytes() == b"medium.bin");
    let slow = client.get("/medium.bin");
    client.talk(&mut server, true);
    server.bench.is_draining = true;
    server.happen(Event::NothingReceived);
    client.talk(&mut server, true);
    assert!(!server.is_shut);
    server.release();
    client.talk(&mut server, true);
    client.check(slow, 200, &[b'm'; 20_000]);
    assert!(server.is_shut && server.machine.waits_for() == Wait::End);
    let mut nobody = task::Context::from_waker(Waker::noop());
    assert!(matches!(client.sender.poll_ready(&mut nobody), Poll::Ready(Err(_))), "no more requests");
}

#[test]
fn enough_requests_are_enough() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    server.bench.limits.requests_per_connection = Some(3);
    for _ in 0..3 {
        let hello = client.get("/hello.txt");
        client.talk(&mut server, true);
        client.check(hello, 200, b"hello");
    }
    assert!(server.is_shut);
    assert_eq!(server.bench.served.value(Counter::LimitRequestsPerConnection), 1);
}

#[test]
fn who_cancels_whatever_it_asks_for_is_sent_away() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    server.holds = |_| true;
    client.talk(&mut server, true);
    let mut count = 0;
    while !server.is_shut {
        client.get("/hello.txt");
        client.talk(&mut server, true);
        client.answers.clear();
        client.talk(&mut server, true);
        count += 1;
        assert!(count <= CANCELLED_MAX + 1);
    }
    assert!(count > CANCELLED_MAX / 2, "{count}: a browser may cancel as much");
    assert!(server.held.len() <= JOBS_MAX, "what is cancelled makes no more work");
    assert_eq!(server.bench.served.value(Counter::StreamsCancelled), u64::from(count));
}

#[test]
fn a_file_cut_short_resets_its_stream_alone() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(100_000));
    let cut = client.get("/large.bin");
    client.talk(&mut server, false);
    fixture::write(root.path(), "large.bin", &fixture::large()[..200_000]);
    client.receive(&[], true);
    client.talk(&mut server, true);
    assert_eq!(client.answers[cut].outcome, Some(Err(Code::INTERNAL_ERROR)));
    let other = client.get("/hello.txt");
    client.talk(&mut server, true);
    client.check(other, 200, b"hello");
    assert_eq!(server.bench.served.value(Counter::StreamsFailed), 1);
}

#[test]
fn incomplete_requests_time_out() {
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    client.get("/hello.txt");
    let bytes = client.take_sent();
    server.receive(&bytes[..bytes.len() - 1]);
    assert_eq!(server.machine.waits_for(), Wait::Head(0));
    server.happen(Event::Expired);
    assert!(server.is_shut && server.machine.waits_for() == Wait::End);
    server.sent.clear();
    server.bench.is_draining = true;
    server.happen(Event::NothingReceived);
    assert!(server.sent.is_empty() && server.machine.waits_for() == Wait::End, "all is said");
    server.happen(Event::Expired);
    assert!(matches!(server.want, Want::Close(Reason::Finished)));
}

#[test]
fn a_ping_buys_no_time() {
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingpong";
    let root = fixture::site();
    let (mut server, mut client) = (Server::new(root.path()), Client::new(1 << 20));
    client.get("/hello.txt");
    client.talk(&mut server, true);
    for first_bytes in [0, 5, 12] {
        let (first, rest) = PING.split_at(first_bytes);
        if !first.is_empty() {
            server.receive(first);
        }
        assert_eq!(server.machine.waits_for(), Wait::Quiet(1));
        let mut buffer = server.bench.pool.take_buffer();
        buffer.space().extend_from_slice(rest);
        let Want::Send(answer) = server.handle(Event::Received(buffer)) else { panic!("it is answered") };
        assert_eq!(server.machine.waits_for(), Wait::Quiet(1));
        server.happen(Event::Sent(answer));
        assert_eq!(server.machine.waits_for(), Wait::Quiet(1));
    }
    let mut buffer = server.bench.pool.take_buffer();
    buffer.space().extend_from_slice(PING);
    assert!(matches!(server.handle(Event::Received(buffer)), Want::Send(_)));
    assert!(matches!(server.handle(Event::Expired), Want::Close(Reason::TimedOut)), "it does not read");
}

/// A server whose handler takes so much of each body.
fn body_echo(root: &std::path::Path, taken_bytes_max: usize) -> Server {
    let mut server = Server::new(root);
    server.bench.handler = Box::new(BodyEcho::new(taken_bytes_max));
    server
}

#[test]
fn bodies_are_passed_on() {
    let root = fixture::site();
    let (mut server, mut client) = (body_echo(root.path(), usize::MAX), Uploader::default());
    for length in [0, 5, 200_000] {
        let body = vec![b'x'; length];
        let stream = client.begin("POST", "");
        client.send_all(stream, &body, &mut server);
        assert!(
            client.answers[&stream].is_whole(200, &body),
            "{length}: {:?}",
            client.answers[&stream].statuses
        );
    }
}

/// RFC 9110, 10.1.1.
#[test]
fn a_body_that_waits_to_be_asked_for_is_asked_for_once() {
    let root = fixture::site();
    let (mut server, mut client) = (body_echo(root.path(), usize::MAX), Uploader::default());
    let stream = client.begin("POST", "Expect: 100-continue\r\nContent-Length: 5\r\n");
    client.talk(&mut server);
    assert_eq!(client.answers[&stream].statuses, [100]);
    client.send(stream, b"he", false);
    client.talk(&mut server);
    client.send(stream, b"llo", true);
    client.talk(&mut server);
    assert_eq!(client.answers[&stream].statuses, [100, 200]);
    assert_eq!(client.answers[&stream].body, b"hello");
    let hasty = client.begin("POST", "Expect: 100-continue\r\nContent-Length: 5\r\n");
    client.send(hasty, b"he", false);
    client.talk(&mut server);
    client.send(hasty, b"llo", true);
    client.talk(&mut server);
    assert_eq!(client.answers[&hasty].statuses, [200]);
}

/// Otherwise the other streams could never send again.
#[test]
fn a_body_that_nobody_will_read_leaves_its_place_in_the_window() {
    let root = fixture::site();
    let (mut server, mut client) = (body_echo(root.path(), 0), Uploader::default());
    for _ in 0..3 {
        let stream = client.begin("POST", "");
        client.send_all(stream, &vec![b'x'; 1_000_000], &mut server);
        assert_eq!((client.protocol.room(stream), server.machine.waits_for()), (0, Wait::Answer));
        client.protocol.reset(stream, ErrorCode::CANCEL);
        client.talk(&mut server);
        assert_eq!(client.protocol.connection_window(), protocol::WINDOW_BYTES as usize);
    }
}

#[test]
fn a_body_that_stops_arriving_is_answered_408() {
    let root = fixture::site();
    let check = |mut server: Server, method: &str, length: usize, expected: Wait| {
        let mut client = Uploader::default();
        let stream = client.begin(method, "");
        client.send_part(stream, &vec![b'x'; length], &mut server);
        assert_eq!(server.machine.waits_for(), expected, "{method} {length}");
        server.happen(Event::Expired);
        client.talk(&mut server);
        let answer = &client.answers[&stream];
        assert_eq!((&answer.statuses[..], answer.body.is_empty()), (&[408][..], method == "HEAD"));
        assert_eq!((answer.reset, client.is_left), (Some(ErrorCode::NO_ERROR), true));
        assert!(server.is_shut && server.machine.waits_for() == Wait::End);
        assert_eq!(server.bench.served.value(Counter::Timeouts), 1);
    };
    for method in ["POST", "HEAD"] {
        for length in [0, 5] {
            check(Server::new(root.path()), method, length, Wait::Head(1));
        }
        let echo = || body_echo(root.path(), usize::MAX);
        check(echo(), method, 0, Wait::Head(1));
        // As long as more arrives, it may take its time.
        check(echo(), method, 5, Wait::Upload);
        check(echo(), method, 100_000, Wait::Upload);
    }
}

#[test]
fn what_is_no_http2_ends_the_connection() {
    let root = fixture::site();
    let mut server = Server::new(root.path());
    server.receive(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    assert!(server.is_shut);
}

/// DATA and end of each stream, and the number of heads; the frames may be cut differently.
fn content(mut frames: &[u8]) -> (Vec<(u32, Vec<u8>, bool)>, usize) {
    let (mut streams, mut heads) = (Vec::<(u32, Vec<u8>, bool)>::new(), 0);
    while let Some((head, rest)) = frames.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
        match head[3] {
            0 => {
                let place = streams.iter().position(|(id, ..)| *id == stream).unwrap_or_else(|| {
                    streams.push((stream, Vec::new(), false));
                    streams.len() - 1
                });
                streams[place].1.extend_from_slice(&rest[..length]);
                streams[place].2 |= head[4] & 1 == 1;
            }
            1 => heads += 1,
            _ => {}
        }
        frames = &rest[length..];
    }
    assert!(frames.is_empty(), "whole frames");
    streams.sort();
    (streams, heads)
}

#[test]
fn cut_anywhere_it_is_the_same() {
    let root = fixture::site();
    let mut client = Client::new(1 << 20);
    client.get("/hello.txt");
    client.get("/medium.bin");
    client.ask(Request::get("http://h/missing").header("x-filler", "x".repeat(300)));
    client.ask(Request::head("http://h/"));
    let bytes = client.take_sent();
    let play = |pieces: &[&[u8]]| {
        let mut server = Server::new(root.path());
        pieces.iter().filter(|piece| !piece.is_empty()).for_each(|piece| server.receive(piece));
        content(&server.sent)
    };
    let whole = play(&[&bytes]);
    assert_eq!((whole.0.len(), whole.1), (3, 4));
    for cut in 1..bytes.len() {
        assert!(play(&[&bytes[..cut], &bytes[cut..]]) == whole, "cut at {cut}");
    }
    assert!(play(&bytes.chunks(1).collect::<Vec<_>>()) == whole, "byte by byte");
}

/// A typical conversation of a browser: requests, resets, window updates, a ping.
fn conversation() -> Vec<u8> {
    let mut client = Client::new(1 << 20);
    for path in ["/hello.txt", "/medium.bin", "/missing", "/", "/large.bin"] {
        client.get(path);
    }
    let mut bytes = client.take_sent();
    client.answers.truncate(3);
    bytes.extend(client.take_sent());
    bytes.extend(b"\0\0\x04\x08\0\0\0\0\x01\0\0\x10\0\0\0\x08\x06\0\0\0\0\x0012345678");
    bytes
}

/// Bytes are changed, omitted and repeated: the connection ends or continues, within its limits.
#[test]
fn whatever_comes() {
    let root = fixture::site();
    let said = conversation();
    let preface = PREFACE.len();
    let changes = vec((preface..said.len(), any::<u8>()), 0..6);
    let cases = (changes, 1..said.len(), preface..said.len(), 1_usize..400, any::<bool>());
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&cases, |(changes, end, repeated_from, piece_bytes, holds)| {
        let mut bytes = said.clone();
        for (place, value) in changes {
            bytes[place] = value;
        }
        let repeated = bytes[repeated_from..].to_vec();
        bytes.truncate(end);
        bytes.extend(repeated);
        let mut server = Server::new(root.path());
        if holds {
            server.holds = |_| true;
        }
        for piece in bytes.chunks(piece_bytes) {
            if matches!(server.want, Want::Receive(_)) {
                server.receive(piece);
            }
            assert!(server.machine.streams.len() <= limits::STREAMS_MAX && server.held.len() <= JOBS_MAX);
        }
        while !server.held.is_empty() {
            server.release();
        }
        server.happen(Event::Expired);
        assert!(server.is_shut || matches!(server.want, Want::Close(_)));
        Ok(())
    });
    outcome.unwrap();
}

/// Windows of streams are no reason to read more than the connection's allows.
#[test]
fn what_the_connection_does_not_allow_is_not_read() {
    let root = fixture::site();
    let limits = protocol::Limits { stream_window: 1 << 24, ..limits::of_protocol() };
    let mut client = Connection::client(limits);
    for _ in 0..limits::STREAMS_MAX {
        client.send_request(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n", "http").unwrap();
    }
    let mut server = Server::new(root.path());
    server.holds = |job| matches!(job, Job::Load(_));
    server.receive(&client.take_output());
    let limit = limits::READ_AHEAD_BYTES_MAX + protocol::WINDOW_BYTES as usize;
    while !server.held.is_empty() {
        assert!(server.unsent_bytes() <= limit, "{}", server.unsent_bytes());
        server.release();
    }
    assert!(server.unsent_bytes() <= limit && server.machine.waits_for() == Wait::Window);
}

/// Whatever the windows, the priorities and the delays of the disk: every answer is whole.
#[test]
fn whole_answers_in_any_windows() {
    let root = fixture::site();
    let some: Vec<u8> = (0..150_000_u32).map(|index| (index / 3 % 251) as u8).collect();
    fixture::write(root.path(), "some.bin", &some);
    let bodies: [(&str, &[u8]); 4] =
        [("/hello.txt", b"hello"), ("/some.bin", &some), ("/medium.bin", &[b'm'; 20_000]), ("/empty", b"")];
    let priorities =
        ["", "Priority: u=0\r\n", "Priority: u=1, i\r\n", "Priority: u=7\r\n", "Priority: i\r\n"];
    let cases = (
        vec((0..bodies.len(), 0..priorities.len()), 1..12),
        500_u32..200_000,
        1_usize..100_000,
        any::<bool>(),
    );
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&cases, |(requests, stream_window, piece_bytes, holds)| {
        let limits = protocol::Limits { stream_window, ..limits::of_protocol() };
        let mut client = Connection::client(protocol::Limits { output_bytes_max: usize::MAX, ..limits });
        let mut server = Server::new(root.path());
        if holds {
            server.holds = |_| true;
        }
        let mut answers = BTreeMap::new();
        for (body, priority) in requests {
            let (path, body) = bodies[body];
            let text = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{}\r\n", priorities[priority]);
            let (stream, _) = client.send_request(text.as_bytes(), "http").unwrap();
            answers.insert(stream, (body, Vec::new(), false));
        }
        while answers.values().any(|(.., is_whole)| !is_whole) {
            let said = client.take_output();
            if !said.is_empty() {
                server.receive(&said);
            } else if !server.held.is_empty() {
                server.release();
            }
            let sent = std::mem::take(&mut server.sent);
            assert!(!said.is_empty() || !sent.is_empty() || !server.held.is_empty(), "stuck");
            for mut piece in sent.chunks(piece_bytes) {
                while let Some(event) = client.next(&mut piece) {
                    let (stream, bytes, is_end) = match event {
                        Http2Event::Head { stream, is_end } => (stream, &b""[..], is_end),
                        Http2Event::Data { stream, bytes, is_end } => (stream, bytes, is_end),
                        other => panic!("{other:?}"),
                    };
                    client.release(stream, bytes.len());
                    let (_, received, is_whole) = answers.get_mut(&stream).unwrap();
                    received.extend_from_slice(bytes);
                    *is_whole |= is_end;
                }
            }
        }
        assert!(answers.values().all(|(body, received, _)| received == body));
        assert!(server.machine.streams.is_empty() && matches!(server.want, Want::Receive(_)));
        Ok(())
    });
    outcome.unwrap();
}
