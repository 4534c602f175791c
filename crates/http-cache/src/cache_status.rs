//! The Cache-Status field (RFC 9211): how this cache handled a request, for people and tools.

use sojourn_http::head;

/// Why a request was forwarded to the origin (RFC 9211, 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// The cache forwards all requests of this kind.
    Bypass,
    Method,
    /// Nothing was stored under the URI.
    UriMiss,
    /// Responses are stored under the URI, but none matches the request fields named in their Vary.
    VaryMiss,
    /// A stored response was usable, but the request's cache directives forbade it.
    Request,
    Stale,
    /// Only some of the requested bytes are stored.
    Partial,
}

impl Forwarded {
    fn token(self) -> &'static str {
        match self {
            Forwarded::Bypass => "bypass",
            Forwarded::Method => "method",
            Forwarded::UriMiss => "uri-miss",
            Forwarded::VaryMiss => "vary-miss",
            Forwarded::Request => "request",
            Forwarded::Stale => "stale",
            Forwarded::Partial => "partial",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Why the request was forwarded; `None` for a hit.
    pub forwarded: Option<Forwarded>,
    /// The origin's status, if the client gets a different one.
    pub origin_status: Option<u16>,
    /// Remaining freshness lifetime in seconds; negative if the response is stale.
    pub ttl_seconds: Option<i64>,
    pub is_stored: bool,
    /// True if this request was coalesced with others (RFC 9211 calls it collapsed).
    pub is_collapsed: bool,
    pub key: Option<&'a [u8]>,
    /// A token with more detail, such as the reason why the response is not stored.
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Appends the field line of the cache called `name`. Caches nearer to the origin come first.
    pub fn append(&self, text: &mut Vec<u8>, name: &str) {
        text.extend_from_slice(b"Cache-Status: ");
        append_name(text, name);
        match self.forwarded {
            None => text.extend_from_slice(b"; hit"),
            Some(why) => {
                text.extend_from_slice(b"; fwd=");
                text.extend_from_slice(why.token().as_bytes());
            }
        }
        if let Some(status) = self.origin_status {
            text.extend_from_slice(b"; fwd-status=");
            head::decimal(text, status.into());
        }
        if let Some(seconds) = self.ttl_seconds {
            text.extend_from_slice(if seconds < 0 { b"; ttl=-".as_slice() } else { b"; ttl=" });
            head::decimal(text, seconds.unsigned_abs());
        }
        // RFC 9211, 2.5 and 2.6: both parameters apply only to forwarded requests.
        if self.forwarded.is_some() && self.is_stored {
            text.extend_from_slice(b"; stored");
        }
        if self.forwarded.is_some() && self.is_collapsed {
            text.extend_from_slice(b"; collapsed");
        }
        for (name, value) in [("key", self.key), ("detail", self.detail.map(str::as_bytes))] {
            // A structured string holds only visible ASCII (RFC 9651, 3.3.3); other values are left out.
            if let Some(value) = value.filter(|value| value.iter().all(|byte| (0x20..0x7f).contains(byte))) {
                text.extend_from_slice(b"; ");
                text.extend_from_slice(name.as_bytes());
                text.push(b'=');
                append_string(text, value);
            }
        }
        text.extend_from_slice(b"\r\n");
    }
}

/// Appends a token if `name` is one (RFC 9651, 3.3.4), otherwise a string.
fn append_name(text: &mut Vec<u8>, name: &str) {
    let is_token = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| sojourn_http::token::is_token(byte) || matches!(byte, b':' | b'/'));
    if is_token {
        text.extend_from_slice(name.as_bytes());
    } else {
        append_string(text, name.as_bytes());
    }
}

fn append_string(text: &mut Vec<u8>, value: &[u8]) {
    text.push(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(status: CacheStatus<'_>, name: &str) -> String {
        let mut text = Vec::new();
        status.append(&mut text, name);
        let line = String::from_utf8(text).unwrap();
        let value = line.strip_prefix("Cache-Status: ").unwrap().trim_end();
        sfv::Parser::new(value).parse::<sfv::List>().expect("a list of structured fields");
        value.to_owned()
    }

    #[test]
    fn lines() {
        let plain = CacheStatus::default();
        assert_eq!(line(CacheStatus { ttl_seconds: Some(376), ..plain }, "edge"), "edge; hit; ttl=376");
        assert_eq!(
            line(CacheStatus { ttl_seconds: Some(-5), is_stored: true, ..plain }, "a:1"),
            "a:1; hit; ttl=-5"
        );
        let revalidated = CacheStatus {
            forwarded: Some(Forwarded::Stale),
            origin_status: Some(304),
            is_stored: true,
            is_collapsed: true,
            ..plain
        };
        assert_eq!(line(revalidated, "edge"), "edge; fwd=stale; fwd-status=304; stored; collapsed");
        let keyed = CacheStatus {
            forwarded: Some(Forwarded::VaryMiss),
            key: Some(b"http://a/\"\\"),
            detail: Some("private"),
            ..plain
        };
        assert_eq!(
            line(keyed, "1 a"),
            "\"1 a\"; fwd=vary-miss; key=\"http://a/\\\"\\\\\"; detail=\"private\""
        );
        assert_eq!(line(CacheStatus { key: Some(b"\xe9"), ..plain }, "edge"), "edge; hit");
    }
}
