//! Writes response heads.
//!
//! A head begins with the part that depends on the time and the connection ([`start`], [`connection`]), then come the
//! document's fields ([`entity_fields`]), which a server can cache, and the empty line.

use std::io::Write;

use crate::date::{DATE_BYTES, HttpDate};
use crate::range::ByteRange;
use crate::status::Status;

const CRLF: &[u8] = b"\r\n";

/// The Server field, and the start of Date.
const SERVER_AND_DATE: &[u8] = b"Server: Sojourn\r\nDate: ";

/// The Connection field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Kept open in HTTP/1.1: no field needed.
    Stays,
    /// Kept open for an HTTP/1.0 client: `Connection: keep-alive`.
    KeepAlive,
    Close,
}

/// Begins a head: status line, Server, Date.
pub fn start(head: &mut Vec<u8>, status: Status, date: &[u8; DATE_BYTES]) {
    head.extend_from_slice(status.line().as_bytes());
    head.extend_from_slice(SERVER_AND_DATE);
    head.extend_from_slice(date);
    head.extend_from_slice(b"\r\n");
}

/// Appends the Connection field, unless the default of the version says the same.
pub fn connection(head: &mut Vec<u8>, connection: Connection) {
    match connection {
        Connection::Stays => {}
        Connection::KeepAlive => head.extend_from_slice(b"Connection: keep-alive\r\n"),
        Connection::Close => head.extend_from_slice(b"Connection: close\r\n"),
    }
}

pub fn end(head: &mut Vec<u8>) {
    head.extend_from_slice(b"\r\n");
}

/// Appends spaces to the last field, which parsers strip (RFC 9112, 5.1), so that after [`end`] the head's length is a
/// multiple of `alignment`.
pub fn pad(head: &mut Vec<u8>, alignment: usize) {
    let line_end = head.len() - CRLF.len();
    debug_assert_eq!(&head[line_end..], CRLF, "padding follows a field");
    head.truncate(line_end);
    let whole = (line_end + 2 * CRLF.len()).next_multiple_of(alignment);
    head.resize(whole - 2 * CRLF.len(), b' ');
    head.extend_from_slice(CRLF);
}

/// Appends one field line.
pub fn field(head: &mut Vec<u8>, name: &str, value: &str) {
    debug_assert!(!value.contains(['\r', '\n']), "a field value has no line end");
    for part in [name, ": ", value, "\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
}

/// Appends ETag and Last-Modified, which 200 and 304 both send.
pub fn validator_fields(head: &mut Vec<u8>, entity_tag: &str, modified: HttpDate) {
    head.extend_from_slice(b"Last-Modified: ");
    head.extend_from_slice(&modified.text());
    head.extend_from_slice(b"\r\n");
    field(head, "ETag", entity_tag);
}

/// Appends the fields of a 200 that stay the same until the document changes.
pub fn entity_fields(
    head: &mut Vec<u8>,
    media_type: &str,
    length: u64,
    entity_tag: &str,
    modified: HttpDate,
) {
    content_length(head, length);
    field(head, "Content-Type", media_type);
    validator_fields(head, entity_tag, modified);
    field(head, "Accept-Ranges", "bytes");
}

/// Content-Range of a 206 or of one part of it.
pub fn content_range(head: &mut Vec<u8>, range: ByteRange, size: u64) {
    let ByteRange { first, last } = range;
    write!(head, "Content-Range: bytes {first}-{last}/{size}\r\n").expect("writing to memory cannot fail");
}

/// Content-Range of a 416, with the document's size.
pub fn unsatisfied_range(head: &mut Vec<u8>, size: u64) {
    write!(head, "Content-Range: bytes */{size}\r\n").expect("writing to memory cannot fail");
}

/// The value of the first field called `name` (in any case) in the lines of a head.
pub fn find_field<'h>(lines: &'h [u8], name: &str) -> Option<&'h [u8]> {
    lines.split(|byte| *byte == b'\n').find_map(|line| {
        let (name_there, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        name_there.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
    })
}

/// Names and values of the field lines of a parsed head, without its start line.
pub fn field_lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    whole_lines(section).map(|(_, name, value)| (name, value))
}

/// The same, each behind the whole line with its end.
pub fn whole_lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
    let mut rest = section;
    std::iter::from_fn(move || {
        let colon = memchr::memchr(b':', rest)?;
        let (name, after) = (&rest[..colon], &rest[colon + 1..]);
        let end = memchr::memchr(b'\n', after).unwrap_or(after.len());
        let line = &rest[..rest.len().min(colon + 1 + end + 1)];
        rest = after.get(end + 1..).unwrap_or_default();
        Some((line, name, after[..end].trim_ascii()))
    })
}

pub fn content_length(head: &mut Vec<u8>, length: u64) {
    head.extend_from_slice(b"Content-Length: ");
    decimal(head, length);
    head.extend_from_slice(CRLF);
}

/// Appends a decimal number; much cheaper than `fmt`, and every head has several.
pub fn decimal(text: &mut Vec<u8>, number: u64) {
    let mut digits = [b'0'; u64::MAX.ilog10() as usize + 1];
    let (mut rest, mut start) = (number, digits.len());
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return text.extend_from_slice(&digits[start..]);
        }
    }
}

/// The small HTML page sent with an error status.
pub fn error_page(status: Status) -> String {
    let (code, reason) = (status.code(), status.reason());
    format!("<!DOCTYPE html>\n<title>{code} {reason}</title>\n<h1>{code} {reason}</h1>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for number in [0, 7, 10, 99, 1_000, 65_535, u64::MAX - 1, u64::MAX] {
            let mut text = Vec::new();
            decimal(&mut text, number);
            assert_eq!(String::from_utf8(text).unwrap(), number.to_string());
        }
    }

    #[test]
    fn a_whole_head() {
        let date = HttpDate::from_seconds(784_111_777);
        let mut head = Vec::new();
        start(&mut head, Status::Ok, &date.text());
        connection(&mut head, Connection::Close);
        entity_fields(&mut head, "text/html", 5, "\"x\"", date);
        end(&mut head);
        let expected = "HTTP/1.1 200 OK\r\nServer: Sojourn\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Connection: close\r\nContent-Length: 5\r\nContent-Type: text/html\r\n\
            Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"x\"\r\n\
            Accept-Ranges: bytes\r\n\r\n";
        assert_eq!(std::str::from_utf8(&head).unwrap(), expected);
    }

    #[test]
    fn fields_are_found() {
        let lines = b"GET / HTTP/1.1\r\nHost: h\r\nX-A:  one two \r\nx-a: three\r\n\r\n";
        assert_eq!(find_field(lines, "host"), Some(b"h".as_slice()));
        assert_eq!(find_field(lines, "X-a"), Some(b"one two".as_slice()));
        assert_eq!(find_field(lines, "X"), None);
        let section = b"A:b:c\r\nD:\r\n\r\n";
        let all: Vec<_> = field_lines(section).collect();
        assert_eq!(all, [(b"A".as_slice(), b"b:c".as_slice()), (b"D", b"")]);
    }

    #[test]
    fn padded_heads_end_where_they_should() {
        for length in 0..40 {
            let mut head = format!("X: {}\r\n", "x".repeat(length)).into_bytes();
            pad(&mut head, 32);
            end(&mut head);
            assert_eq!(head.len() % 32, 0);
            assert!(head.len() <= length + 7 + 31 && head.ends_with(b"\r\n\r\n"), "{length}");
        }
    }

    #[test]
    fn every_status_has_a_page() {
        for status in Status::ALL {
            assert!(error_page(*status).contains(status.reason()));
            assert!(status.line().starts_with(&format!("HTTP/1.1 {} ", status.code())));
        }
    }
}
