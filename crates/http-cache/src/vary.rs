//! Vary and secondary keys: which request fields selected a response, and whether another request would get the same
//! one (RFC 9111, 4.1).
//!
//! The values of those fields make the secondary key. Normalisation keeps the meaning: lines of one field are joined,
//! in preference lists whitespace around commas and semicolons, case and order are removed, and in other lists whitespace
//! around commas. Fields that are no lists are only trimmed. Other whitespace counts: an origin may read `d e` unlike `de`.

use sojourn_http::token::is_token;

use super::fields::Section;
use super::forward::is_set_here;

/// Fields compared without regard to case, order, and whitespace around separators: weights express the preference, not the order.
const PREFERENCES: [&str; 3] = ["accept-encoding", "accept-language", "accept-charset"];

/// Fields whose values may have commas although they are no lists. Every other field is a list, or has no commas outside
/// quoted strings, as RFC 9110, 5.5 asks of new fields.
const NO_LISTS: [&str; 6] = ["authorization", "cookie", "from", "origin", "referer", "user-agent"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vary {
    /// Sorted names in lower case without duplicates, separated by `,`.
    names: String,
}

impl Vary {
    /// Reads Vary; `None` (never reusable) if it has `*`, an invalid name, or a field that this proxy sets itself and
    /// clients therefore cannot match. Host is skipped because it is in the primary key.
    pub fn of(fields: Section<'_>) -> Option<Vary> {
        let mut names = Vec::new();
        for member in fields.members("vary") {
            let name = std::str::from_utf8(member).ok()?.to_ascii_lowercase();
            if name == "*" || is_set_here(&name) || !name.bytes().all(is_token) {
                return None;
            }
            if name != "host" {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        Some(Vary { names: names.join(",") })
    }

    /// Returns true if the response does not vary.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names, separated by `,`.
    pub fn as_str(&self) -> &str {
        &self.names
    }
}

/// The secondary key of a request for a response that varies by `names`, separated by `,`. It contains the names too,
/// so responses that vary by different fields never share a key.
pub fn secondary_key(names: &str, request: Section<'_>) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES_USUAL);
    for name in names.split(',').filter(|name| !name.is_empty()) {
        key.extend_from_slice(name.as_bytes());
        let mut values = request.values(name).peekable();
        // An absent field matches only an absent one; an empty field is distinguished by its colon.
        if values.peek().is_some() {
            key.push(b':');
            if PREFERENCES.contains(&name) {
                append_preference(&mut key, values);
            } else {
                let is_list = !NO_LISTS.contains(&name);
                for (index, value) in values.enumerate() {
                    if index > 0 {
                        key.push(b',');
                    }
                    if is_list {
                        append_list(&mut key, value);
                    } else {
                        key.extend_from_slice(value);
                    }
                }
            }
        }
        key.push(b'\n');
    }
    key
}

const KEY_BYTES_USUAL: usize = 128;

/// Appends the members sorted, deduplicated, in lower case and without whitespace around semicolons.
fn append_preference<'b>(key: &mut Vec<u8>, values: impl Iterator<Item = &'b [u8]>) {
    let normal = |member: &'b [u8]| {
        let parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).enumerate();
        parts.flat_map(|(index, part)| {
            let separator = (index > 0).then_some(b';');
            separator.into_iter().chain(part.iter().map(u8::to_ascii_lowercase))
        })
    };
    let split = |value: &'b [u8]| value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut members: Vec<&[u8]> = values.flat_map(split).filter(|member| !member.is_empty()).collect();
    members.sort_unstable_by(|one, other| normal(one).cmp(normal(other)));
    members.dedup_by(|one, other| normal(one).eq(normal(other)));
    for (index, member) in members.into_iter().enumerate() {
        key.extend_from_slice(if index == 0 { b"" } else { b"," });
        key.extend(normal(member));
    }
}

/// Appends one line of a list without the whitespace around commas, unless a comma is in a quoted string (RFC 9110, 5.6).
fn append_list(key: &mut Vec<u8>, value: &[u8]) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    // Where whitespace after the last comma, and whitespace before the next one, begins in the key.
    let (mut member, mut text_end) = (key.len(), key.len());
    for &byte in value {
        if !is_quoted && byte == b',' {
            key.truncate(text_end);
            key.push(byte);
            (member, text_end) = (key.len(), key.len());
            continue;
        }
        let is_blank = matches!(byte, b' ' | b'\t');
        if is_blank && !is_quoted && key.len() == member {
            continue;
        }
        key.push(byte);
        if is_quoted || !is_blank {
            text_end = key.len();
        }
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vary(values: &[&str]) -> Option<Vary> {
        let lines: String = values.iter().map(|value| format!("Vary: {value}\r\n")).collect();
        Vary::of(Section(lines.as_bytes()))
    }

    #[test]
    fn names() {
        assert_eq!(vary(&["Foo, bar", "FOO,,"]).unwrap().as_str(), "bar,foo");
        assert_eq!(vary(&["Host, foo"]).unwrap().as_str(), "foo");
        assert!(vary(&[]).unwrap().is_empty() && vary(&[", "]).unwrap().is_empty());
        for star in [
            &["*"][..],
            &["*, *"],
            &["foo, *"],
            &["*,foo"],
            &[", *"],
            &["foo", "*"],
            &["a b"],
            &["X-Forwarded-For"],
            &["via"],
        ] {
            assert_eq!(vary(star), None, "{star:?}");
        }
    }

    fn same(names: &str, one: &str, other: &str) -> bool {
        let key = |lines: &str| secondary_key(names, Section(lines.as_bytes()));
        key(one) == key(other)
    }

    #[test]
    fn what_matches() {
        assert!(same("foo", "Foo: 1\r\nBar: 2\r\n", "bar: 3\r\nfoo:  1 \r\n"));
        assert!(same("foo", "Foo: 1\r\nFoo: 2\r\n", "Foo: 1, 2\r\n"));
        assert!(same("foo", "Foo: 1,2\r\n", "Foo:  1\t,  2 \r\n"));
        assert!(same("foo", "Foo: \"a, b\",c d\r\n", "Foo: \"a, b\" , c d\r\n"));
        assert!(same("bar,foo", "", ""));
        assert!(same(
            "accept-encoding",
            "Accept-Encoding: gzip, br;q=0.5\r\n",
            "accept-encoding: BR ;\tq=0.5,gzip\r\n"
        ));
        assert!(same(
            "accept-language",
            "Accept-Language: de\r\nAccept-Language: en\r\n",
            "accept-language: EN , de\r\n"
        ));
    }

    #[test]
    fn what_does_not() {
        assert!(!same("foo", "Foo: 1\r\n", "Foo: 2\r\n"));
        assert!(!same("foo", "Foo: a\r\n", "Foo: A\r\n"));
        assert!(!same("foo", "Foo:\r\n", ""), "an empty field is not an absent one");
        assert!(!same("foo", "Foo: 1, 2\r\n", "Foo: 1 2\r\n"));
        assert!(!same("foo", "Foo: a b, c\r\n", "Foo: ab, c\r\n"));
        assert!(!same("foo", "Foo: \"a, b\"\r\n", "Foo: \"a,b\"\r\n"), "a quoted comma separates nothing");
        assert!(!same("foo", "Foo: \"\\\", b\"\r\n", "Foo: \"\\\",b\"\r\n"), "an escaped quote ends nothing");
        assert!(!same("cookie", "Cookie: a=b, c\r\n", "Cookie: a=b,c\r\n"));
        assert!(!same("bar,foo", "Foo: 1\r\n", "Bar: 1\r\n"));
        assert!(!same("bar,foo", "Bar: 1\r\n", "Foo: 1\r\nBar: 1\r\n"));
        assert!(!same("accept-encoding", "Accept-Encoding: gzip\r\n", "Accept-Encoding: gzip;q=0\r\n"));
        for (one, other) in
            [("de-DE,de;q=0.9", "d e-DE,de;q=0. 9"), ("de", "d\te"), ("de;q=0", "de;q= 0"), ("de", "de;")]
        {
            let line = |value: &str| format!("Accept-Language: {value}\r\n");
            assert!(!same("accept-language", &line(one), &line(other)), "{one} and {other}");
        }
        assert!(!same("user-agent", "User-Agent: a, b\r\n", "User-Agent: b, a\r\n"));
        assert_ne!(
            secondary_key("foo", Section(b"Foo: 1\r\n")),
            secondary_key("bar", Section(b"Bar: 1\r\n"))
        );
    }
}
