//! The primary cache key: the target URI, normalised only where all origins must treat two spellings alike.
//!
//! Requests with the same key get the same response. If the key merged spellings that some origin distinguishes, one
//! client could choose what others get (cache poisoning). The forwarded request has the same normalised target. The key
//! leaves out the following, so a stored response must not depend on them: every field but Host and those in Vary, the
//! body of the request (such requests are not stored), the client's address, the version, the method (GET and HEAD
//! share a key).

use std::borrow::Cow;

use sojourn_http::head;
use sojourn_http::token::decimal;

/// The parts of a request's target URI. With an absolute target the host is the target's, not the Host field's.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// `http` or `https`, in lower case.
    pub scheme: &'a str,
    pub host: &'a [u8],
    pub target: &'a [u8],
    pub spelling: Spelling,
}

/// Which spellings of a path share a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// Spellings that RFC 3986, 6.2.2 calls equivalent. For a gateway, which knows its origin.
    #[default]
    Normalised,
    /// Only an empty path and `/`. A proxy must not change other paths (RFC 9110, 7.7).
    Kept,
}

impl Spelling {
    pub fn of(self, target: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Spelling::Normalised => normalised(target),
            Spelling::Kept => rooted(target),
        }
    }
}

impl Target<'_> {
    /// The key: scheme, host in lower case, the port unless it is the scheme's default, and the normalised target.
    pub fn key(&self) -> Vec<u8> {
        let mut key = self.origin();
        key.extend_from_slice(&self.spelling.of(self.target));
        key
    }

    /// The key's part before the path, which is equal for equal origins (RFC 9110, 4.3.1).
    pub(super) fn origin(&self) -> Vec<u8> {
        let mut origin = Vec::with_capacity(self.scheme.len() + self.host.len() + self.target.len() + 8);
        origin.extend_from_slice(self.scheme.as_bytes());
        origin.extend_from_slice(b"://");
        append_host(&mut origin, self.scheme, self.host);
        origin
    }
}

/// The host for the key and for the forwarded request: in lower case, with the port unless it is the scheme's default.
/// One client's spelling must not influence what is stored for others.
pub fn normalised_host<'a>(scheme: &str, host: &'a [u8]) -> Cow<'a, [u8]> {
    let (name, port) = split_port(host);
    let is_written_so = match (port, &host[name.len()..]) {
        (None, text) => text.is_empty(),
        (Some(port), [_, text @ ..]) => {
            port != default_port(scheme) && (!text.starts_with(b"0") || text.len() == 1)
        }
        (Some(_), []) => false,
    };
    if is_written_so && !name.iter().any(u8::is_ascii_uppercase) {
        return Cow::Borrowed(host);
    }
    let mut normal = Vec::with_capacity(host.len());
    append_host(&mut normal, scheme, host);
    Cow::Owned(normal)
}

fn default_port(scheme: &str) -> u16 {
    if scheme == "https" { 443 } else { 80 }
}

fn append_host(text: &mut Vec<u8>, scheme: &str, host: &[u8]) {
    let (name, port) = split_port(host);
    let name_start = text.len();
    text.extend_from_slice(name);
    text[name_start..].make_ascii_lowercase();
    if let Some(port) = port.filter(|port| *port != default_port(scheme)) {
        text.push(b':');
        head::decimal(text, port.into());
    }
}

/// The target, with `/` for an empty path.
pub fn rooted(target: &[u8]) -> Cow<'_, [u8]> {
    match target {
        [b'?', ..] | [] => Cow::Owned([b"/", target].concat()),
        _ => Cow::Borrowed(target),
    }
}

/// The target for the key and for the forwarded request. In the path, escapes get capital digits, letters, digits, `-`,
/// `_` and `~` lose theirs (RFC 3986, 6.2.2); an empty path becomes `/`. A path with an invalid escape stays unchanged.
/// So do dots, escaped or not, and the query, because too many origins distinguish them.
pub fn normalised(target: &[u8]) -> Cow<'_, [u8]> {
    let path_end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(path_end);
    if !path.is_empty() && !path.contains(&b'%') {
        return Cow::Borrowed(target);
    }
    let mut normal = Vec::with_capacity(target.len() + 1);
    if path.is_empty() {
        normal.push(b'/');
    }
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            normal.push(*first);
            continue;
        }
        // An invalid `%` could become an escape once the bytes after it are unescaped.
        let Some(byte) = escaped(after) else { return Cow::Borrowed(target) };
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            normal.push(byte);
        } else {
            normal.push(b'%');
            normal.extend(after[..2].iter().map(u8::to_ascii_uppercase));
        }
        rest = &after[2..];
    }
    normal.extend_from_slice(query);
    Cow::Owned(normal)
}

/// Decodes the two hexadecimal digits after `%`.
fn escaped(after: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    match after {
        [high, low, ..] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    }
}

/// Host name and explicit port.
fn split_port(host: &[u8]) -> (&[u8], Option<u16>) {
    let name_end = match host {
        [b'[', ..] => host.iter().position(|byte| *byte == b']').map_or(0, |bracket| bracket + 1),
        _ => 0,
    };
    match host[name_end..].iter().position(|byte| *byte == b':') {
        None => (host, None),
        Some(colon) => {
            let (name, port) = host.split_at(name_end + colon);
            (name, decimal(&port[1..]).and_then(|port| port.try_into().ok()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(scheme: &str, host: &str, target: &str) -> String {
        let target = Target {
            scheme,
            host: host.as_bytes(),
            target: target.as_bytes(),
            spelling: Spelling::Normalised,
        };
        String::from_utf8(target.key()).unwrap()
    }

    #[test]
    fn what_is_the_same() {
        for (scheme, host, target) in [
            ("http", "example.org", "/a%2fb?x=%2f"),
            ("http", "EXAMPLE.org:80", "/a%2Fb?x=%2f"),
            ("http", "example.org:", "/%61%2fb?x=%2f"),
            ("http", "example.org:080", "/%61%2Fb?x=%2f"),
        ] {
            assert_eq!(key(scheme, host, target), "http://example.org/a%2Fb?x=%2f", "{host} {target}");
        }
        assert_eq!(key("http", "a", ""), "http://a/");
        assert_eq!(key("http", "a", "?q"), "http://a/?q");
        assert_eq!(key("http", "a", "/%%61b"), "http://a/%%61b", "not %ab");
        assert_eq!(key("https", "[::A]:443", "/"), "https://[::a]/");
        assert_eq!(key("https", "[::a]:80", "/"), "https://[::a]:80/");
    }

    #[test]
    fn kept_spellings() {
        let key = |target: &str| {
            let spelling = Spelling::Kept;
            String::from_utf8(
                Target { scheme: "http", host: b"A:80", target: target.as_bytes(), spelling }.key(),
            )
        };
        for (target, expected) in [("?q", "/?q"), ("/%7euser", "/%7euser"), ("/~user", "/~user")] {
            assert_eq!(key(target).unwrap(), format!("http://a{expected}"));
        }
        let check = |scheme: &str, host: &str, expected: &str| {
            let found = normalised_host(scheme, host.as_bytes());
            assert_eq!(*found, *expected.as_bytes(), "{host}");
            assert_eq!(matches!(found, Cow::Borrowed(_)), host == expected, "{host}");
        };
        check("https", "A.example:443", "a.example");
        check("http", "[::A]:0443", "[::a]:443");
        check("http", "a.example:0443", "a.example:443");
        check("http", "a.example:", "a.example");
        check("http", "a.example:80", "a.example");
        for same in ["a.example", "a.example:443", "[::a]:8080", ""] {
            check("http", same, same);
        }
    }

    #[test]
    fn what_is_not() {
        let all = [
            key("http", "a", "/"),
            key("https", "a", "/"),
            key("http", "a:443", "/"),
            key("http", "a.", "/"),
            key("http", "a", "//"),
            key("http", "a", "/?"),
            key("http", "a", "/%2e"),
            key("http", "a", "/."),
            key("http", "a", "/%2F"),
            key("http", "a", "/x?a=%41"),
            key("http", "a", "/x?a=A"),
            key("http", "a", "/X"),
            key("http", "a", "/x/../y"),
            key("http", "a", "/y"),
            key("http", "a", "/%zz"),
            key("http", "a", "/%"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one), "{one}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(target in "/[a-f0-9%.~/?-]{0,30}") {
            let once = normalised(target.as_bytes()).into_owned();
            prop_assert_eq!(normalised(&once).into_owned(), once);
        }
    }
}
