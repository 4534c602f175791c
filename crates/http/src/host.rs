//! The name in a Host field or an absolute target, so that equal hosts are equal bytes.

/// The longest name of a host (RFC 1035, 2.3.4), the dots included.
pub const NAME_BYTES_MAX: usize = 255;

/// The name in `host` without port and final dot, in lower case; an address keeps its brackets. `None` if it is
/// longer than any name. That it is a host at all was seen when the request was read.
pub fn name<'a>(host: &[u8], buffer: &'a mut [u8; NAME_BYTES_MAX]) -> Option<&'a [u8]> {
    let end = match host.iter().rposition(|byte| *byte == b']') {
        Some(bracket) => bracket + 1,
        None => host.iter().position(|byte| *byte == b':').unwrap_or(host.len()),
    };
    let bare = host[..end].strip_suffix(b".").unwrap_or(&host[..end]);
    let lower = buffer.get_mut(..bare.len())?;
    lower.copy_from_slice(bare);
    lower.make_ascii_lowercase();
    Some(lower)
}

/// Whether `text` can name a host: a name or an address without a port, or `*.` and a name.
pub fn is_name(text: &str) -> bool {
    let bare = text.strip_prefix("*.").unwrap_or(text);
    let is_address = bare.starts_with('[');
    crate::request::is_host(bare.as_bytes())
        && !bare.contains(['*', '%'])
        && (if is_address { bare.ends_with(']') && bare == text } else { !bare.contains(':') })
        && bare.len() <= NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hosts_are_equal_bytes() {
        for (host, expected) in [
            ("example.org", "example.org"),
            ("Example.ORG.:8080", "example.org"),
            ("example.org:", "example.org"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[FE80::1]:8080", "[fe80::1]"),
        ] {
            assert_eq!(name(host.as_bytes(), &mut [0; NAME_BYTES_MAX]), Some(expected.as_bytes()), "{host}");
        }
        assert_eq!(name(&[b'a'; NAME_BYTES_MAX + 1], &mut [0; NAME_BYTES_MAX]), None);
    }

    #[test]
    fn names() {
        for good in
            ["localhost", "example.org", "*.example.org", "[::1]", "10.0.0.1", "xn--bcher-kva.example"]
        {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "*", "*.", "a.*.org", "example.org:80", "[::1]:80", "*.[::1]", "a b", "a/b", "[::1"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
