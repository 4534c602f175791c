//! Host names from a Host field or an absolute target, normalised so that equal hosts are equal bytes.

use std::net::Ipv6Addr;

use memchr::memchr;

use crate::token::decimal;

/// The longest host name (RFC 1035, 2.3.4), the dots included.
pub const NAME_BYTES_MAX: usize = 255;

/// The host name in lower case, without port and final dot; an IPv6 address keeps its brackets. `None` if it is too
/// long. The request parser has already checked that it is a valid host.
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

/// Returns true if `text` is a host name or address without a port, or a wildcard `*.name`.
pub fn is_name(text: &str) -> bool {
    let bare = text.strip_prefix("*.").unwrap_or(text);
    let is_address = bare.starts_with('[');
    is_host(bare.as_bytes())
        && !bare.contains(['*', '%'])
        && (if is_address { bare.ends_with(']') && bare == text } else { !bare.contains(':') })
        && bare.len() <= NAME_BYTES_MAX
}

/// Returns true if `host` is a name or address with an optional port. User info, lists and empty names are invalid.
pub fn is_host(host: &[u8]) -> bool {
    let (is_named, port) = match host.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = memchr(b']', rest) else { return false };
            (is_ip_literal(&rest[..end]), &rest[end + 1..])
        }
        None => {
            let (name, port) = host.split_at(memchr(b':', host).unwrap_or(host.len()));
            (is_dns_name(name), port)
        }
    };
    let is_port = |digits: &[u8]| digits.is_empty() || decimal(digits).is_some_and(|port| port <= 65535);
    is_named && (port.is_empty() || port.strip_prefix(b":").is_some_and(is_port))
}

/// A DNS name, with or without the final dot, or a dotted IPv4 address.
fn is_dns_name(name: &[u8]) -> bool {
    let name = name.strip_suffix(b".").unwrap_or(name);
    if is_ipv4(name) {
        return true;
    }
    let mut label_start = 0;
    for (index, byte) in name.iter().enumerate() {
        if *byte == b'.' {
            if index == label_start {
                return false;
            }
            label_start = index + 1;
        } else if !IS_LABEL[usize::from(*byte)] {
            return false;
        }
    }
    let last = &name[label_start..];
    !last.is_empty() && !is_number(last)
}

/// Bytes of a label: letters, digits, hyphens, and the underscores that some names have.
const IS_LABEL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'-' || byte as u8 == b'_';
        byte += 1;
    }
    table
};

/// Four decimal numbers without leading zeros (RFC 3986, 3.2.2: dec-octet).
fn is_ipv4(name: &[u8]) -> bool {
    let (mut dots, mut octet) = (0, None);
    for byte in name {
        octet = match (byte, octet) {
            (b'.', Some(0..=255)) => {
                dots += 1;
                None
            }
            (b'0'..=b'9', None) => Some(u32::from(byte - b'0')),
            (b'0'..=b'9', Some(number @ 1..=25)) => Some(10 * number + u32::from(byte - b'0')),
            _ => return false,
        };
    }
    dots == 3 && octet.is_some_and(|number| number <= 255)
}

/// Returns true if `label` is a number in any base of IPv4 addresses; no top-level domain is one.
fn is_number(label: &[u8]) -> bool {
    match label {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => digits[0].is_ascii_digit() && digits.iter().all(u8::is_ascii_digit),
    }
}

/// True for the text in brackets of an IPv6 address or a future address format.
fn is_ip_literal(literal: &[u8]) -> bool {
    let [b'v' | b'V', rest @ ..] = literal else {
        return str::from_utf8(literal).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    };
    let Some(dot) = memchr(b'.', rest) else { return false };
    let (version, address) = (&rest[..dot], &rest[dot + 1..]);
    let is_address = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:".contains(byte);
    [version, address].iter().all(|part| !part.is_empty())
        && version.iter().all(u8::is_ascii_hexdigit)
        && address.iter().all(is_address)
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
    fn names_of_virtual_hosts() {
        for good in
            ["localhost", "example.org", "*.example.org", "[::1]", "10.0.0.1", "xn--bcher-kva.example"]
        {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "*", "*.", "a.*.org", "example.org:80", "[::1]:80", "*.[::1]", "a b", "a/b", "[::1"] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn hosts() {
        for good in [
            "h",
            "example.org",
            "example.org.",
            "example.org.:88",
            "127.0.0.1:80",
            "AbC-d93.0.34ZhGt-s.nk.Ru",
            "0xfg.0xyz",
            "127.0.0.1.:80",
            "h:",
            "h:0",
            "h:65535",
            "under_score",
            "[::1]:8080",
            "[::1]",
            "[::1]:",
            "[4711::abcd:1]",
            "[4711:abcd::]",
            "[::ffff:12.30.67.89]",
            "[v1f.a:b~!]:8",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
    }

    #[test]
    fn refusals() {
        for bad in [
            "",
            ".",
            "..a",
            "a..:80",
            "1.2.3.4..",
            "[::1].",
            "[::1].:80",
            "h:65536",
            "h:8o",
            "h:80:",
            "a..b",
            "a..",
            "a b",
            "a,b",
            "u@h",
            "u:p@h",
            "h:x",
            "h:99999",
            "h:1:2",
            "h::80",
            "h:+1",
            ":80",
            "h/",
            "h\\",
            "h?",
            "abc\u{a0}",
            "%31",
            "a%41",
            "a!b",
            "a~b",
            "[::1",
            "[x]",
            "[]",
            "[::1]x",
            "[::1]..:98",
            "[::1%25eth0]",
            "[4711::abcd::]",
            "[12345::]",
            "[1.2.3.4]",
            "4713::abcd:8001",
            "[v.a]",
            "[v1]",
            "[v1.]",
            "[vg.a]",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn other_spellings_of_addresses() {
        for bad in [
            "017700000001",
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "127.1",
            "127.01.0.1",
            "256.0.0.1",
            "1.256.0.1",
            "0.0.0.259",
            "1.2.3",
            "1..2.3",
            "1.2.3.00",
            "1.2.3.4.5",
            "a.1",
            "0x",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
        for good in ["127.0.0.1.", "0.0.0.0", "255.255.255.255", "10.20.30.40:1"] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
    }
}
