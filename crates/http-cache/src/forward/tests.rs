//! Which fields are forwarded, by RFC 9110, 7.6.

use super::*;

const VIA: Via<'_> = Via { received: Version::Http11, pseudonym: "edge-1" };

fn sorted(text: &[u8]) -> String {
    let mut lines: Vec<_> = std::str::from_utf8(text).unwrap().lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn forwarded(received: &str, client: &str, originator: Originator, purpose: Purpose<'_>) -> String {
    let hop = Hop {
        via: Some(VIA),
        client: client.parse().unwrap(),
        scheme: "http",
        host: b"example.org:8080",
        originator,
        purpose,
        counts_hops: true,
    };
    let mut text = Vec::new();
    append_request(&mut text, Section(received.as_bytes()), &hop);
    sorted(&text)
}

fn passed(received: &str, originator: Originator) -> String {
    forwarded(received, "192.0.2.1", originator, Purpose::Pass)
}

fn response(received: &str, version: Version) -> String {
    let mut text = Vec::new();
    let via = Via { received: version, ..VIA };
    append_response(
        &mut text,
        Section(received.as_bytes()),
        via,
        || *b"Sun, 06 Nov 1994 08:49:37 GMT",
        |_| true,
    );
    sorted(&text)
}

#[test]
fn what_belongs_to_one_connection_stays_behind() {
    let received = "Host: other\r\nConnection: close, X-A, x-b,, bad name\r\nX-A: 1\r\nX-B: 2\r\nX-C: 3\r\nTE: trailers\r\n\
        Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABk\r\nTransfer-Encoding: chunked\r\nTrailer: X-D\r\nContent-Length: 5\r\n\
        Expect: 100-continue\r\nVia: 1.0 there\r\n\r\n";
    assert_eq!(
        passed(received, Originator::Drop),
        "Host: example.org:8080\nVia: 1.0 there\nVia: 1.1 edge-1\nX-C: 3"
    );
}

/// A connection option must not remove fields that keep a response private or select a variant.
#[test]
fn what_is_for_all_stays() {
    let private = "Connection: Cache-Control, set-cookie, vary\r\nCache-Control: private\r\nSet-Cookie: a=b\r\nVary: a\r\n";
    assert_eq!(
        response(private, Version::Http10),
        "Cache-Control: private\nDate: Sun, 06 Nov 1994 08:49:37 GMT\nSet-Cookie: a=b\nVary: a\nVia: 1.0 edge-1"
    );
    assert_eq!(response("date: then\r\n", Version::Http2), "Via: 2.0 edge-1\ndate: then", "a Date stays");
}

#[test]
fn who_the_client_is() {
    let received = "Forwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\nX_Forwarded_Host: evil\r\nX-Real-IP: 1.1.1.1\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Prefix: /evil\r\nX-Forwarded-User: root\r\nX_Forwarded_Groups: admin\r\n\
        X-Forwarded-Client-Cert: x\r\nX-Forwarded-Ssl: on\r\nX-SSL-Client-Verify: SUCCESS\r\nClient-Cert: :x:\r\n\
        X-Original-URL: /admin\r\nX-Auth-Request-Email: a@b\r\nX-Scheme: https\r\nTrue-Client-IP: 1.1.1.1\r\n";
    assert_eq!(
        passed(received, Originator::Overwrite),
        "Forwarded: for=192.0.2.1;proto=http;host=\"example.org:8080\"\nHost: example.org:8080\nVia: 1.1 edge-1\n\
         X-Forwarded-For: 192.0.2.1\nX-Forwarded-Host: example.org:8080\nX-Forwarded-Proto: http"
    );
    let trusted = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\n";
    assert_eq!(
        forwarded(trusted, "::1", Originator::Append, Purpose::Pass),
        "Forwarded: for=\"[::1]\";proto=http;host=\"example.org:8080\"\nHost: example.org:8080\nVia: 1.1 edge-1\n\
         X-Forwarded-For: 1.1.1.1\nX-Forwarded-For: ::1\nX-Forwarded-Host: example.org:8080\nX-Forwarded-Proto: https"
    );
    assert_eq!(passed(received, Originator::Drop), "Host: example.org:8080\nVia: 1.1 edge-1");
}

#[test]
fn a_fill_asks_for_the_whole() {
    let received = "Range: bytes=0-1\r\nIf-Range: \"x\"\r\nIf-None-Match: \"x\"\r\nIf-Modified-Since: then\r\nAccept: a\r\n";
    let fill = forwarded(received, "::1", Originator::Drop, Purpose::Fill);
    assert_eq!(fill, "Accept: a\nHost: example.org:8080\nVia: 1.1 edge-1");
    let pass = forwarded(received, "::1", Originator::Drop, Purpose::Pass);
    assert!(pass.contains("If-Range: \"x\"") && pass.contains("Range: bytes=0-1"));
}

#[test]
fn missing_bytes_are_asked_for_with_the_validator_of_those_that_are_there() {
    for (last, range) in [(Some(7), "bytes=5-7"), (None, "bytes=5-")] {
        let rest = Purpose::Rest { tag: b"\"a\"", first: 5, last };
        let said = forwarded("Range: bytes=0-9\r\nIf-None-Match: \"b\"\r\n", "::1", Originator::Drop, rest);
        assert_eq!(said, format!("Host: example.org:8080\nIf-Range: \"a\"\nRange: {range}\nVia: 1.1 edge-1"));
    }
}

#[test]
fn loops() {
    let is_loop = |via: &str| is_loop(Section(format!("Via: {via}\r\n").as_bytes()), VIA.pseudonym);
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

/// RFC 9110, 7.6.2: Max-Forwards.
#[test]
fn hops_are_counted_down() {
    for (received, expected) in
        [("5", "4"), ("1", "0"), ("x", "x"), ("+5", "+5"), ("99999999999", "99999999999")]
    {
        let text = passed(&format!("Max-Forwards: {received}\r\n"), Originator::Drop);
        assert_eq!(text, format!("Host: example.org:8080\nMax-Forwards: {expected}\nVia: 1.1 edge-1"));
    }
}
