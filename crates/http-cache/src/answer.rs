//! How a stored response answers a request: whole, in parts, or as not modified.

use sojourn_http::HttpDate;
use sojourn_http::condition::{Conditions, Validators, Verdict};
use sojourn_http::range::{ByteRange, Selection, select};

use super::fields::{Section, append_line, is_one_of};
use super::metadata::Metadata;

/// The form in which a usable stored response answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The whole response with its own status. For HEAD, the head with the Content-Length of a GET.
    Whole,
    NotModified,
    /// 206 with these parts.
    Parts(Vec<ByteRange>),
    RangeNotSatisfiable,
}

impl Answer {
    /// Evaluates a client's conditions and its range against the stored response, whose body has `length` bytes (RFC
    /// 9111, 4.3.2; RFC 9110, 13.2 and 14.2). They apply to a stored 200 only. `range` is the Range field of a GET.
    pub fn of(
        conditions: &Conditions<'_>,
        range: Option<&[u8]>,
        stored: &Metadata<'_>,
        length: u64,
    ) -> Answer {
        if stored.status != 200 {
            return Answer::Whole;
        }
        // RFC 9111, 4.3.2: Date replaces a missing Last-Modified.
        let modified = HttpDate::from_seconds(stored.last_modified.unwrap_or(stored.date));
        let validators = Validators { entity_tag: stored.entity_tag, modified };
        // If-Match and If-Unmodified-Since are for origins: see `Use::Forward`.
        let for_caches = Conditions { if_match: None, if_unmodified_since: None, ..*conditions };
        if for_caches.verdict(validators) == Verdict::NotModified {
            return Answer::NotModified;
        }
        let names_a_tag = conditions.if_range.is_none_or(|value| value.contains(&b'"'));
        // RFC 9110, 8.8.2.2: within the second of the response, it may have changed again.
        let has_strong_date = stored.last_modified.is_some_and(|modified| modified < stored.date);
        let counts = for_caches.range_counts(validators) && (names_a_tag || has_strong_date);
        match range.filter(|_| counts).map_or(Selection::Whole, |range| select(range, length)) {
            Selection::Whole => Answer::Whole,
            Selection::Parts(parts) => Answer::Parts(parts),
            Selection::Nothing => Answer::RangeNotSatisfiable,
        }
    }
}

/// Fields that describe a body, which a 304 omits (RFC 9110, 15.4.5).
const OF_A_BODY: [&str; 6] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-range",
    "content-type",
];

/// Appends the stored field lines that a 304 carries.
pub fn append_not_modified(text: &mut Vec<u8>, stored: &Metadata<'_>) {
    for (name, value) in Section(stored.fields).lines().filter(|(name, _)| !is_one_of(name, &OF_A_BODY)) {
        append_line(text, name, &[value]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_http::condition::Tags;

    const THEN: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";

    fn stored() -> Metadata<'static> {
        Metadata {
            status: 200,
            response_time: 784_111_777,
            date: 784_111_777,
            lifetime: 60,
            entity_tag: b"\"x\"",
            fields: b"ETag: \"x\"\r\nContent-Type: text/plain\r\nCache-Control: max-age=60\r\n",
            ..Metadata::default()
        }
    }

    fn of(conditions: Conditions<'_>, range: Option<&[u8]>, stored: &Metadata<'_>) -> Answer {
        Answer::of(&conditions, range, stored, 10)
    }

    #[test]
    fn what_the_client_has() {
        let none_match =
            |value| Conditions { if_none_match: Some(Tags::Field(value)), ..Conditions::default() };
        let since = |date| Conditions { if_modified_since: Some(date), ..Conditions::default() };
        let untagged = Metadata { entity_tag: b"", ..stored() };
        for value in [b"\"x\"".as_slice(), b"W/\"x\"", b"\"y\", \"x\"", b"*"] {
            assert_eq!(of(none_match(value), None, &stored()), Answer::NotModified);
        }
        assert_eq!(
            of(none_match(b"\"y\""), Some(b"bytes=0-1"), &stored()),
            Answer::Parts(vec![ByteRange { first: 0, last: 1 }])
        );
        assert_eq!(of(none_match(b"\"\""), None, &untagged), Answer::Whole);
        assert_eq!(of(since(THEN), None, &untagged), Answer::NotModified, "Date stands for Last-Modified");
        assert_eq!(of(since(BEFORE), None, &untagged), Answer::Whole);
        let modified = Metadata { last_modified: Some(784_111_776), ..untagged };
        assert_eq!(of(since(BEFORE), None, &modified), Answer::NotModified);
        assert_eq!(of(none_match(b"\"x\""), None, &Metadata { status: 404, ..stored() }), Answer::Whole);
        let insists = Conditions { if_match: Some(Tags::Field(b"\"y\"")), ..Conditions::default() };
        assert_eq!(of(insists, None, &stored()), Answer::Whole, "not for a cache to refuse");
    }

    #[test]
    fn parts() {
        let plain = Conditions::default();
        assert_eq!(
            of(plain, Some(b"bytes=-1"), &stored()),
            Answer::Parts(vec![ByteRange { first: 9, last: 9 }])
        );
        assert_eq!(of(plain, Some(b"bytes=10-"), &stored()), Answer::RangeNotSatisfiable);
        assert_eq!(of(plain, Some(b"lines=1-"), &stored()), Answer::Whole);
        let if_range = |value| Conditions { if_range: Some(value), ..Conditions::default() };
        assert_eq!(of(if_range(b"\"y\""), Some(b"bytes=-1"), &stored()), Answer::Whole);
        assert_eq!(
            of(if_range(THEN), Some(b"bytes=-1"), &stored()),
            Answer::Whole,
            "a Date is no Last-Modified"
        );
        let modified = Metadata { last_modified: Some(784_111_777), ..stored() };
        assert_eq!(
            of(if_range(THEN), Some(b"bytes=-1"), &modified),
            Answer::Whole,
            "it may have changed again in that second"
        );
        let later = Metadata { date: 784_111_778, ..modified };
        assert!(matches!(of(if_range(THEN), Some(b"bytes=-1"), &later), Answer::Parts(_)));
        assert_eq!(of(plain, Some(b"bytes=-1"), &Metadata { status: 404, ..stored() }), Answer::Whole);
    }

    #[test]
    fn fields_of_a_304() {
        let mut text = Vec::new();
        append_not_modified(&mut text, &stored());
        assert_eq!(text, b"ETag: \"x\"\r\nCache-Control: max-age=60\r\n");
    }
}
