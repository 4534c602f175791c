//! Reads as much of a response head as a load generator needs to find the end of the response.
//!
//! It runs once per response on the generator's hot path, so it looks at the first letter of each field name
//! and skips the rest. It is tolerant where a measuring client should be (bare LF, unknown fields), and never
//! guesses a length: two different Content-Lengths are an error. A proxy needs [`crate::upstream`].

use memchr::memchr;

use crate::limits::HEAD_BYTES_MAX;
use crate::token::decimal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub content_length: Option<u64>,
    /// True if the last transfer coding is `chunked`, which overrides `content_length` (RFC 9112, 6.3).
    pub chunked: bool,
    /// True if the server keeps the connection open after this response.
    pub keep_alive: bool,
    /// Length of the head in bytes, its empty line included; the body starts here.
    pub head_len: usize,
}

/// The state after the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The head is incomplete: read more and parse again from the start.
    Partial,
    Complete(Head),
}

/// Why bytes are not a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The start line is not `HTTP/1.x NNN`.
    #[error("the response does not begin with an HTTP/1.x status line")]
    StatusLine,
    /// Content-Length is not a number, or there are two different ones.
    #[error("the response has a bad Content-Length")]
    ContentLength,
    /// The head does not end within [`HEAD_BYTES_MAX`].
    #[error("the response head is longer than {HEAD_BYTES_MAX} bytes")]
    TooLong,
}

/// Parses the response head at the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ResponseError> {
    let Some((status, minor, mut at)) = status_line(bytes)? else {
        return Ok(Parsed::Partial);
    };
    let mut head = Head { status, content_length: None, chunked: false, keep_alive: minor >= 1, head_len: 0 };
    loop {
        let rest = &bytes[at..];
        let Some(end) = memchr(b'\n', rest) else {
            return if bytes.len() > HEAD_BYTES_MAX {
                Err(ResponseError::TooLong)
            } else {
                Ok(Parsed::Partial)
            };
        };
        at += end + 1;
        if at > HEAD_BYTES_MAX {
            return Err(ResponseError::TooLong);
        }
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        match line.first().map(|first| first | 0x20) {
            None => {
                head.head_len = at;
                return Ok(Parsed::Complete(head));
            }
            Some(b'c' | b't') => field(line, &mut head)?,
            Some(_) => {}
        }
    }
}

/// The status, the minor version and the offset of the next line; `None` while the line is incomplete.
fn status_line(bytes: &[u8]) -> Result<Option<(u16, u8, usize)>, ResponseError> {
    const START: &[u8] = b"HTTP/1.";
    let known = bytes.len().min(START.len());
    if bytes[..known] != START[..known] {
        return Err(ResponseError::StatusLine);
    }
    let Some(end) = memchr(b'\n', bytes) else {
        return if bytes.len() > HEAD_BYTES_MAX { Err(ResponseError::TooLong) } else { Ok(None) };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    match line.get(START.len()..) {
        Some([minor @ b'0'..=b'9', b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..])
            if rest.first().is_none_or(|next| *next == b' ') =>
        {
            let digit = |byte: &u8| u16::from(byte - b'0');
            Ok(Some((digit(a) * 100 + digit(b) * 10 + digit(c), minor - b'0', end + 1)))
        }
        _ => Err(ResponseError::StatusLine),
    }
}

fn field(line: &[u8], head: &mut Head) -> Result<(), ResponseError> {
    if let Some(value) = value_of(line, b"content-length") {
        let length = decimal(value).ok_or(ResponseError::ContentLength)?;
        if head.content_length.is_some_and(|earlier| earlier != length) {
            return Err(ResponseError::ContentLength);
        }
        head.content_length = Some(length);
    } else if let Some(value) = value_of(line, b"connection") {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                head.keep_alive = false;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                head.keep_alive = true;
            }
        }
    } else if let Some(value) = value_of(line, b"transfer-encoding") {
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
        head.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
    }
    Ok(())
}

/// The value of the field in `line`, if the field is called `name`.
pub(crate) fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: Result<Parsed, ResponseError>) {
        assert_eq!(parse(input.as_bytes()), expected, "{input:?}");
    }

    fn complete(
        status: u16,
        content_length: Option<u64>,
        chunked: bool,
        keep_alive: bool,
        head_len: usize,
    ) -> Result<Parsed, ResponseError> {
        Ok(Parsed::Complete(Head { status, content_length, chunked, keep_alive, head_len }))
    }

    #[test]
    fn heads() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", complete(200, Some(5), false, true, 38));
        check("HTTP/1.0 200 OK\r\ncontent-length:5\r\n\r\n", complete(200, Some(5), false, false, 37));
        check("HTTP/1.0 200\r\nConnection: keep-alive\r\n\r\n", complete(200, None, false, true, 40));
        check("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", complete(200, None, false, false, 41));
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            complete(200, None, true, true, 53),
        );
        check("HTTP/1.1 304 Not Modified\n\n", complete(304, None, false, true, 27));
    }

    #[test]
    fn every_prefix_is_partial() {
        let head = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\n";
        for cut in 0..head.len() {
            assert_eq!(parse(&head[..cut]), Ok(Parsed::Partial), "{cut}");
        }
    }

    #[test]
    fn refusals() {
        check("SSH-2.0", Err(ResponseError::StatusLine));
        check("HTTP/1.1 20 OK\r\n\r\n", Err(ResponseError::StatusLine));
        check("HTTP/1.1 2000 OK\r\n\r\n", Err(ResponseError::StatusLine));
        for bad in ["+5", "-5", "0x5", "5.0", "", "99999999999999999999", "5, 5"] {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bad}\r\n\r\n");
            check(&head, Err(ResponseError::ContentLength));
        }
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            Err(ResponseError::ContentLength),
        );
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(HEAD_BYTES_MAX));
        check(&long, Err(ResponseError::TooLong));
    }
}
