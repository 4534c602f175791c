//! The request line: method, target and version.

use memchr::memchr;

use super::{Method, RequestError, Scheme, Version};
use crate::limits::{METHOD_BYTES_MAX, TARGET_BYTES_MAX};
use crate::token::{is_target, is_token};

pub(super) struct RequestLine<'b> {
    /// All of it.
    pub line: &'b [u8],
    pub method: Method,
    pub target: &'b [u8],
    pub version: Version,
}

impl<'b> RequestLine<'b> {
    pub fn parse(line: &'b [u8]) -> Result<Self, RequestError> {
        // Methods are short.
        let method_len = line.iter().position(|byte| *byte == b' ').ok_or(RequestError::RequestLine)?;
        let (method, rest) = (&line[..method_len], &line[method_len + 1..]);
        let target_len = memchr(b' ', rest).ok_or(RequestError::RequestLine)?;
        let (target, version) = (&rest[..target_len], &rest[target_len + 1..]);
        let version = match version {
            b"HTTP/1.0" => Some(Version::Http10),
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Some(Version::Http11),
            b"HTTP/2.0" => Some(Version::Http2),
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => None,
            _ => return Err(RequestError::RequestLine),
        };
        if target.len() > TARGET_BYTES_MAX {
            return Err(RequestError::TargetTooLong);
        }
        // URIs have no other bytes, and request targets no fragment. Browsers send some characters unescaped that RFC
        // 3986 forbids, such as `{` and `^`; all recipients read them alike.
        if matches!(target, [] | [b'?', ..]) || !is_target(target) {
            return Err(RequestError::RequestLine);
        }
        let method = Method::of(method).ok_or(RequestError::RequestLine)?;
        Ok(RequestLine { line, method, target, version: version.ok_or(RequestError::Version)? })
    }
}

impl Method {
    /// `None` if it cannot be a method.
    pub(super) fn of(word: &[u8]) -> Option<Method> {
        Some(match word {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" | b"PUT" | b"DELETE" | b"TRACE" | b"PATCH" => Method::NotAllowed,
            b"CONNECT" => Method::Connect,
            other if is_method(other) => Method::Unknown,
            _ => return None,
        })
    }
}

/// Returns true if an overlong line begins like a request line, so that 414 is the right answer.
pub(super) fn begins_with_method(line: &[u8]) -> bool {
    let start = &line[..line.len().min(METHOD_BYTES_MAX + 1)];
    memchr(b' ', start).is_some_and(|end| is_method(&start[..end]))
}

fn is_method(word: &[u8]) -> bool {
    (1..=METHOD_BYTES_MAX).contains(&word.len()) && word.iter().all(|byte| is_token(*byte))
}

/// The parts of a target in absolute form (RFC 9112, 3.2.2).
pub(super) struct Absolute<'b> {
    pub scheme: Scheme,
    pub authority: &'b [u8],
    /// Path and query; only the query if the path is empty.
    pub path: &'b [u8],
}

impl<'b> Absolute<'b> {
    /// Splits a target in absolute form; `None` for the other forms.
    pub fn split(target: &'b [u8], method: Method) -> Option<Self> {
        // The fast way out: nearly every target begins with a slash.
        if target.first() == Some(&b'/') {
            return None;
        }
        let after = |start: &[u8]| {
            let (scheme, rest) = target.split_at_checked(start.len())?;
            scheme.eq_ignore_ascii_case(start).then_some(rest)
        };
        let (scheme, rest) = match (after(b"http://"), after(b"https://")) {
            (Some(rest), _) => (Scheme::Http, rest),
            (None, Some(rest)) => (Scheme::Https, rest),
            (None, None) => return None,
        };
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let path: &[u8] = match &rest[end..] {
            // RFC 9112, 3.2.4: OPTIONS of an empty path asks about the whole server.
            [] if method == Method::Options => b"*",
            [] => b"/",
            path => path,
        };
        Some(Absolute { scheme, authority: &rest[..end], path })
    }
}
