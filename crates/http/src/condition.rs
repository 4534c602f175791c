//! Conditional requests: does the client already have this version? (RFC 9110, 13.)

use crate::date::HttpDate;

/// Whether the client's copy is current, so that 304 answers a GET or HEAD. If-None-Match beats
/// If-Modified-Since (13.2.2), an unreadable date is ignored (13.1.3).
pub fn is_not_modified(
    if_none_match: Option<&[u8]>,
    if_modified_since: Option<&[u8]>,
    entity_tag: &[u8],
    modified: HttpDate,
) -> bool {
    match (if_none_match, if_modified_since) {
        (Some(tags), _) => any_tag_matches(tags, entity_tag),
        (None, Some(date)) => HttpDate::parse(date).is_some_and(|date| modified <= date),
        (None, None) => false,
    }
}

/// Weak comparison (8.8.3.2) against `*` or a list. A tag may hold commas, so quotes decide where one ends.
fn any_tag_matches(tags: &[u8], entity_tag: &[u8]) -> bool {
    let opaque = entity_tag.strip_prefix(b"W/").unwrap_or(entity_tag);
    let mut rest = tags.trim_ascii();
    if rest == b"*" {
        return true;
    }
    while !rest.is_empty() {
        let quoted = rest.strip_prefix(b"W/").unwrap_or(rest);
        let Some(inner) = quoted.strip_prefix(b"\"") else { return false };
        let Some(length) = inner.iter().position(|byte| *byte == b'"') else { return false };
        if &quoted[..length + 2] == opaque {
            return true;
        }
        let after = quoted[length + 2..].trim_ascii_start();
        rest = after.strip_prefix(b",").unwrap_or(b"").trim_ascii_start();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(if_none_match: Option<&str>, if_modified_since: Option<&str>, expected: bool) {
        let modified = HttpDate::from_seconds(784_111_777);
        let found = is_not_modified(
            if_none_match.map(str::as_bytes),
            if_modified_since.map(str::as_bytes),
            b"\"a,b\"",
            modified,
        );
        assert_eq!(found, expected, "{if_none_match:?} {if_modified_since:?}");
    }

    #[test]
    fn tags() {
        for hit in ["\"a,b\"", "W/\"a,b\"", "\"x\", \"a,b\"", "*", "\"x\" ,W/\"a,b\" , \"y\""] {
            check(Some(hit), None, true);
        }
        for miss in ["", "\"a\"", "a,b", "\"a,b", "\"x\" \"a,b\"", "W/*"] {
            check(Some(miss), None, false);
        }
    }

    #[test]
    fn dates() {
        check(None, Some("Sun, 06 Nov 1994 08:49:37 GMT"), true);
        check(None, Some("Sun, 06 Nov 1994 08:49:38 GMT"), true);
        check(None, Some("Sun, 06 Nov 1994 08:49:36 GMT"), false);
        check(None, Some("tomorrow"), false);
        check(Some("\"x\""), Some("Sun, 06 Nov 1994 08:49:37 GMT"), false);
        check(None, None, false);
    }
}
