//! Names of documents as the collector keeps them: a target, and its host if the log has one.
//!
//! A line feed separates the two, because no line contains one. Escapes are decoded at the end: once per document, not
//! once per line.

/// Target and host as one name, in a buffer that is used again.
pub fn join<'b>(buffer: &'b mut Vec<u8>, target: &[u8], host: &[u8]) -> &'b [u8] {
    buffer.clear();
    buffer.extend_from_slice(target);
    buffer.push(b'\n');
    buffer.extend_from_slice(host);
    buffer
}

/// The target and the host of a name.
pub fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'\n', name) {
        Some(end) => (&name[..end], &name[end + 1..]),
        None => (name, b""),
    }
}

/// A target as text, with backslash escapes taken out where the format has them.
pub fn spelled(target: &[u8], escapes: bool) -> String {
    if escapes && memchr::memchr(b'\\', target).is_some() {
        return String::from_utf8_lossy(&unescaped(target)).into_owned();
    }
    String::from_utf8_lossy(target).into_owned()
}

/// `\"` and `\\` (Apache), `\xHH` (Apache and nginx); any other backslash is one.
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
    fn targets_are_spelled_as_they_were_sent() {
        let check = |target: &str, expected: &str| assert_eq!(spelled(target.as_bytes(), true), expected);
        check(r"/plain", "/plain");
        check(r#"/\"x\"\\"#, r#"/"x"\"#);
        check(r"/\x22\x5C\xzz\x2", r#"/"\\xzz\x2"#);
        check(r"/\xc3\xa9\xff", "/é\u{fffd}");
        assert_eq!(spelled(br"/\x22", false), r"/\x22");
    }

    #[test]
    fn hosts_are_told_from_targets() {
        let mut buffer = Vec::new();
        assert_eq!(split(join(&mut buffer, b"/a", b"h")), (&b"/a"[..], &b"h"[..]));
        assert_eq!(split(b"/a"), (&b"/a"[..], &b""[..]));
    }
}
