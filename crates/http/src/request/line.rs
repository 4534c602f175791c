//! The request line: method, target, version.

use memchr::memchr;

use super::{Method, RequestError, Version};
use crate::limits::TARGET_BYTES_MAX;

pub(super) struct RequestLine<'b> {
    pub method: Method,
    pub target: &'b [u8],
    pub version: Version,
}

impl<'b> RequestLine<'b> {
    pub fn parse(line: &'b [u8]) -> Result<Self, RequestError> {
        let method_len = memchr(b' ', line).ok_or(RequestError::RequestLine)?;
        let (method, rest) = (&line[..method_len], &line[method_len + 1..]);
        let target_len = memchr(b' ', rest).ok_or(RequestError::RequestLine)?;
        let (target, version) = (&rest[..target_len], &rest[target_len + 1..]);
        let version = match version {
            b"HTTP/1.0" => Version::Http10,
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Version::Http11,
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                return Err(RequestError::Version);
            }
            _ => return Err(RequestError::RequestLine),
        };
        if target.len() > TARGET_BYTES_MAX {
            return Err(RequestError::TargetTooLong);
        }
        // Bytes above 127 are no URI characters, but real clients send them and they do no harm.
        if target.is_empty() || target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f || *byte == b'#') {
            return Err(RequestError::RequestLine);
        }
        let method = match method {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" | b"PUT" | b"DELETE" | b"TRACE" | b"CONNECT" | b"PATCH" => Method::NotAllowed,
            other if !other.is_empty() && other.iter().all(|byte| is_token(*byte)) => Method::Unknown,
            _ => return Err(RequestError::RequestLine),
        };
        Ok(RequestLine { method, target, version })
    }
}

/// Path and query, and the authority, of an absolute target (RFC 9112, 3.2.2); others pass as they are.
pub(super) fn split_absolute(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    const SCHEME: &[u8] = b"http://";
    match target.split_at_checked(SCHEME.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
            let path = if rest.get(end) == Some(&b'/') { &rest[end..] } else { b"/" };
            (path, Some(&rest[..end]))
        }
        _ => (target, None),
    }
}

/// RFC 9110, 5.6.2.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
