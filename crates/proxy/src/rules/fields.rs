//! Field sections as the rules read and write them: maps where fields change, the received lines where a hit reads two.

use http::{HeaderMap, HeaderName, HeaderValue};
use sojourn_http::head::field_lines;

/// Where the values of a field can be looked up.
pub trait Fields {
    /// Every value of the field called `name`, which is in lower case, in order.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;
}

impl Fields for HeaderMap {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }
}

/// The lines of a head that was parsed, without its first.
#[derive(Clone, Copy, Debug)]
pub struct Section<'b>(pub &'b [u8]);

impl Fields for Section<'_> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_it = move |there: &[u8]| there.eq_ignore_ascii_case(name.as_bytes());
        field_lines(self.0).filter(move |(there, _)| is_it(there)).map(|(_, value)| value)
    }
}

/// The lines of a head that was parsed as a map; `None` if they are no fields.
pub fn read(section: &[u8]) -> Option<HeaderMap> {
    let mut fields = HeaderMap::new();
    for (name, value) in field_lines(section) {
        fields.append(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
    }
    Some(fields)
}

/// Appends `fields` as lines, each name with the capitals that HTTP/1 clients are used to.
pub fn write(lines: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        let start = lines.len();
        lines.extend_from_slice(name.as_str().as_bytes());
        capitalise(&mut lines[start..]);
        for part in [b": ".as_slice(), value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
}

fn capitalise(name: &mut [u8]) {
    let usual: &[u8] = match &*name {
        b"etag" => b"ETag",
        b"www-authenticate" => b"WWW-Authenticate",
        b"te" => b"TE",
        _ => {
            let mut is_start = true;
            for byte in name {
                if is_start {
                    byte.make_ascii_uppercase();
                }
                is_start = *byte == b'-';
            }
            return;
        }
    };
    name.copy_from_slice(usual);
}

/// The members of the lists in all fields called `name`, without blanks and empty ones (RFC 9110, 5.6.1). For lists
/// whose members have no quoted strings.
pub fn members<'a>(fields: &'a impl Fields, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let split = |value: &'a [u8]| value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    fields.values(name).flat_map(split).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let section = b"ETAG: \"x\"\r\nx-a:b\r\nVary: a, ,b\r\nx-a: \xe9\r\nvary: c\r\n\r\n";
        let fields = read(section).unwrap();
        let mut lines = Vec::new();
        write(&mut lines, &fields);
        assert_eq!(lines, b"ETag: \"x\"\r\nX-A: b\r\nX-A: \xe9\r\nVary: a, ,b\r\nVary: c\r\n");
        let of_map: Vec<_> = members(&fields, "vary").collect();
        let lines = Section(section);
        let of_lines: Vec<_> = members(&lines, "vary").collect();
        assert_eq!(of_map, [b"a", b"b", b"c"]);
        assert_eq!(of_map, of_lines);
    }
}
