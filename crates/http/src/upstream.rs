//! Reads response heads strictly, as a proxy must that forwards them.
//!
//! If the next recipient could frame a head differently, it might take one response for two, or give one client's
//! response to another (response splitting). So everything ambiguous (two lengths, a length beside a transfer coding, a
//! coding other than `chunked`, folded fields, bare line feeds, control characters) is refused; the proxy then answers
//! 502. [`crate::response`] is the tolerant counterpart for load generators, which reads only the framing.

use memchr::memchr;

use crate::limits::{FIELDS_MAX, HEAD_BYTES_MAX};
use crate::request::Version;
use crate::token::{all_text, content_length};

/// The kind of request that was sent, which decides whether the response has a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// HEAD: the response has no body, whatever its fields say.
    Head,
    /// CONNECT: after a 2xx response the connection is a tunnel.
    Connect,
    Other,
}

/// How the body that follows a response head is framed (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body: a response to HEAD, 1xx, 204, 304, or the start of a tunnel.
    None,
    /// This many bytes, possibly zero.
    Length(u64),
    Chunked,
    /// Everything until the server closes: a truncated body cannot be told from a whole one.
    UntilClose,
}

/// A response head; its slices point into the parsed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'b> {
    /// The three-digit status code, 100 to 999.
    pub status: u16,
    /// The version; 1.2 and above are read as 1.1.
    pub version: Version,
    /// The reason phrase, meant for people; possibly empty.
    pub reason: &'b [u8],
    /// All field lines and the empty line.
    pub fields: &'b [u8],
    pub body: Body,
    /// The length of the selected representation, from Content-Length; also given for responses to HEAD and for 304,
    /// which have no body.
    pub content_length: Option<u64>,
    /// True if the server keeps the connection open after this response.
    pub keep_alive: bool,
    /// Length of the head in bytes, its empty line included; the body starts here.
    pub head_len: usize,
}

impl<'b> Head<'b> {
    /// The head of a response whose first line was read elsewhere: `section` are its field lines and the empty line, of
    /// which `head_len` is the length.
    ///
    /// # Errors
    /// If a field cannot be passed on.
    pub fn of_fields(
        status: u16,
        version: Version,
        reason: &'b [u8],
        section: &'b [u8],
        asked: RequestKind,
    ) -> Result<Head<'b>, UpstreamError> {
        let framing = framing_of::<FIELDS_USUAL>(section)
            .or_else(|| framing_of::<FIELDS_MAX>(section))
            .unwrap_or(Err(UpstreamError::TooManyFields))?;
        let body = framing.body(status, version, asked)?;
        Ok(Head {
            status,
            version,
            reason,
            fields: section,
            body,
            content_length: framing.length,
            keep_alive: !framing.close
                && (version == Version::Http11 || framing.keep_alive)
                && body != Body::UntilClose,
            head_len: section.len(),
        })
    }

    /// Names and values, as received, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        crate::head::field_lines(self.fields)
    }
}

/// Why bytes are not a response that may be forwarded. The connection cannot be used afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The start line is not `HTTP/1.x NNN reason`.
    #[error("the response does not begin with an HTTP/1.x status line")]
    StatusLine,
    /// A line ends in LF alone.
    #[error("a line of the response ends without CR")]
    BareLineFeed,
    /// A field line is invalid: bad name, control character, folding, or whitespace before the colon.
    #[error("a field of the response is malformed")]
    Field,
    /// Content-Length is not a number, has leading zeros, or two of them differ.
    #[error("the response has a bad Content-Length")]
    ContentLength,
    /// A Transfer-Encoding beside Content-Length, in HTTP/1.0, repeated, or other than `chunked`.
    #[error("the response's Transfer-Encoding is not exactly chunked, or stands where it must not")]
    TransferCoding,
    /// The head is longer than [`HEAD_BYTES_MAX`].
    #[error("the response head is longer than {HEAD_BYTES_MAX} bytes")]
    TooLong,
    /// The head has more fields than [`FIELDS_MAX`].
    #[error("the response has more than {FIELDS_MAX} fields")]
    TooManyFields,
}

/// Parses a response head incrementally: how far the start of the buffer has been scanned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    /// The offset of the first incomplete line.
    line_start: usize,
    /// Where to continue searching for the line's end.
    scanned: usize,
}

impl Parser {
    /// Parses the head at the start of `bytes`; `None` while it is incomplete. Call again with the same bytes and more
    /// behind them. After a complete head the parser is reset, so it can read the response after a 1xx.
    pub fn parse<'b>(
        &mut self,
        bytes: &'b [u8],
        asked: RequestKind,
    ) -> Result<Option<Head<'b>>, UpstreamError> {
        let Some(head_len) = self.find_end(bytes)? else { return Ok(None) };
        *self = Parser::default();
        take_apart(&bytes[..head_len], asked).map(Some)
    }

    /// Returns true once part of a head has been seen.
    pub fn is_partial(&self) -> bool {
        self.scanned > 0
    }

    fn find_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, UpstreamError> {
        let known = bytes.len().min(START.len());
        if bytes[..known] != START[..known] {
            return Err(UpstreamError::StatusLine);
        }
        loop {
            let found = memchr(b'\n', &bytes[self.scanned..]).map(|offset| self.scanned + offset);
            if found.unwrap_or(bytes.len()) >= HEAD_BYTES_MAX {
                return Err(UpstreamError::TooLong);
            }
            let Some(end) = found else {
                self.scanned = bytes.len();
                return Ok(None);
            };
            let line = bytes[self.line_start..end].strip_suffix(b"\r").ok_or(UpstreamError::BareLineFeed)?;
            if line.is_empty() {
                return Ok(Some(end + 1));
            }
            self.line_start = end + 1;
            self.scanned = end + 1;
        }
    }
}

/// The start of every supported status line.
const START: &[u8] = b"HTTP/1.";

fn take_apart(head: &[u8], asked: RequestKind) -> Result<Head<'_>, UpstreamError> {
    let line_len = memchr(b'\n', head).ok_or(UpstreamError::StatusLine)?;
    let (status, version, reason) =
        status_line(&head[START.len()..line_len - 1]).ok_or(UpstreamError::StatusLine)?;
    let head = Head::of_fields(status, version, reason, &head[line_len + 1..], asked)?;
    Ok(Head { head_len: line_len + 1 + head.head_len, ..head })
}

/// Most responses have no more fields.
const FIELDS_USUAL: usize = 16;

/// Parses field lines and the empty line; `None` if there are more than `COUNT`.
fn framing_of<const COUNT: usize>(section: &[u8]) -> Option<Result<Framing, UpstreamError>> {
    let mut slots = [httparse::EMPTY_HEADER; COUNT];
    match httparse::parse_headers(section, &mut slots) {
        Ok(httparse::Status::Complete((_, fields))) => {
            let mut framing = Framing::default();
            let taken = fields.iter().try_for_each(|field| framing.take(field.name, field.value));
            Some(taken.map(|()| framing))
        }
        Err(httparse::Error::TooManyHeaders) => None,
        Ok(httparse::Status::Partial) | Err(_) => Some(Err(UpstreamError::Field)),
    }
}

/// Parses the rest of a status line after `HTTP/1.`: the minor version, the status and the reason. The space before an
/// empty reason is often missing.
fn status_line(line: &[u8]) -> Option<(u16, Version, &[u8])> {
    let [minor @ b'0'..=b'9', b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] = line
    else {
        return None;
    };
    let reason = if rest.is_empty() { rest } else { rest.strip_prefix(b" ")? };
    let digit = |byte: &u8| u16::from(byte - b'0');
    let version = if *minor == b'0' { Version::Http10 } else { Version::Http11 };
    let is_reason = all_text(reason);
    is_reason.then_some((digit(a) * 100 + digit(b) * 10 + digit(c), version, reason))
}

/// The framing fields of a response.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    is_chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Framing {
    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), UpstreamError> {
        if name.eq_ignore_ascii_case("content-length") {
            // RFC 9110, 8.6: repeated equal lengths, in one field or several, count as one.
            for element in value.split(|byte| *byte == b',') {
                let length = content_length(element.trim_ascii()).ok_or(UpstreamError::ContentLength)?;
                if self.length.replace(length).is_some_and(|earlier| earlier != length) {
                    return Err(UpstreamError::ContentLength);
                }
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(UpstreamError::TransferCoding);
            }
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case("connection") {
            for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }

    /// Decides the framing by RFC 9112, 6.3, always the strict way.
    fn body(&self, status: u16, version: Version, asked: RequestKind) -> Result<Body, UpstreamError> {
        if self.is_chunked && (self.length.is_some() || version == Version::Http10) {
            return Err(UpstreamError::TransferCoding);
        }
        Ok(match (status, asked) {
            (_, RequestKind::Head) | (100..=199 | 204 | 304, _) | (200..=299, RequestKind::Connect) => {
                Body::None
            }
            _ if self.is_chunked => Body::Chunked,
            _ => self.length.map_or(Body::UntilClose, Body::Length),
        })
    }
}

#[cfg(test)]
mod tests;
