//! Converts an HTTP/2 request to HTTP/1 text, and an HTTP/1 response head to HTTP/2.

use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use memchr::{memchr, memmem};

/// The head of `request` as text for the HTTP/1 parser. Names, values and targets have been validated, so they cannot
/// contain line ends.
///
/// If the body is forwarded, its beginning follows. Otherwise cookies are omitted too, because they do not affect
/// static documents. Fields about the body are written anew (RFC 9113, 8.1: no more than what arrived), and cookies are
/// joined into one field (8.2.3).
pub fn append_request(text: &mut Vec<u8>, request: &Parts, body: Option<Beginning<'_>>) {
    let authority = request.uri.authority().map(|authority| authority.as_str());
    // RFC 9112, 3.2.3: the target of CONNECT is the authority.
    let target = match request.uri.path_and_query() {
        Some(path) if request.method != Method::CONNECT => path.as_str(),
        _ => authority.unwrap_or("/"),
    };
    for part in [request.method.as_str(), " ", target, " HTTP/2.0\r\n"] {
        text.extend_from_slice(part.as_bytes());
    }
    if let Some(authority) = authority {
        append_field(text, HOST.as_str(), authority.as_bytes());
    }
    for (name, value) in &request.headers {
        let value = value.as_bytes();
        // RFC 9113, 8.3.1: a Host that contradicts the authority is malformed; written as a second Host, it gets
        // refused.
        let repeats_authority = *name == HOST
            && authority.is_some_and(|authority| value.eq_ignore_ascii_case(authority.as_bytes()));
        let is_about_body = *name == CONTENT_LENGTH || expects_continue(name, value);
        if !repeats_authority && !is_about_body && *name != COOKIE {
            append_field(text, name.as_str(), value);
        }
    }
    if let Some(body) = body {
        let cookies: Vec<_> = request.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        if !cookies.is_empty() {
            append_field(text, COOKIE.as_str(), &cookies.join(b"; ".as_slice()));
        }
        match body.length {
            Some(0) => {}
            Some(length) => append_field(text, CONTENT_LENGTH.as_str(), length.to_string().as_bytes()),
            None => append_field(text, TRANSFER_ENCODING.as_str(), b"chunked"),
        }
    }
    text.extend_from_slice(b"\r\n");
    if let Some(Beginning { bytes, length }) = body {
        append_part(text, bytes, length.is_none());
    }
}

/// A part of a request's body in HTTP/1 framing.
pub fn append_part(text: &mut Vec<u8>, part: &[u8], is_chunked: bool) {
    if !is_chunked {
        text.extend_from_slice(part);
    } else if !part.is_empty() {
        text.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        text.extend_from_slice(part);
        text.extend_from_slice(b"\r\n");
    }
}

/// The Content-Length of `request`.
pub fn content_length(request: &Parts) -> Option<u64> {
    request.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What has been received of a request's body.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'b> {
    pub bytes: &'b [u8],
    /// The length of the whole body, if known.
    pub length: Option<u64>,
}

/// Returns true if `request` waits for 100 Continue.
pub fn waits_for_continue(request: &Parts) -> bool {
    request.headers.iter().any(|(name, value)| expects_continue(name, value.as_bytes()))
}

fn expects_continue(name: &HeaderName, value: &[u8]) -> bool {
    *name == EXPECT && value.eq_ignore_ascii_case(b"100-continue")
}

fn append_field(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
}

#[derive(Debug)]
pub struct Head {
    pub response: Response<()>,
    /// The length from Content-Length.
    pub content_length: Option<u64>,
    /// The length of the text, including the empty line.
    pub text_length: usize,
}

/// Parses the head at the start of `text`, which this server wrote. `None` if it is invalid, or framed in a way that
/// HTTP/2 lacks.
pub fn read_response(text: &[u8]) -> Option<Head> {
    let text_length = memmem::find(text, b"\r\n\r\n")? + 4;
    let mut rest = &text[..text_length - 2];
    let mut next = || {
        let end = memchr(b'\r', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        Some(line)
    };
    let status = next()?.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_bytes(status).ok()?;
    let mut content_length = None;
    while let Some(line) = next() {
        let colon = memchr(b':', line)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name {
            // RFC 9113, 8.2.2: connection-specific fields of HTTP/1.
            b"Connection" | b"Keep-Alive" => continue,
            b"Transfer-Encoding" => return None,
            b"Content-Length" => content_length = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
            _ => {}
        }
        let name = HeaderName::from_bytes(name).ok()?;
        response.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(Head { response, content_length, text_length })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: http::request::Builder) -> String {
        let mut text = Vec::new();
        append_request(&mut text, &request.body(()).unwrap().into_parts().0, None);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn requests() {
        let request = http::Request::get("https://a.example/x?y").header("range", "bytes=0-1");
        assert_eq!(text(request), "GET /x?y HTTP/2.0\r\nhost: a.example\r\nrange: bytes=0-1\r\n\r\n");
        let request =
            http::Request::get("http://a.example/").header("host", "A.example").header("cookie", "a=b");
        assert_eq!(text(request), "GET / HTTP/2.0\r\nhost: a.example\r\n\r\n");
        let request =
            http::Request::post("http://a.example/").header("host", "b").header("content-length", "4");
        assert_eq!(text(request), "POST / HTTP/2.0\r\nhost: a.example\r\nhost: b\r\n\r\n");
        assert_eq!(text(http::Request::get("/x").header("host", "b")), "GET /x HTTP/2.0\r\nhost: b\r\n\r\n");
        assert_eq!(
            text(http::Request::connect("a.example:443")),
            "CONNECT a.example:443 HTTP/2.0\r\nhost: a.example:443\r\n\r\n"
        );
    }

    #[test]
    fn requests_that_are_passed_on() {
        let request = http::Request::post("http://a/").header("cookie", "a=b").header("cookie", "c=d");
        let mut text = Vec::new();
        let request = request.body(()).unwrap().into_parts().0;
        let mut check = |length, framed: &str| {
            text.clear();
            append_request(&mut text, &request, Some(Beginning { bytes: b"hello", length }));
            let expected = format!("POST / HTTP/2.0\r\nhost: a\r\ncookie: a=b; c=d\r\n{framed}");
            assert_eq!(std::str::from_utf8(&text), Ok(&*expected));
        };
        check(Some(5), "content-length: 5\r\n\r\nhello");
        check(Some(9), "content-length: 9\r\n\r\nhello");
        check(None, "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    }

    #[test]
    fn responses() {
        let text =
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 12  \r\nConnection: close\r\nETag: \"x\"\r\n\r\nbody";
        let head = read_response(text).unwrap();
        assert_eq!((head.response.status().as_u16(), head.content_length), (404, Some(12)));
        assert_eq!(&text[head.text_length..], b"body");
        let fields: Vec<_> =
            head.response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(fields, [("content-length", b"12".as_slice()), ("etag", b"\"x\"")]);
        assert!(read_response(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_none());
        assert!(read_response(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n").is_none());
    }
}
