//! A parsed request without its text, so that the text need not be parsed again when the request continues after a wait.
//!
//! The requests of HTTP/2 streams need not be parsed at all: whoever writes their text from checked fields writes the
//! outline beside it.

use std::ops::Range;

use super::{Body, Method, Request, Version};
use crate::condition::Conditions;
use crate::host::is_host;
use crate::limits::{FIELDS_MAX, HEAD_BYTES_MAX, REQUEST_LINE_BYTES_MAX, TARGET_BYTES_MAX};

/// The version in the text of an HTTP/2 request.
const HTTP2_VERSION: &[u8] = b"HTTP/2.0";

/// What was parsed, and where its parts are in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    method: Method,
    target: Span,
    version: Version,
    line: Span,
    host: Option<Span>,
    keep_alive: bool,
    body: Body,
    expects_continue: bool,
    fields: Span,
    range: Option<Span>,
    accept: Option<Span>,
    accept_encoding: Option<Span>,
    referer: Option<Span>,
    user_agent: Option<Span>,
    has_connection: bool,
    has_via: bool,
    head_len: u16,
}

/// A range of a head, which has no more bytes than two bytes can count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u16,
    end: u16,
}

/// The outline of an HTTP/2 request without a body, while its text is written. Names, values and the target have been
/// checked.
#[derive(Clone, Debug)]
pub(crate) struct OutlineWriter {
    outline: Outline,
    field_count: usize,
}

impl OutlineWriter {
    /// Appends the request line to `text`, which is empty. No writer for a request of which only [`Parser`](super::Parser)
    /// can tell what it means, or whether it is right.
    pub fn begin(text: &mut Vec<u8>, method: &[u8], target: &[u8]) -> Option<OutlineWriter> {
        for part in [method, b" ", target, b" ", HTTP2_VERSION] {
            text.extend_from_slice(part);
        }
        let line_end = text.len();
        text.extend_from_slice(b"\r\n");
        let line = Span::from_to(0, line_end)?;
        let is_usual = target.first() == Some(&b'/')
            && target.len() <= TARGET_BYTES_MAX
            && line_end <= REQUEST_LINE_BYTES_MAX;
        if !is_usual {
            return None;
        }
        let target = Span::from_to(method.len() + 1, method.len() + 1 + target.len())?;
        let outline = Outline {
            method: Method::of(method)?,
            target,
            version: Version::Http2,
            line,
            host: None,
            keep_alive: true,
            body: Body::Length(0),
            expects_continue: false,
            fields: Span::EMPTY,
            range: None,
            accept: None,
            accept_encoding: None,
            referer: None,
            user_agent: None,
            has_connection: false,
            has_via: false,
            head_len: 0,
        };
        Some(OutlineWriter { outline, field_count: 0 })
    }

    /// Takes the field with which `text` ends. Returns false if the parser must decide: what comes more than once,
    /// conditions, and what is about a body.
    pub fn take(&mut self, name: &[u8], value: &[u8], text: &[u8]) -> bool {
        self.field_count += 1;
        let end = text.len() - b"\r\n".len();
        let Some(value_at) = Span::from_to(end - value.len(), end) else { return false };
        let Outline { host, range, accept, accept_encoding, referer, user_agent, has_via, .. } =
            &mut self.outline;
        let only = |slot: &mut Option<Span>| slot.replace(value_at).is_none();
        match name {
            b"host" => only(host) && is_host(value),
            b"range" => only(range),
            b"accept" => only(accept),
            b"accept-encoding" => only(accept_encoding),
            b"referer" => only(referer),
            b"user-agent" => only(user_agent),
            b"via" => {
                *has_via = true;
                true
            }
            b"expect" | b"content-type" => false,
            name => !name.starts_with(b"if-"),
        }
    }

    /// The outline of `text`, behind which comes the empty line.
    pub fn end(self, text: &[u8]) -> Option<Outline> {
        let head_len = text.len() + b"\r\n".len();
        let is_allowed = self.field_count <= FIELDS_MAX && head_len <= HEAD_BYTES_MAX;
        if !is_allowed || self.outline.host.is_none() {
            return None;
        }
        let fields = Span::from_to(usize::from(self.outline.line.end) + b"\r\n".len(), head_len)?;
        Some(Outline { fields, head_len: fields.end, ..self.outline })
    }
}

impl Outline {
    /// The outline of a request that was parsed from the start of `text`; `None` for the few with conditions or an absolute
    /// target.
    pub fn of(request: &Request<'_>, text: &[u8]) -> Option<Outline> {
        if request.scheme.is_some() || request.conditions != Conditions::default() {
            return None;
        }
        let spot = |part: &[u8]| Span::of(part, text);
        let perhaps = |part: Option<&[u8]>| match part {
            None => Some(None),
            Some(part) => Span::of(part, text).map(Some),
        };
        Some(Outline {
            method: request.method,
            target: spot(request.target)?,
            version: request.version,
            line: spot(request.line)?,
            host: perhaps(request.host)?,
            keep_alive: request.keep_alive,
            body: request.body,
            expects_continue: request.expects_continue,
            fields: spot(request.fields)?,
            range: perhaps(request.range)?,
            accept: perhaps(request.accept)?,
            accept_encoding: perhaps(request.accept_encoding)?,
            referer: perhaps(request.referer)?,
            user_agent: perhaps(request.user_agent)?,
            has_connection: request.has_connection,
            has_via: request.has_via,
            head_len: request.head_len.try_into().ok()?,
        })
    }

    /// The request, whose head `text` begins with.
    pub fn over<'b>(&self, text: &'b [u8]) -> Request<'b> {
        let at = |span: Span| &text[span.range()];
        Request {
            method: self.method,
            target: at(self.target),
            version: self.version,
            line: at(self.line),
            scheme: None,
            host: self.host.map(at),
            keep_alive: self.keep_alive,
            body: self.body,
            expects_continue: self.expects_continue,
            conditions: Conditions::default(),
            fields: at(self.fields),
            range: self.range.map(at),
            accept: self.accept.map(at),
            accept_encoding: self.accept_encoding.map(at),
            referer: self.referer.map(at),
            user_agent: self.user_agent.map(at),
            has_connection: self.has_connection,
            has_via: self.has_via,
            head_len: self.head_len.into(),
        }
    }
}

impl Span {
    const EMPTY: Span = Span { start: 0, end: 0 };

    fn from_to(start: usize, end: usize) -> Option<Span> {
        Some(Span { start: start.try_into().ok()?, end: end.try_into().ok()? })
    }

    /// Where `part` is in `text`; an empty one may be anywhere.
    fn of(part: &[u8], text: &[u8]) -> Option<Span> {
        if part.is_empty() {
            return Some(Span::EMPTY);
        }
        let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        let end = start + part.len();
        if end > text.len() {
            return None;
        }
        Span::from_to(start, end)
    }

    fn range(self) -> Range<usize> {
        self.start.into()..self.end.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Parsed, Parser};

    /// A request and its outline over another copy of the text.
    fn check(text: &str, has_outline: bool) {
        let Ok(Parsed::Complete(request)) = Parser::default().parse(text.as_bytes()) else {
            panic!("{text}")
        };
        let outline = Outline::of(&request, text.as_bytes());
        assert_eq!(outline.is_some(), has_outline, "{text}");
        let elsewhere = text.to_owned() + "more";
        if let Some(outline) = outline {
            assert_eq!(outline.over(elsewhere.as_bytes()), request, "{text}");
        }
    }

    #[test]
    fn the_same_request_without_parsing() {
        check("GET / HTTP/1.1\r\nHost: h\r\n\r\n", true);
        check("\r\nGET /a?b HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET", true);
        check(
            "POST /a/b?c=d HTTP/1.1\r\nHost: h:80\r\nContent-Length: 3\r\nExpect: 100-continue\r\nAccept: a, b\r\n\
             Accept-Encoding: gzip\r\nReferer: r\r\nUser-Agent: u\r\nRange: bytes=0-1\r\nX: \r\n\r\nabc",
            true,
        );
        check("PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", true);
        let split = "Accept: a\r\nAccept: b\r\nAccept-Encoding: gzip\r\nAccept-Encoding: br\r\n";
        check(&format!("GET / HTTP/1.1\r\nHost: h\r\n{split}\r\n"), true);
        check("GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 a\r\n\r\n", true);
        check("GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n", false);
        check("GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"a\"\r\n\r\n", false);
        check("GET / HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n", false);
    }

    #[test]
    fn parts_of_other_texts_have_no_place() {
        let (text, other) = (b"abc".to_vec(), b"abc".to_vec());
        assert_eq!(Span::of(&text[1..], &text), Some(Span { start: 1, end: 3 }));
        assert_eq!(Span::of(&text[1..], &text[..2]), None);
        let is_found = Span::of(&other, &text).is_some() && Span::of(&text, &other).is_some();
        assert!(!is_found);
    }
}
