//! Field sections for the caching rules: the received lines, not copied.
//!
//! They are not put into a map: a message has a dozen fields, of which a rule reads one or two. Forwarded fields also
//! keep the spelling of their names, on which careless clients depend.

use sojourn_http::head::{field_lines, whole_lines};

/// The field lines of a strictly parsed head, without its start line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section<'b>(pub &'b [u8]);

impl<'b> Section<'b> {
    /// Names and values in order.
    pub fn lines(self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        field_lines(self.0)
    }

    /// The same, each behind the whole line with its end.
    pub fn whole_lines(self) -> impl Iterator<Item = (&'b [u8], &'b [u8], &'b [u8])> {
        whole_lines(self.0)
    }

    /// Every value of the field called `name`, in order.
    pub fn values<'a>(self, name: &'a str) -> impl Iterator<Item = &'b [u8]> + use<'a, 'b> {
        let is_it = move |there: &[u8]| there.eq_ignore_ascii_case(name.as_bytes());
        self.lines().filter(move |(there, _)| is_it(there)).map(|(_, value)| value)
    }

    pub fn has(self, name: &str) -> bool {
        self.lines().any(|(there, _)| there.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// The members of the lists in all fields called `name`, trimmed, without empty ones (RFC 9110, 5.6.1). Only for
    /// lists whose members have no quoted strings.
    pub fn members<'a>(self, name: &'a str) -> impl Iterator<Item = &'b [u8]> + use<'a, 'b> {
        let split = |value: &'b [u8]| value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        self.values(name).flat_map(split).filter(|member| !member.is_empty())
    }
}

/// Appends a field line whose value is the concatenation of `parts`.
pub fn append_line(text: &mut Vec<u8>, name: &[u8], parts: &[&[u8]]) {
    text.extend_from_slice(name);
    text.extend_from_slice(b": ");
    parts.iter().for_each(|part| text.extend_from_slice(part));
    text.extend_from_slice(b"\r\n");
}

/// A set of field names in lower case. Most names that are not in it are ruled out by their length and first letter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<const COUNT: usize> {
    names: [&'static str; COUNT],
    /// The bits of the names in it.
    marks: u64,
}

impl<const COUNT: usize> Names<COUNT> {
    pub const fn new(names: [&'static str; COUNT]) -> Names<COUNT> {
        let (mut marks, mut index) = (0, 0);
        while index < COUNT {
            marks |= mark(names[index].as_bytes());
            index += 1;
        }
        Names { names, marks }
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.marks & mark(name) != 0 && is_one_of(name, &self.names)
    }
}

/// A bit for a name in any case; other names may have the same.
const fn mark(name: &[u8]) -> u64 {
    match name.first() {
        Some(first) => 1 << ((name.len() + 5 * (*first | 0x20) as usize) % u64::BITS as usize),
        None => 0,
    }
}

/// Compares case-insensitively; `names` must be in lower case.
pub(super) fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_their_case() {
        const SOME: Names<2> = Names::new(["te", "keep-alive"]);
        for (name, has) in
            [("TE", true), ("Keep-Alive", true), ("xx", false), ("", false), (&"x".repeat(66), false)]
        {
            assert_eq!(SOME.has(name.as_bytes()), has, "{name}");
        }
    }

    #[test]
    fn values_and_members() {
        let section = Section(b"ETAG: \"x\"\r\nx-a:b\r\nVary: a, ,b\r\nx-a: \xe9\r\nvary: c\r\n\r\n");
        assert_eq!(section.values("x-a").collect::<Vec<_>>(), [b"b".as_slice(), b"\xe9"]);
        assert_eq!(section.members("vary").collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert!(section.has("etag") && !section.has("x-b"));
    }
}
