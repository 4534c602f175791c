//! An entry: one request, in the same shape for every format, or the reason why a line is not one.

use crate::limits::{HOST_BYTES_MAX, LINE_BYTES_MAX};
use std::borrow::Cow;

use serde::Serialize;
use thiserror::Error;

/// The largest plausible document, 1 TiB; a larger size marks a damaged line.
pub const SIZE_BYTES_MAX: u64 = 1 << 40;

/// The longest plausible request, a week; a longer duration marks a damaged line.
pub const DURATION_NS_MAX: i64 = 7 * 86_400 * 1_000_000_000;

/// The relevant fields of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Address or name of the client.
    pub client: Cow<'a, [u8]>,
    /// The request's start in nanoseconds since 1970-01-01 00:00 UTC: the logged time, minus the logged duration if
    /// timestamps mark ends.
    pub unix_ns: i64,
    /// The logged timestamp, which decides whether lines are in order.
    pub logged_unix_ns: i64,
    /// The timestamp's resolution: the request began within this of `unix_ns`.
    pub resolution_ns: i64,
    pub utc_offset_seconds: i32,
    /// The request's duration; `None` if not logged.
    pub duration_ns: Option<i64>,
    /// The upstream server's response time; `None` if not logged.
    pub upstream_ns: Option<i64>,
    /// The requested host; empty if not logged.
    pub host: Cow<'a, [u8]>,
    /// The method; for an invalid request line, the text in its place.
    pub method: Cow<'a, [u8]>,
    /// Path and query as sent; empty where no request was sent (`-`).
    pub target: Cow<'a, [u8]>,
    /// The status code, three digits.
    pub status: u16,
    /// The size of the body; `None` if not logged.
    pub size_bytes: Option<u64>,
}

/// The reason why a line is not an entry.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    #[error("empty line")]
    Empty,
    /// The client is not followed by a bracket.
    #[error("no [date] after the client")]
    NoDate,
    /// The bracket does not contain a date.
    #[error("the date in brackets is not like [10/Oct/2000:13:55:36 -0700]")]
    BadDate,
    /// Fewer than two fields separate client and date.
    #[error("client, identity and user expected before the date")]
    MissingField,
    /// The date is not followed by a quote.
    #[error("no request in quotes after the date")]
    NoRequest,
    /// No quote is followed by a status and a size.
    #[error("no closing quote, status and size after the request")]
    NoStatusAndSize,
    /// The line ends before its last field, or its separators differ from the format's.
    #[error("the text between the fields does not match the format")]
    Separator,
    /// A timestamp field cannot be parsed.
    #[error("an invalid date or time")]
    BadTime,
    /// A status is not three digits.
    #[error("the status is not three digits")]
    BadStatus,
    /// A size is not a number of bytes.
    #[error("the size is not a number of bytes below 1 TiB")]
    BadSize,
    #[error("the duration is not a number of at most a week")]
    BadDuration,
    #[error("the port is not a number")]
    BadPort,
    /// The host is longer than [`HOST_BYTES_MAX`].
    #[error("the host is longer than {HOST_BYTES_MAX} bytes")]
    LongHost,
    /// The target contains a line break.
    #[error("the target holds a line feed")]
    BadTarget,
    #[error("not a JSON object")]
    NotJson,
    /// The line lacks a timestamp, status or request.
    #[error("no time, status or request")]
    MissingValue,
    /// A W3C line comes before the first `#Fields` directive.
    #[error("an entry before the first #Fields directive")]
    BeforeFields,
    /// Fewer bytes than a record has, or an index beyond its table.
    #[error("not a record of 20 bytes")]
    NotARecord,
    /// A `#Fields` directive omits a required column.
    #[error("the #Fields directive names no date and time, status, method or URI stem")]
    BadFields,
}

/// Parses three digits.
pub fn status(text: &[u8]) -> Option<u16> {
    let [a, b, c] = text else { return None };
    super::time::number(&[*a, *b, *c]).map(|status| status as u16)
}

/// Parses a number of bytes; `-` is 0 (Apache's `%b`). `None` for any other text.
pub fn size_bytes(text: &[u8]) -> Option<u64> {
    if text == b"-" {
        return Some(0);
    }
    let size_bytes = super::time::number(text)? as u64;
    (size_bytes <= SIZE_BYTES_MAX).then_some(size_bytes)
}

/// Splits a request line into method and target. The target is everything between the first word and a last word
/// starting with `HTTP/`, so that targets with spaces and HTTP/0.9 requests (no version) can be read.
pub fn method_and_target(request: &[u8]) -> (&[u8], &[u8]) {
    let Some(space) = memchr::memchr(b' ', request) else { return (request, b"") };
    let (method, rest) = request.split_at(space);
    if method == b"-" {
        return (method, b""); // load balancers write `- - -` where nothing was asked
    }
    let is_version = |word: &[u8]| word.starts_with(b"HTTP/");
    let target = match memchr::memrchr(b' ', rest) {
        Some(last) if is_version(&rest[last + 1..]) => &rest[..last],
        _ => rest,
    };
    (method, target.trim_ascii())
}

/// Splits an absolute URL, as proxies log it, into host and target; the host is empty for any other target.
pub fn split_absolute(target: &[u8]) -> (&[u8], &[u8]) {
    if target.first() == Some(&b'/') {
        return (b"", target); // by far the most common
    }
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| target.starts_with(scheme));
    let Some(scheme) = scheme else { return (b"", target) };
    let rest = &target[scheme.len()..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    (host, if path.is_empty() { b"/" } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_targets_name_their_host() {
        let check = |target: &str, host: &str, path: &str| {
            let (found_host, found_path) = split_absolute(target.as_bytes());
            assert_eq!((found_host, found_path), (host.as_bytes(), path.as_bytes()), "{target}");
        };
        check("/a?b", "", "/a?b");
        check("http://h:81/a?b", "h:81", "/a?b");
        check("https://h", "h", "/");
        check("http://h?q", "h", "?q");
        check("h:443", "", "h:443");
        check("", "", "");
    }

    #[test]
    fn sizes_are_numbers_or_a_dash() {
        assert_eq!(size_bytes(b"-"), Some(0));
        assert_eq!(size_bytes(b"0"), Some(0));
        assert_eq!(size_bytes(b"1099511627776"), Some(1 << 40));
        assert_eq!(size_bytes(b"1099511627777"), None);
        assert_eq!(size_bytes(b""), None);
        assert_eq!(size_bytes(b"-1"), None);
    }
}
