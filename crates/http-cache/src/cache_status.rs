//! Cache-Status (RFC 9211): what this cache did with a request, for people and tools.

use sojourn_http::head;

/// Why a request went on to the origin (RFC 9211, 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// The cache forwards everything of this kind.
    Bypass,
    Method,
    /// Nothing was stored under the URI.
    UriMiss,
    /// Nothing stored under the URI matched what it varies by.
    VaryMiss,
    /// It could have been answered, but the client's directives forbade that.
    Request,
    Stale,
    /// Only parts of what was asked for are stored.
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

/// The contents of Cache-Status for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Why it went to the origin; a hit if it did not.
    pub forwarded: Option<Forwarded>,
    /// The origin's status, if the client gets another.
    pub origin_status: Option<u16>,
    /// For how long the response is fresh; negative if it is stale.
    pub ttl_seconds: Option<i64>,
    pub is_stored: bool,
    /// True if the request was coalesced with others.
    pub is_collapsed: bool,
    pub key: Option<&'a [u8]>,
    /// More, a token such as a reason not to store.
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// Appends the field line of the cache called `name`, after those of caches nearer to the origin.
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
        // RFC 9211, 2.5 and 2.6: both are about requests that were forwarded.
        if self.forwarded.is_some() && self.is_stored {
            text.extend_from_slice(b"; stored");
        }
        if self.forwarded.is_some() && self.is_collapsed {
            text.extend_from_slice(b"; collapsed");
        }
        for (name, value) in [("key", self.key), ("detail", self.detail.map(str::as_bytes))] {
            // A string holds visible ASCII alone (RFC 9651, 3.3.3); what is not that cannot be said.
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

/// A token if it is one (RFC 9651, 3.3.4), else a string.
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
