//! Conditional requests (RFC 9110, 13): whether the client's copy is current, and whether its preconditions hold.

use crate::date::HttpDate;
use crate::response::value_of;

/// The conditions of a request, as received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'b> {
    pub if_match: Option<Tags<'b>>,
    pub if_unmodified_since: Option<&'b [u8]>,
    pub if_none_match: Option<Tags<'b>>,
    pub if_modified_since: Option<&'b [u8]>,
    pub if_range: Option<&'b [u8]>,
}

/// A list of entity tags, or `*`, as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags<'b> {
    Field(&'b [u8]),
    /// A list split over several fields: the field section, and their name in lower case.
    Fields {
        section: &'b [u8],
        name: &'static str,
    },
}

/// The validators of the current version.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity tag, quotes included.
    pub entity_tag: &'a [u8],
    pub modified: HttpDate,
}

/// What the conditions of a GET or HEAD decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Perform,
    /// 304: the client's copy is current.
    NotModified,
    /// 412: a precondition failed.
    Failed,
}

impl Conditions<'_> {
    /// Evaluates the conditions of a GET or HEAD in the order of RFC 9110, 13.2.2: If-Match takes precedence over
    /// If-Unmodified-Since, If-None-Match over If-Modified-Since. An invalid date is ignored.
    pub fn verdict(&self, current: Validators<'_>) -> Verdict {
        let has_failed = match (self.if_match, self.if_unmodified_since) {
            (Some(tags), _) => !tags.any(|tag| is_same_strongly(tag, current.entity_tag)),
            (None, Some(date)) => HttpDate::parse(date).is_some_and(|date| current.modified > date),
            (None, None) => false,
        };
        if has_failed {
            return Verdict::Failed;
        }
        let is_current = match (self.if_none_match, self.if_modified_since) {
            (Some(tags), _) => tags.any(|tag| opaque(tag) == opaque(current.entity_tag)),
            (None, Some(date)) => HttpDate::parse(date).is_some_and(|date| current.modified <= date),
            (None, None) => false,
        };
        if is_current { Verdict::NotModified } else { Verdict::Perform }
    }

    /// Returns true if a Range field applies: If-Range is absent or matches the current version exactly (13.1.5). A
    /// date would be too coarse for a document that changed twice within the second, but clients may use a date only if
    /// their copy was sent at least a second after it changed (8.8.2.2).
    pub fn range_counts(&self, current: Validators<'_>) -> bool {
        match self.if_range.map(<[u8]>::trim_ascii) {
            None => true,
            Some(tag) if tag.contains(&b'"') => is_same_strongly(tag, current.entity_tag),
            Some(date) => HttpDate::parse(date) == Some(current.modified),
        }
    }
}

impl Tags<'_> {
    /// Returns true if the list is `*` or has a tag for which `matches` is true.
    fn any(self, matches: impl Fn(&[u8]) -> bool) -> bool {
        match self {
            Tags::Field(value) => any_tag(value, matches),
            Tags::Fields { section, name } => section
                .split(|byte| *byte == b'\n')
                .filter_map(|line| value_of(line, name.as_bytes()))
                .any(|value| any_tag(value, &matches)),
        }
    }
}

/// Returns true if `tags`, which is `*` or a list, has a tag for which `matches` is true. A tag may hold commas, so
/// quotes decide where one ends; elements may be empty (RFC 9110, 5.6.1).
fn any_tag(tags: &[u8], matches: impl Fn(&[u8]) -> bool) -> bool {
    let mut rest = tags.trim_ascii();
    if rest == b"*" {
        return true;
    }
    loop {
        let is_between = |byte: &u8| matches!(byte, b',' | b' ' | b'\t');
        let Some(start) = rest.iter().position(|byte| !is_between(byte)) else { return false };
        rest = &rest[start..];
        let quoted = opaque(rest);
        let Some(inner) = quoted.strip_prefix(b"\"") else { return false };
        let Some(length) = inner.iter().position(|byte| *byte == b'"') else { return false };
        let end = rest.len() - quoted.len() + length + 2;
        if matches(&rest[..end]) {
            return true;
        }
        rest = rest[end..].trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b",") {
            return false;
        }
    }
}

/// The tag without its weakness prefix. Weak comparison uses only this; strong comparison requires both tags to be
/// strong (8.8.3.2).
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Weak comparison (RFC 9110, 8.8.3.2). An absent tag equals none, not even another absent one.
pub fn is_same_weakly(one: &[u8], other: &[u8]) -> bool {
    !one.is_empty() && opaque(one) == opaque(other)
}

fn is_same_strongly(one: &[u8], other: &[u8]) -> bool {
    one == other && !one.starts_with(b"W/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &[u8] = b"\"a,b\"";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn current() -> Validators<'static> {
        Validators { entity_tag: TAG, modified: HttpDate::from_seconds(784_111_777) }
    }

    fn check(fields: [Option<&str>; 4], expected: Verdict) {
        let [if_match, if_unmodified_since, if_none_match, if_modified_since] =
            fields.map(|field| field.map(str::as_bytes));
        let (if_match, if_none_match) = (if_match.map(Tags::Field), if_none_match.map(Tags::Field));
        let conditions =
            Conditions { if_match, if_unmodified_since, if_none_match, if_modified_since, if_range: None };
        assert_eq!(conditions.verdict(current()), expected, "{fields:?}");
    }

    #[test]
    fn the_client_has_it() {
        let hits = [
            "\"a,b\"",
            "W/\"a,b\"",
            "\"x\", \"a,b\"",
            "*",
            "\"x\" ,W/\"a,b\" , \"y\"",
            ",, \"x\",\t,\"a,b\",",
        ];
        for hit in hits {
            check([None, None, Some(hit), None], Verdict::NotModified);
        }
        for miss in ["", ",", "\"a\"", "a,b", "\"a,b", "\"x\" \"a,b\"", "W/*", "w/\"a,b\"", "\"x\", *"] {
            check([None, None, Some(miss), None], Verdict::Perform);
        }
        check([None, None, None, Some(THEN)], Verdict::NotModified);
        check([None, None, None, Some(AFTER)], Verdict::NotModified);
        check([None, None, None, Some(BEFORE)], Verdict::Perform);
        check([None, None, None, Some("tomorrow")], Verdict::Perform);
        check([None, None, Some("\"x\""), Some(THEN)], Verdict::Perform);
        check([None; 4], Verdict::Perform);
    }

    #[test]
    fn the_client_insists() {
        check([Some("\"a,b\""), None, None, None], Verdict::Perform);
        check([Some("*"), None, None, None], Verdict::Perform);
        check([Some("W/\"a,b\""), None, None, None], Verdict::Failed);
        check([Some("\"x\", \"y\""), None, None, None], Verdict::Failed);
        check([None, Some(THEN), None, None], Verdict::Perform);
        check([None, Some(BEFORE), None, None], Verdict::Failed);
        check([None, Some("yesterday"), None, None], Verdict::Perform);
        check([Some("\"a,b\""), Some(BEFORE), None, None], Verdict::Perform);
        check([Some("\"x\""), None, Some("\"a,b\""), None], Verdict::Failed);
        check([Some("\"a,b\""), None, Some("\"a,b\""), None], Verdict::NotModified);
    }

    #[test]
    fn ranges_of_another_version_do_not_count() {
        let counts = |if_range: &str| {
            let conditions = Conditions { if_range: Some(if_range.as_bytes()), ..Conditions::default() };
            conditions.range_counts(current())
        };
        assert!(Conditions::default().range_counts(current()));
        for this in ["\"a,b\"", THEN, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert!(counts(this), "{this}");
        }
        for other in ["W/\"a,b\"", "\"x\"", BEFORE, AFTER, "*", ""] {
            assert!(!counts(other), "{other}");
        }
    }

    #[test]
    fn lists_over_several_fields() {
        let section = b"If-None-Match: \"x\"\r\nX: \"y\"\r\nIF-NONE-MATCH:\t\"a,b\" , \"z\"\r\n\r\n";
        let tags = Tags::Fields { section, name: "if-none-match" };
        for tag in ["\"x\"", "\"a,b\"", "\"z\""] {
            assert!(tags.any(|other| other == tag.as_bytes()), "{tag}");
        }
        assert!(!tags.any(|other| other == b"\"y\""));
    }
}
