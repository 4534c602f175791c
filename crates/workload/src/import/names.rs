//! Names of documents in the collector: a target, and its host if the log records it.
//!
//! A line feed separates the two, because no line contains one. Escapes are decoded at the end: once per document, not
//! once per line.

/// Longer words are no methods: the longest registered one is UPDATEREDIRECTREF (RFC 4437).
pub const METHOD_BYTES_MAX: usize = 17;

/// Joins target and host into one name in a reusable buffer.
pub fn join<'b>(buffer: &'b mut Vec<u8>, target: &[u8], host: &[u8]) -> &'b [u8] {
    buffer.clear();
    buffer.extend_from_slice(target);
    buffer.push(b'\n');
    buffer.extend_from_slice(host);
    buffer
}

/// Splits a name into target and host.
pub fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'\n', name) {
        Some(end) => (&name[..end], &name[end + 1..]),
        None => (name, b""),
    }
}

/// Normalises a target with backslashes, so that logs with and without escapes agree; `None` for a target without
/// backslashes.
pub fn spelled_alike(target: &[u8], escapes: bool) -> Option<Vec<u8>> {
    memchr::memchr(b'\\', target)?;
    let sent = if escapes { unescaped(target) } else { target.to_vec() };
    let mut name = Vec::with_capacity(sent.len() + 2);
    for byte in sent {
        match byte {
            b'\\' => name.extend_from_slice(br"\\"),
            b'\n' => name.extend_from_slice(br"\x0A"),
            other => name.push(other),
        }
    }
    Some(name)
}

/// The method if it stands before the target in a name, as in `POST /cart`: requests of such a name may be replayed with it.
/// Empty for GET, HEAD and what is no method.
pub fn method_before(method: &[u8]) -> &[u8] {
    let is_method =
        (1..=METHOD_BYTES_MAX).contains(&method.len()) && method.iter().all(u8::is_ascii_uppercase);
    if is_method && !matches!(method, b"GET" | b"HEAD") { method } else { b"" }
}

/// Puts a method of [`method_before`] before the target.
pub fn with_method<'b>(buffer: &'b mut Vec<u8>, method: &[u8], target: &[u8]) -> &'b [u8] {
    buffer.clear();
    buffer.extend_from_slice(method);
    buffer.push(b' ');
    buffer.extend_from_slice(target);
    buffer
}

/// Decodes a target to text, removing its backslash escapes.
pub fn spelled(target: &[u8]) -> String {
    if memchr::memchr(b'\\', target).is_some() {
        return String::from_utf8_lossy(&unescaped(target)).into_owned();
    }
    String::from_utf8_lossy(target).into_owned()
}

/// Decodes `\"` and `\\` (Apache) and `\xHH` (Apache and nginx); any other backslash stays.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'\\', [escaped @ (b'"' | b'\\'), after @ ..]) => {
                out.push(*escaped);
                rest = after;
            }
            (b'\\', [b'x', high, low, after @ ..]) if hexadecimal(*high, *low).is_some() => {
                out.extend(hexadecimal(*high, *low));
                rest = after;
            }
            _ => out.push(byte),
        }
    }
    out
}

fn hexadecimal(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_methods_stand_before_their_targets() {
        for method in ["GET", "HEAD", "post", "", &"X".repeat(18)] {
            assert_eq!(method_before(method.as_bytes()), b"", "{method}");
        }
        let mut buffer = Vec::new();
        assert_eq!(with_method(&mut buffer, method_before(b"POST"), b"/cart"), b"POST /cart");
    }

    #[test]
    fn targets_are_spelled_as_they_were_sent() {
        let check = |target: &str, expected: &str| assert_eq!(spelled(target.as_bytes()), expected);
        check(r"/plain", "/plain");
        check(r#"/\"x\"\\"#, r#"/"x"\"#);
        check(r"/\x22\x5C\xzz\x2", r#"/"\\xzz\x2"#);
        check(r"/\xc3\xa9\xff", "/é\u{fffd}");
    }

    #[test]
    fn names_do_not_depend_on_the_escapes_of_their_log() {
        let alike = |target: &str, escapes| {
            spelled_alike(target.as_bytes(), escapes).map(|name| String::from_utf8(name).unwrap())
        };
        for (target, escapes) in [(r"/a\\b", true), (r"/a\x5Cb", true), (r"/a\b", false)] {
            assert_eq!(alike(target, escapes).unwrap(), r"/a\\b", "{target}");
        }
        assert_eq!(
            alike(r"/\x0A\x22", true).unwrap(),
            r#"/\x0A""#,
            "a line feed separates a name and its host"
        );
        assert_eq!(alike("/plain", true), None);
        assert_eq!(spelled(br"/\x0A\\"), "/\n\\");
    }

    #[test]
    fn hosts_are_told_from_targets() {
        let mut buffer = Vec::new();
        assert_eq!(split(join(&mut buffer, b"/a", b"h")), (&b"/a"[..], &b"h"[..]));
        assert_eq!(split(b"/a"), (&b"/a"[..], &b""[..]));
    }
}
