//! Requests as clients and attackers send them, and the parser's answer to each.

use super::*;
use crate::condition::Tags;
use crate::limits::{METHOD_BYTES_MAX, TARGET_BYTES_MAX};
use proptest::prelude::*;

fn parse(bytes: &[u8]) -> Result<Parsed<'_>, RequestError> {
    Parser::default().parse(bytes)
}

fn request(text: &str) -> Request<'_> {
    match parse(text.as_bytes()) {
        Ok(Parsed::Complete(request)) => request,
        other => panic!("{text:?}: {other:?}"),
    }
}

fn refused(text: &str, expected: RequestError) {
    assert_eq!(parse(text.as_bytes()).unwrap_err(), expected, "{text:?}");
}

#[test]
fn a_browser_request() {
    let text = "GET /a/b.html?q=1 HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: x/1\r\nReferer: y\r\n\
                If-None-Match: \"z\"\r\nConnection: keep-alive\r\n\r\nGET /next";
    let request = request(text);
    assert_eq!(request.method, Method::Get);
    assert_eq!(request.target, b"/a/b.html?q=1");
    assert_eq!(request.line, b"GET /a/b.html?q=1 HTTP/1.1");
    assert_eq!(request.host, Some(b"example.org:8080".as_slice()));
    assert_eq!(request.user_agent, Some(b"x/1".as_slice()));
    assert_eq!(request.referer, Some(b"y".as_slice()));
    assert_eq!(request.conditions.if_none_match, Some(Tags::Field(b"\"z\"")));
    assert_eq!(request.body, Body::Length(0));
    assert!(request.keep_alive);
    assert_eq!(&text[request.head_len..], "GET /next");
}

#[test]
fn who_keeps_the_connection() {
    let check = |version: &str, connection: &str, expected: bool| {
        let text = format!("GET / HTTP/{version}\r\nHost: h\r\n{connection}\r\n");
        assert_eq!(request(&text).keep_alive, expected, "{text:?}");
    };
    check("1.1", "", true);
    check("1.1", "Connection: close\r\n", false);
    check("1.1", "Connection: keep-alive\r\nConnection: Upgrade, CLOSE\r\n", false);
    check("1.0", "", false);
    check("1.0", "Connection: Keep-Alive\r\n", true);
    check("1.0", "Connection: keep-alive, close\r\n", false);
    check("1.2", "", true);
}

#[test]
fn request_lines() {
    for bad in [
        "GET /\r\n",
        "GET  / HTTP/1.1\r\n",
        "GET / HTTP/1.1 \r\n",
        " GET / HTTP/1.1\r\n",
        "GET\t/ HTTP/1.1\r\n",
        "GET /a b HTTP/1.1\r\n",
        "GET / http/1.1\r\n",
        "GET / HTTP/1\r\n",
        "GET / HTTP/1.10\r\n",
        "GET / HTTP/01.1\r\n",
        "G(T / HTTP/1.1\r\n",
        "GET /\x01 HTTP/1.1\r\n",
        "GET /\x7f HTTP/1.1\r\n",
        "GET /\0 HTTP/1.1\r\n",
        "GET /#x HTTP/1.1\r\n",
        "\x16\x03\x01",
        "\r\n\r\n",
        "\r\nGET / HTTP/1.1\n",
        "GET /caf\u{e9} HTTP/1.1\r\n",
        "GET / HTTP/ 1.1\r\n",
        "GET / HTTP/1.1\0\r\n",
        "GET HTTP/1.1\r\n",
        "/ HTTP/1.1\r\n",
        "   \r\n",
        "GET  HTTP/2.0\r\n",
        "GET /\r HTTP/1.1\r\n\r\n",
    ] {
        assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
    }
    refused("GET / HTTP/2.0\r\n", RequestError::Version);
    refused("GET / HTTP/0.9\r\n", RequestError::Version);
    refused("GET / HTTP/1.1\n", RequestError::BareLineFeed);
    assert_eq!(request("\r\nGET / HTTP/1.0\r\n\r\n").head_len, 20);
    assert_eq!(request("BREW / HTTP/1.0\r\n\r\n").method, Method::Unknown);
    assert_eq!(request("POST / HTTP/1.0\r\n\r\n").method, Method::NotAllowed);
    assert_eq!(request("get / HTTP/1.0\r\n\r\n").method, Method::Unknown);
    assert_eq!(request("CONNECT h:443 HTTP/1.0\r\n\r\n").method, Method::Connect);
}

#[test]
fn absolute_targets() {
    let check = |target: &str, path: &str, host: &str| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: other\r\n\r\n");
        let request = request(&text);
        assert_eq!((request.target, request.host), (path.as_bytes(), Some(host.as_bytes())), "{target}");
    };
    check("http://example.org/a?b", "/a?b", "example.org");
    check("HTTP://example.org", "/", "example.org");
    check("http://example.org?q=/x", "?q=/x", "example.org");
    check("https://example.org:443/a", "/a", "example.org:443");
    for bad in ["http://user@example.org/", "http:///a", "http://", "HTTP://a:b/", "http://0x7f.1/"] {
        refused(&format!("GET {bad} HTTP/1.1\r\nHost: h\r\n\r\n"), RequestError::Host);
    }
    assert_eq!(request("OPTIONS http://h HTTP/1.0\r\n\r\n").target, b"*");
    assert_eq!(request("OPTIONS http://h/ HTTP/1.0\r\n\r\n").target, b"/");
    refused("GET ?q HTTP/1.0\r\n\r\n", RequestError::RequestLine);
    let scheme = |target: &str| request(&format!("GET {target} HTTP/1.0\r\n\r\n")).scheme;
    assert_eq!(scheme("hTTp://h/"), Some(Scheme::Http));
    assert_eq!(scheme("https://h/"), Some(Scheme::Https));
    for other in ["/http://h/", "*", "h:80", "ftp://h/", "http:/h/"] {
        assert_eq!(scheme(other), None, "{other}");
    }
}

#[test]
fn hosts() {
    request("GET / HTTP/1.1\r\nHost:\texample.org:80 \r\n\r\n");
    for bad in ["", "a b", "a, b", "u@h", "h/"] {
        refused(&format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n"), RequestError::Host);
        refused(&format!("GET http://h/ HTTP/1.0\r\nHost: {bad}\r\n\r\n"), RequestError::Host);
    }
    refused("GET / HTTP/1.1\r\n\r\n", RequestError::Host);
    refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", RequestError::Host);
    assert_eq!(request("GET / HTTP/1.0\r\n\r\n").host, None);
}

#[test]
fn fields() {
    for bad in [
        "Name : v",
        " Name: v",
        "Name",
        ": v",
        "Na me: v",
        "N\0: v",
        "Name: a\0b",
        "Name: a\rb",
        "Name: a\x01b",
        "Name: a\x7fb",
        "Name: a\r\n folded",
        "Name: a\r\n\tfolded",
    ] {
        refused(&format!("GET / HTTP/1.1\r\nHost: h\r\n{bad}\r\n\r\n"), RequestError::Field);
    }
    request("GET / HTTP/1.1\r\nHost: h\r\nName: \ta\tb \r\nEmpty:\r\n\r\n");
    refused("GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", RequestError::BareLineFeed);
}

#[test]
fn framing() {
    let head = |fields: &str| format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
    assert_eq!(request(&head("Content-Length: 7")).body, Body::Length(7));
    assert_eq!(request(&head("Transfer-Encoding: Chunked")).body, Body::Chunked);
    assert_eq!(request(&head("Content-Length:  7\t")).body, Body::Length(7));
    assert_eq!(request(&head("Content-Length: 0")).body, Body::Length(0));
    assert_eq!(request(&head("Transfer-Encoding:\tchunked ")).body, Body::Chunked);
    let bad = [
        "+5",
        "-5",
        "-0",
        "0x5",
        "0o5",
        "5_",
        "1_0",
        "5.0",
        "1e1",
        "5,5",
        "5, 5",
        "1 0",
        "",
        "abc",
        "5x",
        "005",
        "00",
        "18446744073709551616",
    ];
    for bad in bad {
        refused(&head(&format!("Content-Length: {bad}")), RequestError::ContentLength);
    }
    refused(&head("Content-Length: 5\r\nContent-Length: 5"), RequestError::ContentLength);
    refused(&head("Content-Length: 5\r\nTransfer-Encoding: chunked"), RequestError::Framing);
    refused(&head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), RequestError::Framing);
    let bad = [
        "xchunked",
        "identity",
        "gzip",
        "chunked, gzip",
        "chunked, identity",
        "chunked, chunked",
        "chunked,",
        ", chunked",
        "\"chunked\"",
        "chunked;a=b",
        "gzip;a, chunked",
        "gzip chunked",
        "",
    ];
    for bad in bad {
        refused(&head(&format!("Transfer-Encoding: {bad}")), RequestError::Framing);
    }
    for unknown in ["gzip, chunked", "a,b ,Chunked"] {
        refused(&head(&format!("Transfer-Encoding: {unknown}")), RequestError::TransferCoding);
    }
    for bad in ["\x0bchunked", "chunked\0", "\x0cchunked", "\r\n chunked"] {
        refused(&head(&format!("Transfer-Encoding: {bad}")), RequestError::Field);
    }
    refused(&head("Content-Type: a/b\r\nContent-Type: c/d"), RequestError::ContentType);
    refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", RequestError::Framing);
}

#[test]
fn expectations() {
    let head = |version: &str, field: &str| format!("POST / HTTP/{version}\r\nHost: h\r\n{field}\r\n\r\n");
    for bad in ["the best", "100-continue, more", "100-continue\r\nExpect: more"] {
        refused(&head("1.1", &format!("Expect: {bad}")), RequestError::Expectation);
        assert!(!request(&head("1.0", &format!("Expect: {bad}"))).expects_continue);
    }
    assert!(request(&head("1.1", "Expect: 100-Continue")).expects_continue);
    assert!(!request(&head("1.1", "Expect:")).expects_continue);
}

#[test]
fn fields_that_are_repeated() {
    let head = |fields: &str| format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    for name in ["If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"] {
        let text = head(&format!("{name}: {date}\r\n{name}: {date}\r\n{name}: {date}"));
        let request = request(&text);
        let conditions = request.conditions;
        let values = [
            conditions.if_modified_since,
            conditions.if_unmodified_since,
            conditions.if_range,
            request.range,
        ];
        assert_eq!(values.iter().flatten().collect::<Vec<_>>(), [b""], "{name}");
    }
    let text = head("If-Match: \"a\"\r\nif-match: \"b\"");
    assert!(matches!(request(&text).conditions.if_match, Some(Tags::Fields { name: "if-match", .. })));
}

#[test]
fn bodies() {
    let read = |body: Body, bytes: &[u8]| {
        let (mut reader, mut content) = (BodyReader::new(body), Vec::new());
        let taken = reader.read(bytes, |data| content.extend_from_slice(data))?;
        assert_eq!(reader.wire_bytes(), taken as u64);
        Ok((reader.is_done(), taken, content))
    };
    assert_eq!(read(Body::Length(5), b"hello, world"), Ok((true, 5, b"hello".to_vec())));
    assert_eq!(read(Body::Length(5), b"hel"), Ok((false, 3, b"hel".to_vec())));
    assert_eq!(read(Body::Chunked, b"5\r\nhello\r\n0\r\n\r\nGET"), Ok((true, 15, b"hello".to_vec())));
    assert_eq!(read(Body::Chunked, b"5\r\nhe"), Ok((false, 5, b"he".to_vec())));
    assert_eq!(read(Body::Chunked, b"+5\r\n"), Err(RequestError::Body));
}

#[test]
fn limits() {
    let target = "a".repeat(TARGET_BYTES_MAX - 1);
    request(&format!("GET /{target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    refused(&format!("GET /{target}a HTTP/1.1\r\nHost: h\r\n\r\n"), RequestError::TargetTooLong);
    refused(&format!("GET /{}", "a".repeat(REQUEST_LINE_BYTES_MAX)), RequestError::TargetTooLong);
    let method = "A".repeat(METHOD_BYTES_MAX);
    assert_eq!(request(&format!("{method} / HTTP/1.0\r\n\r\n")).method, Method::Unknown);
    refused(&format!("{method}A / HTTP/1.0\r\n\r\n"), RequestError::RequestLine);
    refused(&"A".repeat(REQUEST_LINE_BYTES_MAX + 1), RequestError::RequestLine);
    refused(&format!("{method} /{}", "a".repeat(REQUEST_LINE_BYTES_MAX)), RequestError::TargetTooLong);
    let field = format!("X: {}\r\n", "a".repeat(HEAD_BYTES_MAX));
    refused(&format!("GET / HTTP/1.1\r\nHost: h\r\n{field}\r\n"), RequestError::HeadTooLong);
    request(&format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX - 1)));
    refused(
        &format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX)),
        RequestError::TooManyFields,
    );
}

/// Parses in pieces and checks that the result is the same as parsing at once.
fn in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<Option<usize>, RequestError> {
    let mut parser = Parser::default();
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        match parser.parse(&bytes[..cut])? {
            Parsed::Partial => {}
            Parsed::Complete(request) => return Ok(Some(request.head_len)),
        }
    }
    Ok(None)
}

#[test]
fn splitting_a_head_anywhere_changes_nothing() {
    let whole = b"\r\nGET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    for cut in 0..whole.len() {
        assert_eq!(in_pieces(whole, &[cut]), Ok(Some(whole.len() - 3)), "{cut}");
    }
    let every: Vec<usize> = (0..whole.len()).collect();
    assert_eq!(in_pieces(whole, &every), Ok(Some(whole.len() - 3)));
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn splitting_changes_nothing(
        line in "(GET|HEAD|X) /[a-z%./]{0,8} HTTP/[01].[0-9]",
        fields in proptest::collection::vec("(Host|Content-Length|Transfer-Encoding|X)(:| :) ?[ -~\\t\\x00]{0,6}", 0..4),
        ends in proptest::collection::vec("(\r\n|\n|\r|\r\n\r\n)", 6),
        mut cuts in proptest::collection::vec(0usize..120, 0..6),
    ) {
        let mut text = line + &ends[0];
        for (field, end) in fields.iter().zip(&ends[1..]) {
            text.push_str(field);
            text.push_str(end);
        }
        text.push_str("\r\n");
        cuts.retain(|cut| *cut <= text.len());
        cuts.sort_unstable();
        prop_assert_eq!(in_pieces(text.as_bytes(), &cuts), in_pieces(text.as_bytes(), &[]));
    }
}

#[test]
fn requests_of_streams() {
    let text = b"GET /x HTTP/2.0\r\nhost: h\r\n\r\n";
    let Ok(Parsed::Complete(request)) = Parser::of_stream().parse(text) else { panic!("it is one") };
    assert_eq!(
        (request.version, request.target, request.keep_alive),
        (Version::Http2, b"/x".as_slice(), true)
    );
    assert_eq!(Parser::default().parse(text), Err(RequestError::Version));
    assert_eq!(Parser::of_stream().parse(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"), Err(RequestError::Version));
    assert_eq!(Parser::of_stream().parse(b"GET /x HTTP/2.0\r\n\r\n"), Err(RequestError::Host));
}
