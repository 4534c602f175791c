//! Both sides against each other, single frames, and whatever else may come.

use proptest::collection::vec;
use proptest::prelude::*;

use super::frame::{FrameHead, append};
use super::*;
use crate::request::{Parsed, Parser};

const LIMITS: Limits = Limits {
    streams_max: 10,
    field_bytes_max: 1000,
    block_bytes_max: 4000,
    continuations_max: 4,
    stream_window: 70_000,
    connection_window: 100_000,
    output_bytes_max: 1 << 16,
};

/// What a side was told, without borrowed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Begun,
    Head(u32, String, bool),
    TooLarge(u32),
    Data(u32, Vec<u8>, bool),
    Reset(u32, ErrorCode),
    Rejected(u32, ErrorCode),
    Leaving(u32, ErrorCode),
}

/// Lets `side` read `bytes`; what it receives of bodies is consumed at once.
fn hear(side: &mut Connection, mut bytes: &[u8]) -> Vec<Told> {
    let mut told = Vec::new();
    while let Some(event) = side.next(&mut bytes) {
        let (told_now, consumed) = match event {
            Event::Begun => (Told::Begun, None),
            Event::Head { stream, is_end } => {
                check_outline(side.head());
                (Told::Head(stream, String::from_utf8(side.head().text().to_vec()).unwrap(), is_end), None)
            }
            Event::TooLarge { stream } => (Told::TooLarge(stream), None),
            Event::Data { stream, bytes, is_end } => {
                (Told::Data(stream, bytes.to_vec(), is_end), Some((stream, bytes.len())))
            }
            Event::Reset { stream, code } => (Told::Reset(stream, code), None),
            Event::Rejected { stream, code, .. } => (Told::Rejected(stream, code), None),
            Event::Leaving { last, code } => (Told::Leaving(last, code), None),
        };
        if let Some((stream, count)) = consumed {
            side.release(stream, count);
        }
        told.push(told_now);
    }
    told
}

/// What is not parsed must be what the parser would find.
fn check_outline(head: &Section) {
    let text = [head.text(), b"\r\n"].concat();
    if let Some(outline) = head.outline() {
        let parsed = Parser::of_stream().parse(&text);
        assert_eq!(parsed, Ok(Parsed::Complete(outline.over(&text))), "{}", text.escape_ascii());
    }
}

/// The frames in `bytes`, all of them whole.
fn frames(mut bytes: &[u8]) -> Vec<(FrameHead, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = FrameHead::read(*head);
        let (payload, rest) = rest.split_at(head.length);
        frames.push((head, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "whole frames");
    frames
}

struct Pair {
    client: Connection,
    server: Connection,
}

impl Pair {
    fn new() -> Pair {
        let mut pair = Pair { client: Connection::client(LIMITS), server: Connection::server(LIMITS) };
        assert_eq!(pair.talk(), (vec![], vec![Told::Begun]));
        pair
    }

    /// Exchanges bytes until neither side has any: what the client was told, and what the server was told.
    fn talk(&mut self) -> (Vec<Told>, Vec<Told>) {
        let (mut client, mut server) = (Vec::new(), Vec::new());
        loop {
            let (up, down) = (self.client.take_output(), self.server.take_output());
            if up.is_empty() && down.is_empty() {
                return (client, server);
            }
            server.extend(hear(&mut self.server, &up));
            client.extend(hear(&mut self.client, &down));
        }
    }

    fn get(&mut self, path: &str) -> u32 {
        let text = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        self.client.send_request(text.as_bytes(), "http").unwrap().0
    }
}

fn send(side: &mut Connection, stream: u32, bytes: &[u8], is_end: bool) {
    let head = side.data_head(stream, bytes.len(), is_end);
    side.output().extend_from_slice(&head);
    side.output().extend_from_slice(bytes);
}

/// Sends a head that was not sent before.
fn respond(server: &mut Connection, stream: u32, text: &[u8], is_bodiless: bool) -> Option<SentHead> {
    server.send_response(stream, text, is_bodiless, &mut HeadCache::default())
}

#[test]
fn heads_that_come_again_mean_the_same_over_every_connection() {
    let mut heads = HeadCache::default();
    for _ in 0..2 {
        let mut pair = Pair::new();
        for date in 0..4 {
            let stream = pair.get("/");
            pair.talk();
            let text = format!(
                "HTTP/1.1 200 OK\r\nServer: s\r\nDate: {date}\r\nContent-Length: 5\r\nContent-Type: t\r\n\
                 Connection: close\r\nETag: \"x\"  \r\n\r\n"
            );
            let sent = pair.server.send_response(stream, text.as_bytes(), true, &mut heads).unwrap();
            assert_eq!((sent.content_length, sent.text_bytes), (Some(5), text.len()));
            pair.server.finish(stream);
            let received = format!(
                "HTTP/1.1 200\r\nserver: s\r\ndate: {date}\r\ncontent-length: 5\r\ncontent-type: t\r\n\
                 etag: \"x\"\r\n"
            );
            assert_eq!(pair.talk().0, [Told::Head(stream, received, true)]);
        }
    }
}

/// Fields that fill the table push others out of it, and what was the same block then means something else.
fn check_repeated(choices: &[u8]) {
    let (mut heads, mut pair) = (HeadCache::default(), Pair::new());
    for choice in choices {
        let (choice, value) = (choice % 16, "v".repeat(440));
        let stream = pair.get(&format!("/{}", choice % 4));
        let request = Told::Head(stream, format!("GET /{} HTTP/2.0\r\nhost: h\r\n", choice % 4), true);
        assert_eq!(pair.talk().1, [request]);
        let fields = format!("server: s\r\ndate: {}\r\nx: {choice}{value}\r\n", choice / 4);
        let text = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
        pair.server.send_response(stream, text.as_bytes(), false, &mut heads).unwrap();
        pair.server.finish(stream);
        let response = format!("HTTP/1.1 200\r\n{fields}content-length: 0\r\n");
        assert_eq!(pair.talk().0, [Told::Head(stream, response, true)]);
        pair.client.finish(stream);
    }
}

#[test]
fn blocks_that_come_again_mean_the_same_only_while_the_table_does() {
    let mut server = Connection::server(LIMITS);
    let mut client = Connection::client(LIMITS);
    hear(&mut server, &client.take_output());
    let block = |fields: &[u8], stream: u32| {
        let mut frame = Vec::new();
        append(&mut frame, frame::HEADERS, frame::END_STREAM | frame::END_HEADERS, stream, fields);
        frame
    };
    let mut ask = |fields: &[u8], stream: u32| match &hear(&mut server, &block(fields, stream))[..] {
        [Told::Head(_, text, true)] => text.replace("\r\n", " ").trim_end().to_owned(),
        other => panic!("{other:?}"),
    };
    // The host and x come into the table.
    let start = b"\x82\x86\x84\x41\x01h\x40\x01x\x01a";
    assert_eq!(ask(start, 1), "GET / HTTP/2.0 host: h x: a");
    let again = b"\x82\x86\x84\xbf\xbe";
    for stream in [3, 5] {
        assert_eq!(ask(again, stream), "GET / HTTP/2.0 host: h x: a");
    }
    let other = [again.as_slice(), b"\x40\x01y\x01b"].concat();
    assert_eq!(ask(&other, 7), "GET / HTTP/2.0 host: h x: a y: b");
    // The same indices are now those of x and y.
    assert_eq!(ask(again, 9), "GET / HTTP/2.0 x: a y: b");
    assert_eq!(ask(again, 11), "GET / HTTP/2.0 x: a y: b");
    // What is not valid is not valid again.
    let mut refused =
        |stream| matches!(&hear(&mut server, &block(b"\x82\x86", stream))[..], [Told::Rejected(..)]);
    assert!(refused(13) && refused(15));
}

#[test]
fn requests_and_responses() {
    let mut pair = Pair::new();
    let (first, second) = (pair.get("/a"), pair.get("/b"));
    assert_eq!((first, second), (1, 3));
    let head = |path: &str| format!("GET {path} HTTP/2.0\r\nhost: h\r\n");
    let (_, server) = pair.talk();
    assert_eq!(server, [Told::Head(1, head("/a"), true), Told::Head(3, head("/b"), true)]);
    let interim =
        respond(&mut pair.server, 3, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", false).unwrap();
    assert!(interim.is_interim() && !interim.is_end);
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\nX: y\r\n\r\nhello";
    let sent = respond(&mut pair.server, 3, text, false).unwrap();
    assert_eq!((sent.status, sent.content_length, sent.is_end), (200, Some(5), false));
    assert_eq!(&text[sent.text_bytes..], b"hello");
    send(&mut pair.server, 3, b"hello", true);
    pair.server.finish(3);
    let nothing = respond(&mut pair.server, 1, b"HTTP/1.1 304 Not Modified\r\n\r\n", false).unwrap();
    assert!(nothing.is_end);
    pair.server.finish(1);
    let (client, server) = pair.talk();
    assert_eq!(
        client,
        [
            Told::Head(3, "HTTP/1.1 103\r\nlink: x\r\n".into(), false),
            Told::Head(3, "HTTP/1.1 200\r\ncontent-length: 5\r\nx: y\r\n".into(), false),
            Told::Data(3, b"hello".to_vec(), true),
            Told::Head(1, "HTTP/1.1 304\r\n".into(), true),
        ]
    );
    assert!(server.is_empty() && pair.server.stream_count() == 0);
    pair.client.finish(1);
    pair.client.finish(3);
    assert_eq!((pair.client.take_output().len(), pair.client.stream_count()), (0, 0));
}

#[test]
fn bodies_stay_within_windows_that_grow_as_they_are_consumed() {
    let mut pair = Pair::new();
    let text = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\nx";
    let (stream, head_bytes) = pair.client.send_request(text, "https").unwrap();
    assert_eq!(&text[head_bytes..], b"x");
    let (mut left, mut received) = (300_000, 0);
    while left > 0 {
        let count = pair.client.room(stream).min(pair.client.frame_bytes_max()).min(left);
        assert!(count > 0, "{left} left");
        left -= count;
        send(&mut pair.client, stream, &vec![b'b'; count], left == 0);
        for told in pair.talk().1 {
            match told {
                Told::Head(1, _, false) => {
                    assert_eq!(pair.server.head().content_length(), Some(300_000));
                }
                Told::Data(1, bytes, is_end) => {
                    received += bytes.len();
                    assert_eq!(is_end, received == 300_000);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(received, 300_000);
}

#[test]
fn more_than_a_window_is_an_error() {
    let mut pair = Pair::new();
    pair.client.send_request(b"POST / HTTP/1.1\r\nHost: h\r\n\r\nx", "http").unwrap();
    pair.talk();
    let mut bytes = Vec::new();
    for _ in 0..5 {
        append(&mut bytes, frame::DATA, 0, 1, &[0; FRAME_BYTES_MAX]);
    }
    let mut input = &bytes[..];
    // Nothing is consumed.
    let mut events = std::iter::from_fn(|| pair.server.next(&mut input)).skip(4);
    let code = ErrorCode::FLOW_CONTROL_ERROR;
    assert_eq!(events.next(), Some(Event::Rejected { stream: 1, code, is_new: false }));
}

#[test]
fn a_graceful_end_serves_what_is_on_its_way() {
    let mut pair = Pair::new();
    pair.get("/a");
    pair.talk();
    pair.server.leave();
    pair.get("/b");
    let (client, server) = pair.talk();
    assert_eq!(
        client,
        [Told::Leaving(WINDOW_BYTES_MAX, ErrorCode::NO_ERROR), Told::Leaving(3, ErrorCode::NO_ERROR)]
    );
    assert_eq!(server.len(), 1);
    pair.get("/late");
    assert_eq!(pair.talk().1, []);
    assert!(!pair.server.is_over());
    for stream in [1, 3] {
        respond(&mut pair.server, stream, b"HTTP/1.1 204 No Content\r\n\r\n", false).unwrap();
        pair.server.finish(stream);
    }
    assert!(pair.server.is_over());
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let mut pair = Pair::new();
    let streams: Vec<u32> = (0..11).map(|_| pair.get("/")).collect();
    assert_eq!(pair.client.stream_room(), 0);
    let (client, server) = pair.talk();
    let refused = streams[10];
    assert_eq!(client, [Told::Reset(refused, ErrorCode::REFUSED_STREAM)]);
    assert_eq!(server.last(), Some(&Told::Rejected(refused, ErrorCode::REFUSED_STREAM)));
}

#[test]
fn heads_are_limited_and_long_ones_cut_into_frames() {
    let mut pair = Pair::new();
    let stream = pair.get(&format!("/{}", "x".repeat(990)));
    assert_eq!(pair.talk().1, [Told::TooLarge(stream)]);
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "\x7e".repeat(40_000));
    respond(&mut pair.server, stream, long.as_bytes(), true).unwrap();
    let kinds: Vec<_> =
        frames(&pair.server.take_output()).iter().map(|(head, _)| (head.kind, head.flags)).collect();
    assert_eq!(
        kinds,
        [
            (frame::HEADERS, frame::END_STREAM),
            (frame::CONTINUATION, 0),
            (frame::CONTINUATION, frame::END_HEADERS)
        ]
    );
}

#[test]
fn what_http2_lacks_is_not_sent() {
    let mut pair = Pair::new();
    let stream = pair.get("/");
    pair.talk();
    for bad in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n",
        "HTTP/2 200\r\n\r\n",
    ] {
        assert_eq!(respond(&mut pair.server, stream, bad.as_bytes(), false), None, "{bad:?}");
    }
    for bad in [
        "",
        "GET / HTTP/1.1\r\n\r\n",
        "GET /\r\nHost: a\r\n",
        "GET / x\r\nHost: a\r\nbad\r\n\r\n",
        "G T\r\nHost: a\r\n\r\n",
    ] {
        assert_eq!(pair.client.send_request(bad.as_bytes(), "http"), None, "{bad:?}");
    }
    assert_eq!((pair.server.take_output().len(), pair.client.take_output().len()), (0, 0));
}

#[test]
fn priorities_are_those_of_the_field_and_then_of_updates() {
    let mut pair = Pair::new();
    let text = b"GET / HTTP/1.1\r\nHost: h\r\nPriority: u=1, i\r\n\r\n";
    let (stream, _) = pair.client.send_request(text, "http").unwrap();
    let other = pair.get("/");
    pair.talk();
    assert_eq!(pair.server.priority(stream), Some(Priority { urgency: 1, is_incremental: true }));
    assert_eq!(pair.server.priority(other), None);
    append(pair.client.output(), frame::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x03u=6");
    pair.talk();
    assert_eq!(pair.server.priority(other), Some(Priority { urgency: 6, is_incremental: false }));
}

#[test]
fn padding_counts_for_windows_and_for_nothing_else() {
    let mut pair = Pair::new();
    pair.client.send_request(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nx", "http").unwrap();
    append(pair.client.output(), frame::DATA, frame::PADDED, 1, b"\x03a\0\0\0");
    append(pair.client.output(), frame::DATA, frame::PADDED | frame::END_STREAM, 1, b"\0b");
    let (_, server) = pair.talk();
    assert_eq!(server[1..], [Told::Data(1, b"a".to_vec(), false), Told::Data(1, b"b".to_vec(), true)]);
}

#[test]
fn in_a_head_until_the_end_of_its_block() {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let headers = [0, 0, 2, frame::HEADERS, 1, 0, 0, 0, 1, 0x82, 0x84];
    let continuation = [0, 0, 1, frame::CONTINUATION, frame::END_HEADERS, 0, 0, 0, 1, 0x86];
    let all = [PREFACE, &settings, &headers, &continuation].concat();
    let block = PREFACE.len() + settings.len() + frame::HEAD_BYTES..all.len();
    let mut server = Connection::server(LIMITS);
    assert!(!server.is_in_head() && !server.is_begun());
    let mut told = Vec::new();
    for (index, byte) in all.iter().enumerate() {
        told.extend(hear(&mut server, &[*byte]));
        let read = index + 1;
        assert_eq!(server.is_in_head(), read < PREFACE.len() || block.contains(&read), "after {read}");
    }
    let mut at_once = Connection::server(LIMITS);
    assert_eq!(hear(&mut at_once, &all), told);
    assert_eq!(told, [Told::Begun, Told::Head(1, "GET / HTTP/2.0\r\n".into(), true)]);
}

#[test]
fn what_begins_no_request_is_not_in_a_head() {
    let mut pair = Pair::new();
    let text = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nx";
    let (stream, _) = pair.client.send_request(text, "http").unwrap();
    pair.talk();
    pair.server.reset(stream, ErrorCode::CANCEL);
    let mut parts = Vec::new();
    append(&mut parts, frame::PING, 0, 0, b"pingpong");
    // Trailers in two frames, on their way when the server reset the stream.
    append(&mut parts, frame::HEADERS, frame::END_STREAM, stream, b"\0\x01x");
    append(&mut parts, frame::CONTINUATION, frame::END_HEADERS, stream, b"\x01y");
    for (index, byte) in parts.iter().enumerate() {
        assert!(hear(&mut pair.server, &[*byte]).is_empty());
        assert!(!pair.server.is_in_head() && !pair.server.is_over(), "after {}", index + 1);
    }
}

/// Frames of all types, most of them nearly right.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let fields = prop_oneof![
        Just(vec![0x82, 0x86, 0x84]),
        Just(vec![0x83, 0x86, 0x84, 0x41, 1, b'h']),
        Just(vec![0x82, 0x86, 0x84, 0x0f, 13, 1, b'5']),
        Just(vec![0x40, 1, b'x', 1, b'y']),
        vec(any::<u8>(), 0..20),
    ];
    let payload = prop_oneof![
        4 => fields,
        2 => vec(any::<u8>(), 0..12),
        1 => (0_usize..20_000).prop_map(|length| vec![0; length]),
        2 => (0_u16..10, any::<u32>()).prop_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()),
        2 => any::<u32>().prop_map(|number| number.to_be_bytes().to_vec()),
    ];
    let flags = prop_oneof![Just(0_u8), Just(1), Just(4), Just(5), any::<u8>()];
    (0_u8..18, flags, 0_u32..12, payload).prop_map(|(kind, flags, stream, payload)| {
        let mut bytes = Vec::new();
        append(&mut bytes, kind, flags, stream, &payload);
        bytes
    })
}

/// The same events, with parts of a body in one.
fn joined(told: Vec<Told>) -> Vec<Told> {
    let mut joined: Vec<Told> = Vec::new();
    for told in told {
        match (joined.last_mut(), told) {
            (Some(Told::Data(last, bytes, is_end @ false)), Told::Data(stream, more, ends))
                if *last == stream =>
            {
                bytes.extend(more);
                *is_end = ends;
            }
            (_, told) => joined.push(told),
        }
    }
    joined
}

#[derive(Clone, Copy)]
struct Plan {
    is_consuming: bool,
    is_answering: bool,
}

/// Plays `bytes` in pieces to a server, and checks what it says and holds.
fn play(bytes: &[u8], piece_bytes: usize, plan: Plan) -> Result<Vec<Told>, TestCaseError> {
    let mut server = Connection::server(LIMITS);
    let (mut told, mut output) = (Vec::new(), Vec::new());
    let mut answered = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        let mut input = piece;
        while !input.is_empty() && !server.is_over() {
            let before = input.len();
            while let Some(event) = server.next(&mut input) {
                match event {
                    Event::Head { stream, is_end } => {
                        prop_assert!(server.is_live(stream));
                        let text = String::from_utf8(server.head().text().to_vec()).unwrap();
                        prop_assert!(text.ends_with("HTTP/2.0\r\n") || text.contains(" HTTP/2.0\r\n"));
                        told.push(Told::Head(stream, text, is_end));
                        answered.push(stream);
                    }
                    Event::TooLarge { stream } => answered.push(stream),
                    Event::Data { stream, bytes, is_end } => {
                        prop_assert!(server.is_live(stream));
                        told.push(Told::Data(stream, bytes.to_vec(), is_end));
                        if plan.is_consuming {
                            server.release(stream, bytes.len());
                        }
                    }
                    Event::Reset { stream, .. } | Event::Rejected { stream, .. } => {
                        prop_assert!(!server.is_live(stream));
                    }
                    Event::Begun | Event::Leaving { .. } => {}
                }
                prop_assert!(server.stream_count() <= LIMITS.streams_max as usize);
            }
            for stream in answered.drain(..).filter(|_| plan.is_answering) {
                if respond(&mut server, stream, b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", false).is_some()
                    && server.is_live(stream)
                {
                    let count = server.room(stream).min(server.frame_bytes_max()).min(100);
                    send(&mut server, stream, &vec![b'r'; count], true);
                    if stream % 4 == 1 {
                        server.finish(stream);
                    }
                }
            }
            prop_assert!(server.output().len() < LIMITS.output_bytes_max + (1 << 15));
            output.extend(server.take_output());
            server.trim();
            prop_assert!(input.len() < before || server.is_over(), "it reads on");
        }
    }
    output.extend(server.take_output());
    let goaways = frames(&output).iter().filter(|(head, _)| head.kind == frame::GOAWAY).count();
    prop_assert_eq!(goaways, usize::from(server.is_over()));
    Ok(told)
}

proptest! {
    #[test]
    fn whatever_comes(bytes in vec(any::<u8>(), 0..300), has_preface in any::<bool>()) {
        let preface: &[u8] = if has_preface { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0" } else { b"" };
        let bytes = [preface, &bytes].concat();
        play(&bytes, bytes.len().max(1), Plan { is_consuming: true, is_answering: true })?;
        let mut client = Connection::client(LIMITS);
        client.send_request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "http");
        hear(&mut client, &bytes);
    }

    #[test]
    fn whatever_is_repeated_means_the_same(choices in vec(any::<u8>(), 1..80)) {
        check_repeated(&choices);
    }

    /// However the bytes are cut, the events are the same.
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn any_schedule_of_frames(
        list in vec(any_frame(), 0..40),
        piece_bytes in 1_usize..200,
        is_consuming in any::<bool>(),
    ) {
        let begin = [PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
        let bytes = [begin, list.concat()].concat();
        play(&bytes, piece_bytes, Plan { is_consuming, is_answering: true })?;
        let plan = Plan { is_consuming, is_answering: false };
        let (whole, in_pieces) = (play(&bytes, usize::MAX, plan)?, play(&bytes, piece_bytes, plan)?);
        prop_assert_eq!(joined(whole), joined(in_pieces));
    }

    /// Two sides that follow the rules never see an error, and bodies arrive whole.
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn two_sides_agree(
        bodies in vec((1_usize..200_000, 1_usize..50_000), 1..9),
        piece_bytes in 1_usize..40_000,
    ) {
        let mut pair = Pair::new();
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for (upload, download) in &bodies {
            let text = format!("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: {upload}\r\n\r\n+");
            let (stream, _) = pair.client.send_request(text.as_bytes(), "http").unwrap();
            up.push((stream, *upload));
            down.push((stream, *download));
        }
        pair.talk();
        for (stream, _) in &down {
            respond(&mut pair.server, *stream, b"HTTP/1.1 200 OK\r\n\r\n", false).unwrap();
        }
        pair.talk();
        let mut received = 0;
        while up.iter().chain(&down).any(|(_, left)| *left > 0) {
            let mut has_moved = false;
            for (side, list) in [(&mut pair.client, &mut up), (&mut pair.server, &mut down)] {
                for (stream, left) in list.iter_mut() {
                    let count = side.room(*stream).min(side.frame_bytes_max()).min(piece_bytes).min(*left);
                    if count > 0 {
                        *left -= count;
                        has_moved = true;
                        send(side, *stream, &vec![1; count], *left == 0);
                    }
                }
            }
            prop_assert!(has_moved, "stuck");
            let (client, server) = pair.talk();
            for told in client.into_iter().chain(server) {
                let Told::Data(_, bytes, _) = told else { panic!("{told:?}") };
                received += bytes.len();
            }
        }
        prop_assert_eq!(received, bodies.iter().map(|(upload, download)| upload + download).sum::<usize>());
        for (stream, _) in down {
            pair.server.finish(stream);
            pair.client.finish(stream);
        }
        prop_assert_eq!(pair.talk(), (vec![], vec![]));
    }
}
