//! The head of a script's response (RFC 3875, 6) as the head of an HTTP response.

use memchr::memchr;
use sojourn_http::limits::HEAD_BYTES_MAX;

/// Why bytes are not a valid response head of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("the application's response head is longer than {HEAD_BYTES_MAX} bytes")]
    TooLong,
    /// The head starts with an empty line; scripts that print a body without a head often do that.
    #[error("the application's response has no head: does it print before its header fields?")]
    Empty,
    #[error("the application's Status is not three digits")]
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptHead<'b> {
    pub status: u16,
    /// The reason phrase, possibly empty: it has yet to be checked.
    pub reason: &'b [u8],
    /// Bytes of the head, its empty line included: the body starts there.
    pub length: usize,
}

/// Reads the head at the start of `bytes` and writes its fields to `fields` as lines of HTTP and an empty line, which
/// [`sojourn_http::upstream::Head::of_fields`] has yet to check; `None` if it has not ended yet.
///
/// Lines may end in LF alone, as most scripts write them. Without a Status the status is 200, or 302 with a Location
/// (RFC 3875, 6.2.3; also where the Location is a path. The RFC asks the server to follow a path itself; browsers
/// follow it as well and then show the right address). Connection, Transfer-Encoding and other framing fields are
/// dropped, because the server writes its own.
///
/// # Errors
/// See [`HeadError`]. The application's connection is of no use afterwards.
pub fn read_head<'b>(bytes: &'b [u8], fields: &mut Vec<u8>) -> Result<Option<ScriptHead<'b>>, HeadError> {
    let (mut status, mut redirects, mut start) = (None, false, 0);
    while let Some(length) = memchr(b'\n', &bytes[start..]) {
        let line = &bytes[start..start + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() && start == 0 {
            return Err(HeadError::Empty);
        }
        start += length + 1;
        if start > HEAD_BYTES_MAX {
            return Err(HeadError::TooLong);
        }
        if line.is_empty() {
            fields.extend_from_slice(b"\r\n");
            let default = if redirects { (302, &b"Found"[..]) } else { (200, &b"OK"[..]) };
            let (status, reason) = status.unwrap_or(default);
            return Ok(Some(ScriptHead { status, reason, length: start }));
        }
        let name = &line[..memchr(b':', line).unwrap_or(0)];
        match name.len() {
            6 if name.eq_ignore_ascii_case(b"status") => {
                status = Some(read_status(line[name.len() + 1..].trim_ascii())?);
                continue;
            }
            7 | 10 | 16 | 17 if is_framing(name) => continue,
            8 if name.eq_ignore_ascii_case(b"location") => redirects = true,
            _ => {}
        }
        fields.extend_from_slice(line);
        fields.extend_from_slice(b"\r\n");
    }
    if bytes.len() > HEAD_BYTES_MAX { Err(HeadError::TooLong) } else { Ok(None) }
}

fn read_status(value: &[u8]) -> Result<(u16, &[u8]), HeadError> {
    let (code, reason) = value.split_at_checked(3).ok_or(HeadError::Status)?;
    let is_apart = reason.is_empty() || reason.starts_with(b" ");
    let code = std::str::from_utf8(code).ok().and_then(|code| code.parse::<u16>().ok());
    // Interim responses (1xx) are the server's to send, not a script's.
    let code = code.filter(|code| is_apart && (200..1000).contains(code)).ok_or(HeadError::Status)?;
    Ok((code, reason.trim_ascii()))
}

fn is_framing(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] =
        [b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"proxy-connection"];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<(usize, String)>, HeadError> {
        let mut fields = Vec::new();
        let head = read_head(text.as_bytes(), &mut fields)?;
        Ok(head.map(|ScriptHead { status, reason, length }| {
            let [reason, fields] = [reason, &fields].map(String::from_utf8_lossy);
            (length, format!("{status} {reason}\r\n{fields}"))
        }))
    }

    #[test]
    fn heads_of_scripts() {
        let check = |text: &str, head: &str| {
            let whole = format!("{text}body");
            assert_eq!(read(&whole), Ok(Some((text.len(), head.to_owned()))), "{text}");
            for end in 0..text.len() {
                assert_eq!(read(&text[..end]), Ok(None), "{text} as far as {end}");
            }
        };
        check("Content-Type: text/plain\n\n", "200 OK\r\nContent-Type: text/plain\r\n\r\n");
        check("X: 1\r\nStatus: 404 Not Found\r\n\r\n", "404 Not Found\r\nX: 1\r\n\r\n");
        check("status:500\n\r\n", "500 \r\n\r\n");
        check("Location: /a\n\n", "302 Found\r\nLocation: /a\r\n\r\n");
        check("Location: /a\nStatus: 201\n\n", "201 \r\nLocation: /a\r\n\r\n");
        check("A: b\nTransfer-Encoding: chunked\nConnection: x\n\n", "200 OK\r\nA: b\r\n\r\n");
    }

    #[test]
    fn no_heads() {
        for text in ["\n", "\r\nhello\n\n"] {
            assert_eq!(read(text), Err(HeadError::Empty), "{text}");
        }
        for status in ["20", "2000 x", "abc", "100 Continue", "200x", ""] {
            assert_eq!(read(&format!("A: b\nStatus: {status}\n\n")), Err(HeadError::Status), "{status}");
        }
        assert_eq!(read(&"x".repeat(HEAD_BYTES_MAX + 1)), Err(HeadError::TooLong));
        assert_eq!(read(&"x: y\n".repeat(HEAD_BYTES_MAX / 5 + 1)), Err(HeadError::TooLong));
    }
}
