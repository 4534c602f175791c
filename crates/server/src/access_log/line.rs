//! Writes a log line in two steps: values known at the start of a response are written then, with gaps for those known
//! at its end.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use memchr::memmem;
use sojourn_http::head;
use sojourn_http::request::Request;

use super::Outcome;
use super::format::{AT_END_MAX, AtEnd, Directive, Escape, Item, LogFormat};
use crate::clock::Clock;

/// The part of a log line that is known when the head of a response is written.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub peer: IpAddr,
    pub clock: &'a Clock,
    /// The request; `None` if it could not be parsed.
    pub request: Option<&'a Request<'a>>,
    pub status: u16,
    /// The response's head, possibly followed by other bytes.
    pub head: &'a [u8],
    /// When the first bytes of the request arrived.
    pub began: Duration,
    /// The number of earlier requests on this connection.
    pub earlier_requests: u32,
    /// True if the connection was encrypted.
    pub is_secure: bool,
    pub outcome: Outcome,
    pub upstream: Upstream<'a>,
}

/// The upstream that a proxy asked.
#[derive(Clone, Copy, Debug)]
pub enum Upstream<'a> {
    None,
    Named(&'a str),
    /// The host named by the request.
    Host,
}

/// When a response ended, as far as the log needs it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    pub at: Duration,
    /// Since 1970.
    pub moment: Duration,
}

/// A line that lacks only the values known at the response's end.
#[derive(Debug)]
pub struct OpenLine {
    text: Vec<u8>,
    /// Positions of the directives at the end, in order; [`NO_GAP`] for one that has been written already.
    gaps: [u32; AT_END_MAX],
    head_bytes: u32,
    began: Duration,
}

const NO_GAP: u32 = u32::MAX;

impl OpenLine {
    pub fn begin(format: &LogFormat, entry: &Entry<'_>) -> OpenLine {
        let head_end = memmem::find(entry.head, b"\r\n\r\n").map_or(entry.head.len(), |end| end + 4);
        let entry = &Entry { head: &entry.head[..head_end], ..*entry };
        let mut text = Vec::with_capacity(256);
        let mut gaps = [NO_GAP; AT_END_MAX];
        let mut at_end = gaps.iter_mut();
        for item in &format.items {
            let (what, on) = match item {
                Item::Text(fixed) => {
                    text.extend_from_slice(fixed);
                    continue;
                }
                Item::Directive { what, on } => (what, on),
            };
            let is_on = on.as_ref().is_none_or(|statuses| statuses.include(entry.status));
            match what {
                Directive::AtEnd(_) => {
                    let gap = at_end.next().expect("no more than AT_END_MAX in a format");
                    if is_on {
                        *gap = text.len() as u32;
                        continue;
                    }
                }
                what if is_on => {
                    append(&mut text, what, entry, format.escape);
                    continue;
                }
                _ => {}
            }
            append_value(&mut text, None, format.escape);
        }
        OpenLine { text, gaps, head_bytes: head_end as u32, began: entry.began }
    }

    /// Appends the complete line to `lines`: `body_bytes` were sent until it `ended`.
    pub fn end(&self, format: &LogFormat, body_bytes: u64, ended: Ended, lines: &mut Vec<u8>) {
        let mut written = 0;
        for (at_end, gap) in format.at_end().zip(self.gaps).filter(|(_, gap)| *gap != NO_GAP) {
            lines.extend_from_slice(&self.text[written..gap as usize]);
            written = gap as usize;
            let time = ended.at.saturating_sub(self.began);
            let number = match at_end {
                AtEnd::BodyBytesOrDash if body_bytes == 0 => {
                    append_value(lines, None, format.escape);
                    continue;
                }
                AtEnd::BodyBytesOrDash | AtEnd::BodyBytes => body_bytes,
                AtEnd::SentBytes => u64::from(self.head_bytes) + body_bytes,
                AtEnd::Microseconds => time.as_micros() as u64,
                AtEnd::Milliseconds => time.as_millis() as u64,
                AtEnd::Seconds => time.as_secs(),
                AtEnd::EndSecond => ended.moment.as_secs(),
                AtEnd::EndMillisecond => {
                    let _ = write!(lines, "{:03}", ended.moment.subsec_millis());
                    continue;
                }
            };
            let _ = write!(lines, "{number}");
        }
        lines.extend_from_slice(&self.text[written..]);
    }
}

fn append(text: &mut Vec<u8>, what: &Directive, entry: &Entry<'_>, escape: Escape) {
    let request = entry.request;
    let value = match what {
        Directive::Peer => return drop(write!(text, "{}", entry.peer)),
        Directive::Status => return drop(write!(text, "{}", entry.status)),
        Directive::EarlierRequests => return drop(write!(text, "{}", entry.earlier_requests)),
        Directive::Process => return drop(write!(text, "{}", std::process::id())),
        Directive::Outcome => return text.extend_from_slice(entry.outcome.code().as_bytes()),
        Directive::Upstream => {
            return append_upstream(text, entry, escape);
        }
        Directive::Url => return append_url(text, entry, escape),
        Directive::Time => return text.extend_from_slice(&entry.clock.log_time),
        Directive::TimeAs(format) => return entry.clock.append_time(format, text),
        // For an absolute target the line is logged as sent, path and query as interpreted.
        Directive::RequestLine => request.map(|request| request.line),
        Directive::Method => request.and_then(|request| request.line.split(|byte| *byte == b' ').next()),
        Directive::Path => request.map(|request| split_query(request.target).0),
        // Apache writes nothing for a request without a query.
        Directive::Query => {
            let query = request.map_or(b"".as_slice(), |request| split_query(request.target).1);
            return match escape {
                Escape::Apache => append_escaped(text, query),
                Escape::Json => append_json(text, query),
            };
        }
        Directive::Protocol => request.and_then(|request| request.line.rsplit(|byte| *byte == b' ').next()),
        Directive::Host => request.and_then(|request| request.host),
        Directive::RequestField(name) => request.and_then(|request| request.field(name)),
        Directive::ResponseField(name) => head::find_field(entry.head, name),
        Directive::Nobody | Directive::AtEnd(_) => None,
    };
    append_value(text, value, escape);
}

/// The upstream in Squid's notation.
fn append_upstream(text: &mut Vec<u8>, entry: &Entry<'_>, escape: Escape) {
    match (entry.upstream, entry.request) {
        (Upstream::Named(name), _) => drop(write!(text, "ROUNDROBIN_PARENT/{name}")),
        (Upstream::Host, Some(request)) => {
            text.extend_from_slice(b"HIER_DIRECT/");
            append_value(text, Some(request.host.unwrap_or(request.target)), escape);
        }
        (Upstream::None | Upstream::Host, _) => text.extend_from_slice(b"HIER_NONE/-"),
    }
}

/// The target as an absolute URL, or as sent if it names no path.
fn append_url(text: &mut Vec<u8>, entry: &Entry<'_>, escape: Escape) {
    let Some(request) = entry.request else { return append_value(text, None, escape) };
    if request.target.first() == Some(&b'/') {
        text.extend_from_slice(if entry.is_secure { b"https://" } else { b"http://" });
        append_value(text, Some(request.host.unwrap_or_default()), escape);
    }
    append_value(text, Some(request.target), escape);
}

/// The path, and the query with its question mark.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    target.split_at(target.iter().position(|byte| *byte == b'?').unwrap_or(target.len()))
}

fn append_value(text: &mut Vec<u8>, value: Option<&[u8]>, escape: Escape) {
    match (value, escape) {
        (Some(value), Escape::Apache) => append_escaped(text, value),
        (Some(value), Escape::Json) => append_json(text, value),
        (None, Escape::Apache) => text.push(b'-'),
        (None, Escape::Json) => {}
    }
}

/// Appends `value` escaped like Apache does, so that it cannot break out of its line or quotes.
pub fn append_escaped(text: &mut Vec<u8>, value: &[u8]) {
    value.iter().for_each(|byte| append_as_apache(text, *byte));
}

fn append_json(text: &mut Vec<u8>, value: &[u8]) {
    for chunk in value.utf8_chunks() {
        chunk.valid().chars().for_each(|char| append_as_json(text, char));
        if !chunk.invalid().is_empty() {
            text.extend_from_slice(b"\\ufffd");
        }
    }
}

fn append_as_apache(text: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' => text.extend_from_slice(&[b'\\', byte]),
        b' '..=b'~' => text.push(byte),
        b'\n' => text.extend_from_slice(b"\\n"),
        b'\r' => text.extend_from_slice(b"\\r"),
        b'\t' => text.extend_from_slice(b"\\t"),
        0x08 => text.extend_from_slice(b"\\b"),
        0x0b => text.extend_from_slice(b"\\v"),
        _ => drop(write!(text, "\\x{byte:02x}")),
    }
}

/// RFC 8259, 7. Also escapes characters that could control a terminal or disguise text.
fn append_as_json(text: &mut Vec<u8>, char: char) {
    let is_steering = matches!(char,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    match char {
        '"' | '\\' => text.extend_from_slice(&[b'\\', char as u8]),
        _ if char.is_control() || is_steering => drop(write!(text, "\\u{:04x}", char as u32)),
        _ => text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}
