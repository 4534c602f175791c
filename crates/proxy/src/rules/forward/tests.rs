//! What is passed on and what is not, by RFC 9110, 7.6.

use super::super::fields::{Section, read, write};
use super::*;

const NAME: HeaderValue = HeaderValue::from_static("edge-1");
const HOST: HeaderValue = HeaderValue::from_static("example.org:8080");

fn lines(fields: &HeaderMap) -> String {
    let mut lines = Vec::new();
    write(&mut lines, fields);
    let mut lines: Vec<_> = std::str::from_utf8(&lines).unwrap().lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn forwarded(received: &str, client: &str, originator: Originator) -> String {
    let mut fields = read(received.as_bytes()).unwrap();
    let hop = Hop {
        pseudonym: &NAME,
        received: Version::HTTP_11,
        client: client.parse().unwrap(),
        scheme: "http",
        host: &HOST,
        originator,
    };
    request(&mut fields, &hop);
    lines(&fields)
}

#[test]
fn what_belongs_to_one_connection_stays_behind() {
    let received = "Host: other\r\nConnection: close, X-A, x-b,, bad name\r\nX-A: 1\r\nX-B: 2\r\nX-C: 3\r\nTE: trailers\r\n\
        Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABk\r\nTransfer-Encoding: chunked\r\nTrailer: X-D\r\nContent-Length: 5\r\n\
        Expect: 100-continue\r\nVia: 1.0 there\r\n";
    assert_eq!(
        forwarded(received, "192.0.2.1", Originator::Drop),
        "Host: example.org:8080\nVia: 1.0 there\nVia: 1.1 edge-1\nX-C: 3"
    );
}

/// A connection option must not unlock what is private, nor hide what the key is made of.
#[test]
fn what_is_for_all_stays() {
    let mut fields =
        read(b"Connection: Cache-Control, set-cookie, vary\r\nCache-Control: private\r\nSet-Cookie: a=b\r\nVary: a\r\n")
            .unwrap();
    response(&mut fields, Version::HTTP_10, &NAME, 784_111_777);
    assert_eq!(
        lines(&fields),
        "Cache-Control: private\nDate: Sun, 06 Nov 1994 08:49:37 GMT\nSet-Cookie: a=b\nVary: a\nVia: 1.0 edge-1"
    );
    response(&mut fields, Version::HTTP_11, &NAME, 9);
    assert!(lines(&fields).contains("Date: Sun, 06 Nov 1994"), "a Date that is there stays");
}

#[test]
fn who_the_client_is() {
    let received = "Forwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\nX_Forwarded_Host: evil\r\nX-Real-IP: 1.1.1.1\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Prefix: /evil\r\n";
    assert_eq!(
        forwarded(received, "192.0.2.1", Originator::Overwrite),
        "Forwarded: for=192.0.2.1;proto=http;host=\"example.org:8080\"\nHost: example.org:8080\nVia: 1.1 edge-1\n\
         X-Forwarded-For: 192.0.2.1\nX-Forwarded-Host: example.org:8080\nX-Forwarded-Proto: http"
    );
    let appended =
        forwarded("X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\n", "::1", Originator::Append);
    assert_eq!(
        appended,
        "Forwarded: for=\"[::1]\";proto=http;host=\"example.org:8080\"\nHost: example.org:8080\nVia: 1.1 edge-1\n\
         X-Forwarded-For: 1.1.1.1\nX-Forwarded-For: ::1\nX-Forwarded-Host: example.org:8080\nX-Forwarded-Proto: https"
    );
    assert_eq!(forwarded(received, "192.0.2.1", Originator::Drop), "Host: example.org:8080\nVia: 1.1 edge-1");
}

#[test]
fn loops() {
    let is_loop = |via: &str| is_loop(&Section(format!("Via: {via}\r\n").as_bytes()), &NAME);
    for seen in [
        "1.1 edge-1",
        "1.0 other, 1.1 EDGE-1 (comment)",
        "1.0 a (x, y), HTTP/2.0 edge-1",
        "1.1 a\r\nvia:1.1\tedge-1",
    ] {
        assert!(is_loop(seen), "{seen}");
    }
    for other in [
        "",
        "1.1 edge-10",
        "1.1 a (1.1 edge-1)",
        "1.1 a (, 1.1 edge-1, )",
        "edge-1",
        "1.1 a (\\), 1.1 edge-1)",
    ] {
        assert!(!is_loop(other), "{other}");
    }
}
