//! Response heads that a proxy must accept, and those it must refuse.

use super::*;

fn parse(text: &str, asked: RequestKind) -> Result<Option<Head<'_>>, UpstreamError> {
    Parser::default().parse(text.as_bytes(), asked)
}

fn body(text: &str, asked: RequestKind) -> Result<Body, UpstreamError> {
    parse(text, asked).map(|head| head.expect("a whole head").body)
}

fn refused(text: &str, expected: UpstreamError) {
    assert_eq!(parse(text, RequestKind::Other), Err(expected), "{text:?}");
}

#[test]
fn a_whole_head() {
    let text = "HTTP/1.1 200 Fine by me\r\nContent-Length: 5\r\nX-A:  b c \r\nx-a: \u{e9}\r\nEmpty:\r\n\r\nhelloHTTP/1.1";
    let head = parse(text, RequestKind::Other).unwrap().unwrap();
    assert_eq!((head.status, head.version, head.reason), (200, Version::Http11, b"Fine by me".as_slice()));
    assert_eq!((head.body, head.content_length, head.keep_alive), (Body::Length(5), Some(5), true));
    assert!(text[head.head_len..].starts_with("hello"));
    let fields: Vec<_> = head.fields().collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"Content-Length", b"5"), (b"X-A", b"b c"), (b"x-a", "\u{e9}".as_bytes()), (b"Empty", b"")];
    assert_eq!(fields, expected);
}

#[test]
fn status_lines() {
    for (line, status, reason) in [
        ("HTTP/1.1 404 Not Found", 404, "Not Found"),
        ("HTTP/1.0 200 ", 200, ""),
        ("HTTP/1.1 200", 200, ""),
        ("HTTP/1.9 599 \u{e9}\t", 599, "\u{e9}\t"),
    ] {
        let text = format!("{line}\r\n\r\n");
        let head = parse(&text, RequestKind::Other).unwrap().unwrap();
        assert_eq!((head.status, head.reason), (status, reason.as_bytes()), "{line}");
    }
    for bad in [
        "SSH-2.0-x",
        "HTTP/0.9 200 OK",
        "HTTP/2.0 200 OK",
        "http/1.1 200 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1 200OK",
        "HTTP/1.1\t200 OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.11 200 OK",
        "HTTP/1.1 200 a\0b",
        "HTTP/1.1 200 a\x7fb",
        "HTTP/1.1 200 a\rb",
        "HTTP/1.1",
        "<html>",
        "\r\nHTTP/1.1 200 OK",
        " HTTP/1.1 200 OK",
    ] {
        refused(&format!("{bad}\r\n\r\n"), UpstreamError::StatusLine);
    }
    assert_eq!(
        parse("HTX", RequestKind::Other),
        Err(UpstreamError::StatusLine),
        "refused before the line ends"
    );
}

/// RFC 9112, 5 and 5.2: a proxy may answer folded fields with 502, and must never forward whitespace before the colon.
#[test]
fn fields() {
    for bad in [
        "X : y",
        " X: y",
        "X",
        ": y",
        "X: a\0b",
        "X: a\rb",
        "X: a\x01b",
        "X: a\x7fb",
        "X: y\r\n folded",
        "X y: z",
        "X: y\r\n\tfolded",
        "X\u{e9}: y",
        "X\0: y",
        "X(: y",
    ] {
        refused(&format!("HTTP/1.1 200 OK\r\n{bad}\r\n\r\n"), UpstreamError::Field);
    }
    for bad in ["HTTP/1.1 200 OK\n\n", "HTTP/1.1 200 OK\r\nX: y\n\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n\n"] {
        refused(bad, UpstreamError::BareLineFeed);
    }
}

/// RFC 9112, 6.3.
#[test]
fn lengths() {
    let with = |fields: &str| body(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"), RequestKind::Other);
    assert_eq!(with("Content-Length: 5\r\nX: y\r\nContent-Length: 5"), Ok(Body::Length(5)));
    assert_eq!(with("Content-Length: 5, 5"), Ok(Body::Length(5)));
    assert_eq!(with("Content-Length: 0"), Ok(Body::Length(0)));
    assert_eq!(with("Content-Length: 18446744073709551615"), Ok(Body::Length(u64::MAX)));
    assert_eq!(with("X: y"), Ok(Body::UntilClose));
    for bad in [
        "5\r\nContent-Length: 6",
        "5, 6",
        "+5",
        "-5",
        "0x5",
        "5_",
        "5.0",
        "1e1",
        "",
        "5,",
        "05",
        "5 5",
        "18446744073709551616",
    ] {
        assert_eq!(with(&format!("Content-Length: {bad}")), Err(UpstreamError::ContentLength), "{bad}");
    }
}

#[test]
fn transfer_codings() {
    let with = |fields: &str| body(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"), RequestKind::Other);
    assert_eq!(with("Transfer-Encoding: Chunked "), Ok(Body::Chunked));
    for bad in [
        "",
        "identity",
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nContent-Length: 5",
    ] {
        let fields = format!("Transfer-Encoding: {bad}");
        assert_eq!(with(&fields), Err(UpstreamError::TransferCoding), "{bad}");
    }
    let before = "Content-Length: 5\r\nTransfer-Encoding: chunked";
    assert_eq!(with(before), Err(UpstreamError::TransferCoding));
    refused("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", UpstreamError::TransferCoding);
}

#[test]
fn no_body() {
    for status in [100, 101, 103, 204, 304] {
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(body(&text, RequestKind::Other), Ok(Body::None), "{status}");
    }
    for coding in ["Content-Length: 5", "Transfer-Encoding: chunked", "X: y"] {
        let text = format!("HTTP/1.1 200 OK\r\n{coding}\r\n\r\n");
        assert_eq!(body(&text, RequestKind::Head), Ok(Body::None), "{coding}");
        assert_eq!(body(&text, RequestKind::Connect), Ok(Body::None), "{coding}");
    }
    assert_eq!(
        body("HTTP/1.1 407 No\r\nContent-Length: 5\r\n\r\n", RequestKind::Connect),
        Ok(Body::Length(5))
    );
    let head = parse("HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n", RequestKind::Other).unwrap().unwrap();
    assert_eq!((head.content_length, head.keep_alive), (Some(5), true));
}

#[test]
fn connections() {
    let stays = |text: &str| parse(text, RequestKind::Other).unwrap().unwrap().keep_alive;
    assert!(stays("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    assert!(stays("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n"));
    assert!(!stays("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
    assert!(!stays("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x , CLOSE\r\n\r\n"));
    assert!(!stays("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n"), "the body ends with the connection");
}

#[test]
fn limits() {
    let long = |bytes: usize| format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(bytes - 24));
    assert!(parse(&long(HEAD_BYTES_MAX), RequestKind::Other).unwrap().is_some());
    refused(&long(HEAD_BYTES_MAX + 1), UpstreamError::TooLong);
    let endless = format!("HTTP/1.1 200 {}", "a".repeat(HEAD_BYTES_MAX));
    refused(&endless, UpstreamError::TooLong);
    let many = |count: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert!(parse(&many(FIELDS_MAX), RequestKind::Other).unwrap().is_some());
    refused(&many(FIELDS_MAX + 1), UpstreamError::TooManyFields);
}

#[test]
fn in_pieces_and_after_an_interim_response() {
    let text = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let (mut parser, mut start, mut statuses) = (Parser::default(), 0, Vec::new());
    for end in 0..=text.len() {
        if let Some(head) = parser.parse(&text.as_bytes()[start..end], RequestKind::Other).unwrap() {
            statuses.push((head.status, end));
            start = end;
        }
    }
    assert_eq!(statuses, [(103, 40), (200, text.len())]);
}
