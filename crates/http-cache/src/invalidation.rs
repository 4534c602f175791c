//! Invalidation of stored responses after unsafe requests (RFC 9111, 4.4).

use super::fields::Section;
use super::key::{Spelling, Target};

/// Safe methods (RFC 9110, 9.2.1, and the registry). Any other may change the resource.
const SAFE: [&[u8]; 8] = [b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PROPFIND", b"REPORT", b"SEARCH", b"QUERY"];

/// The keys that this response invalidates, with all variants stored under them: the target's, and those of Location
/// and Content-Location if they have the same origin. Error responses invalidate nothing.
pub fn invalidated(method: &[u8], target: &Target<'_>, status: u16, received: Section<'_>) -> Vec<Vec<u8>> {
    if SAFE.contains(&method) || !(200..400).contains(&status) {
        return Vec::new();
    }
    let named = ["location", "content-location"].into_iter().flat_map(|name| received.values(name));
    let mut keys = vec![target.key()];
    keys.extend(named.filter_map(|reference| resolved(target, reference)));
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Returns true if Content-Location says that the response is a representation of `target` itself (RFC 9110, 8.7 and
/// 9.3.3).
pub fn is_own_content(target: &Target<'_>, received: Section<'_>) -> bool {
    let mut named = received.values("content-location");
    let own = target.key();
    named.next().is_some_and(|reference| resolved(target, reference) == Some(own)) && named.next().is_none()
}

/// The cache key of `reference` resolved against `base` (RFC 3986, 5.2), if both have the same origin.
fn resolved(base: &Target<'_>, reference: &[u8]) -> Option<Vec<u8>> {
    let end = reference.iter().position(|byte| *byte == b'#').unwrap_or(reference.len());
    let reference = &reference[..end];
    let (scheme, rest) = split_scheme(reference);
    let scheme = scheme.map(<[u8]>::to_ascii_lowercase);
    let origin = base.origin();
    if scheme.as_ref().is_some_and(|scheme| *scheme != base.scheme.as_bytes()) {
        return None;
    }
    if let Some(authority) = rest.strip_prefix(b"//") {
        let end = authority.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(authority.len());
        let (host, target) = authority.split_at(end);
        let there = Target { host, target, ..*base };
        return (there.origin() == origin).then(|| keyed(origin, target, base.spelling));
    }
    // A scheme without an authority cannot name a resource of this origin.
    scheme.is_none().then(|| {
        let (base_path, base_query) = split_query(base.target);
        let (path, query) = split_query(rest);
        let target = match (path, query) {
            ([], []) => [base_path, base_query].concat(),
            ([], query) => [base_path, query].concat(),
            ([b'/', ..], query) => [path, query].concat(),
            (path, query) => {
                let directory = base_path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
                [&base_path[..directory], path, query].concat()
            }
        };
        keyed(origin, &target, base.spelling)
    })
}

fn keyed(mut origin: Vec<u8>, target: &[u8], spelling: Spelling) -> Vec<u8> {
    let (path, query) = split_query(target);
    origin.extend_from_slice(&spelling.of(&[&without_dots(path), query].concat()));
    origin
}

/// The scheme before the first colon, if it is a valid one.
fn split_scheme(reference: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(colon) = reference.iter().position(|byte| *byte == b':') else { return (None, reference) };
    let (scheme, rest) = (&reference[..colon], &reference[colon + 1..]);
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if is_scheme { (Some(scheme), rest) } else { (None, reference) }
}

/// The path, and the query with its leading `?`.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    target.split_at(target.iter().position(|byte| *byte == b'?').unwrap_or(target.len()))
}

/// Removes dot segments (RFC 3986, 5.2.4).
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let last = segments.len() - 1;
    for (index, segment) in segments.into_iter().enumerate() {
        match segment {
            b"." | b".." => {
                if segment == b".." && kept.len() > 1 {
                    kept.pop();
                }
                if index == last {
                    kept.push(b"");
                }
            }
            segment => kept.push(segment),
        }
    }
    kept.join(b"/".as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Target<'_> =
        Target { scheme: "http", host: b"Example.org:80", target: b"/a/b?c", spelling: Spelling::Normalised };

    fn keys(method: &str, status: u16, received: &str) -> Vec<String> {
        let keys = invalidated(method.as_bytes(), &BASE, status, Section(received.as_bytes()));
        keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
    }

    /// RFC 9110, 8.7: how Content-Location relates to the target.
    #[test]
    fn whose_content_it_is() {
        let is_own = |received: &str| is_own_content(&BASE, Section(received.as_bytes()));
        for own in ["/a/b?c", "http://example.org/a/b?c", "?c", "b?c", "//EXAMPLE.org:80/a/%62?c#d"] {
            assert!(is_own(&format!("Content-Location: {own}\r\n")), "{own}");
        }
        for other in ["/a/b", "/a/b?d", "https://example.org/a/b?c", "http://other/a/b?c"] {
            assert!(!is_own(&format!("Content-Location: {other}\r\n")), "{other}");
        }
        assert!(!is_own("") && !is_own("Location: /a/b?c\r\n"));
        assert!(!is_own("Content-Location: /a/b?c\r\nContent-Location: /a/b?c\r\n"), "one of them is wrong");
    }

    #[test]
    fn methods_and_statuses() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "post", "get"] {
            for status in [200, 204, 299, 301, 303] {
                assert_eq!(keys(method, status, ""), ["http://example.org/a/b?c"], "{method}");
            }
            for status in [100, 400, 404, 500, 503] {
                assert_eq!(keys(method, status, ""), [""; 0], "{method}");
            }
        }
        for safe in ["GET", "HEAD", "OPTIONS", "PROPFIND"] {
            assert_eq!(keys(safe, 200, "Location: /x\r\n"), [""; 0], "{safe}");
        }
    }

    #[test]
    fn what_is_named() {
        let named = |reference: &str| {
            let mut keys = keys("POST", 201, &format!("Location: {reference}\r\n"));
            keys.retain(|key| key != "http://example.org/a/b?c");
            keys.pop()
        };
        for (reference, path) in [
            ("/x", "/x"),
            ("x", "/a/x"),
            ("../x", "/x"),
            ("../../../x/.", "/x/"),
            ("./x/../y?z#f", "/a/y?z"),
            ("?q", "/a/b?q"),
            ("#f", ""),
            ("", ""),
            ("x:y/z", "no"),
            ("./x:y", "/a/x:y"),
            ("1x:y", "/a/1x:y"),
            ("http://EXAMPLE.org/x%2f", "/x%2F"),
            ("HTTP://example.org:80", "/"),
            ("//example.org?q", "/?q"),
            ("https://example.org/x", "no"),
            ("http://example.org:81/x", "no"),
            ("http://evil.example/x", "no"),
            ("//evil.example/x", "no"),
            ("http://u@example.org/x", "no"),
            ("http:/x", "no"),
        ] {
            let expected = match path {
                "" | "no" => None,
                path => Some(format!("http://example.org{path}")),
            };
            assert_eq!(named(reference), expected, "{reference}");
        }
        let both = keys("PUT", 200, "Location: /x\r\nContent-Location: /y\r\nLocation: /x\r\n");
        assert_eq!(both.len(), 3);
    }
}
