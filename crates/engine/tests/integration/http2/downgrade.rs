//! Requests that come by HTTP/2 and go on by HTTP/1: what would end a line or a body there reaches no upstream.

use std::sync::{Arc, Mutex};

use sojourn_testing::upstream::Upstream;

use super::probe::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Outcome, PREFACE, SETTINGS, answered, connect, fields, frame,
    outcome,
};
use crate::proxy::proxy;

/// What ends a body in chunks, and a request that would follow it.
const INSIDE: &[u8] = b"0\r\n\r\nGET /inside HTTP/1.1\r\nHost: h\r\n\r\n";

const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "h")];

type Fields = Vec<(String, String)>;

fn post(more: &[(&str, &str)]) -> Fields {
    POST.iter().chain(more).map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

/// Requests of which nothing may arrive.
fn refused() -> Vec<Fields> {
    let mut cases = Vec::new();
    for end in ["\r\n", "\n", "\r", "\0"] {
        for (place, value) in [
            (0, format!("POST /inside HTTP/1.1{end}x: y")),
            (1, format!("http{end}x: y")),
            (2, format!("/a HTTP/1.1{end}x: y{end}{end}GET /inside")),
            (3, format!("h{end}x: y")),
        ] {
            let mut fields = post(&[]);
            fields[place].1 = value;
            cases.push(fields);
        }
        cases.push(post(&[("x", &format!("a{end}transfer-encoding: chunked"))]));
        cases.push(post(&[("x", &format!("a{end}{end}GET /inside HTTP/1.1"))]));
        cases.push(post(&[("x", &format!("{end}a"))]));
        cases.push(post(&[(&format!("x: a{end}y"), "b")]));
        cases.push(post(&[(&format!("x{end}"), "b")]));
        cases.push(post(&[("cookie", &format!("a=b{end}x: y"))]));
        cases.push(post(&[("content-length", &format!("38{end}x: y"))]));
    }
    for coding in ["chunked", "Chunked", " chunked", "chunked ", "identity", "gzip, chunked", ""] {
        cases.push(post(&[("transfer-encoding", coding)]));
        cases.push(post(&[("transfer-encoding", coding), ("content-length", "38")]));
    }
    for name in ["Transfer-Encoding", "transfer-encoding ", " transfer-encoding", "transfer-encoding:"] {
        cases.push(post(&[(name, "chunked")]));
    }
    for length in ["0", "1", "39", "+38", "-1", "38,38", "0x26", " 38", "38 ", "", "99999999999999999999"] {
        cases.push(post(&[("content-length", length)]));
    }
    cases.push(post(&[("content-length", "0"), ("content-length", "38")]));
    for (name, value) in [
        ("connection", "close"),
        ("connection", "content-length"),
        ("keep-alive", "5"),
        ("proxy-connection", "close"),
        ("upgrade", "h2c"),
        ("te", "chunked"),
        ("host", "other"),
        (":path", "/inside"),
        (":authority", "other"),
        (":protocol", "websocket"),
    ] {
        cases.push(post(&[(name, value)]));
    }
    cases
}

fn request(of: &Fields) -> Vec<u8> {
    let list: Vec<(&str, &str)> = of.iter().map(|(name, value)| (&**name, &**value)).collect();
    let head = frame(HEADERS, END_HEADERS, 1, &fields(&list));
    [PREFACE, &frame(SETTINGS, 0, 0, b""), &head, &frame(DATA, END_STREAM, 1, INSIDE)].concat()
}

#[test]
fn what_would_end_a_line_or_a_body_of_http1_is_not_passed_on() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&bodies);
    let upstream = Upstream::start(move |peer| {
        while let Some(head) = peer.head() {
            assert!(head.contains("\r\nContent-Length: 38\r\n"), "{head}");
            let body = peer.take(INSIDE.len()).unwrap_or_default();
            theirs.lock().unwrap().push(body);
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let server = proxy("amped", &[upstream.address], &[]);
    for fields in refused() {
        let got = outcome(&mut connect(&server), &request(&fields), 1);
        let is_refused = matches!(got, Outcome::Stream(1, _) | Outcome::Connection(_))
            || got == Outcome::Answered(vec![(1, 400)]);
        assert!(is_refused, "{:?}: {got:?}", &fields[..]);
    }
    assert_eq!(upstream.heads(), Vec::<String>::new());
    // The same body arrives in one framing, whether the client states its length or not.
    for fields in [post(&[("content-length", "38")]), post(&[])] {
        assert_eq!(outcome(&mut connect(&server), &request(&fields), 1), answered(&[1]));
        let head = upstream.heads().pop().unwrap();
        assert!(head.starts_with("POST /a HTTP/1.1\r\n") && !head.contains("Transfer-Encoding"), "{head}");
    }
    assert_eq!(bodies.lock().unwrap()[..], [INSIDE, INSIDE]);
}
