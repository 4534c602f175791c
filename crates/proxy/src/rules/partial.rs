//! Parts of a representation (206), and which of them make a whole (RFC 9111, 3.4; RFC 9110, 14.4 and 15.3.7.3).

use sojourn_http::range::ByteRange;
use sojourn_http::response::decimal;

use super::fields::Section;
use super::freshness::single_date;
use super::storable::entity_tag;

/// Which part of how much a 206 holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The part.
    pub part: ByteRange,
    /// The length of the whole, if the origin knows it.
    pub complete: Option<u64>,
}

impl ContentRange {
    /// Reads the Content-Range of a 206 with one part; `None` if it is not exactly one, of bytes, within its whole. A
    /// 206 without it (one of several parts among them) is not to be combined with anything.
    pub fn of(received: Section<'_>) -> Option<ContentRange> {
        let mut values = received.values("content-range");
        let value = values.next().filter(|_| values.next().is_none())?;
        let (unit, range) = value.split_at_checked(b"bytes ".len())?;
        let slash = range.iter().position(|byte| *byte == b'/')?;
        let dash = range[..slash].iter().position(|byte| *byte == b'-')?;
        let part = ByteRange { first: decimal(&range[..dash])?, last: decimal(&range[dash + 1..slash])? };
        let complete = match &range[slash + 1..] {
            b"*" => None,
            length => Some(decimal(length)?),
        };
        let is_within = part.first <= part.last && complete.is_none_or(|length| part.last < length);
        (unit.eq_ignore_ascii_case(b"bytes ") && is_within).then_some(ContentRange { part, complete })
    }
}

/// Whether two responses hold parts of the same bytes: their strong validators are equal (RFC 9110, 15.3.7.3). Only
/// then may one complete the other; the fields of the later replace those of the earlier, as by a 304
/// ([`super::validation::freshen`]).
pub fn may_combine(one: Section<'_>, other: Section<'_>) -> bool {
    let strong = |tag: Option<&'_ [u8]>| tag.filter(|tag| !tag.starts_with(b"W/")).map(<[u8]>::to_vec);
    match (strong(entity_tag(one)), strong(entity_tag(other))) {
        (Some(tag), Some(same)) => tag == same,
        (None, None) if !one.has("etag") && !other.has("etag") => {
            strong_date(one).is_some_and(|date| strong_date(other) == Some(date))
        }
        _ => false,
    }
}

/// A Last-Modified that tells apart any two versions: it lies at least a second before the Date with which it came
/// (RFC 9110, 8.8.2.2).
fn strong_date(received: Section<'_>) -> Option<i64> {
    let (modified, date) = (single_date(received, "last-modified")?, single_date(received, "date")?);
    (modified < date).then_some(modified)
}

/// Which parts of a representation are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// In order, with gaps between them.
    parts: Vec<ByteRange>,
}

impl Held {
    /// Adds a part.
    pub fn add(&mut self, part: ByteRange) {
        let ByteRange { mut first, mut last } = part;
        self.parts.retain(|held| {
            let is_apart = held.last.saturating_add(1) < first || last.saturating_add(1) < held.first;
            if !is_apart {
                first = first.min(held.first);
                last = last.max(held.last);
            }
            is_apart
        });
        let at = self.parts.partition_point(|held| held.first < first);
        self.parts.insert(at, ByteRange { first, last });
    }

    /// What of `wanted` is not held, in order; nothing if all is.
    pub fn missing(&self, wanted: ByteRange) -> Vec<ByteRange> {
        let (mut missing, mut next) = (Vec::new(), Some(wanted.first));
        for held in self.parts.iter().filter(|held| held.last >= wanted.first && held.first <= wanted.last) {
            let Some(first) = next else { break };
            if first < held.first {
                missing.push(ByteRange { first, last: held.first - 1 });
            }
            next = held.last.checked_add(1);
        }
        if let Some(first) = next.filter(|first| *first <= wanted.last) {
            missing.push(ByteRange { first, last: wanted.last });
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(value: &str) -> Option<(u64, u64, Option<u64>)> {
        let lines = format!("Content-Range: {value}\r\n");
        ContentRange::of(Section(lines.as_bytes()))
            .map(|range| (range.part.first, range.part.last, range.complete))
    }

    #[test]
    fn content_ranges() {
        assert_eq!(range("bytes 0-4/10"), Some((0, 4, Some(10))));
        assert_eq!(range("Bytes 9-9/*"), Some((9, 9, None)));
        for bad in [
            "bytes */10",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "bytes=0-4/10",
            "bytes 0-4",
            "lines 0-4/10",
            "bytes 0-4/x",
            "bytes -4/10",
            "bytes +0-4/10",
            "",
            "bytes 0-18446744073709551616/*",
            "bytes 0-4/10\r\nContent-Range: bytes 0-4/10",
        ] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }

    /// RFC 9110, 15.3.7.3.
    #[test]
    fn what_may_be_combined() {
        const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let modified = |second: u32| format!("Last-Modified: Sun, 06 Nov 1994 08:49:{second} GMT\r\n{DATE}");
        let may = |one: &str, other: &str| may_combine(Section(one.as_bytes()), Section(other.as_bytes()));
        assert!(may("ETag: \"x\"\r\n", "ETag: \"x\"\r\n"));
        assert!(!may("ETag: \"x\"\r\n", "ETag: \"y\"\r\n"));
        assert!(!may("ETag: W/\"x\"\r\n", "ETag: W/\"x\"\r\n"));
        assert!(!may("", "") && !may("ETag: \"x\"\r\n", &modified(36)));
        assert!(may(&modified(36), &modified(36)) && !may(&modified(36), &modified(35)));
        assert!(!may(&modified(37), &modified(37)), "it could have changed again within the second");
    }

    proptest! {
        #[test]
        fn what_is_held_is_not_missing(parts in proptest::collection::vec((0_u64..60, 0_u64..20), 0..12),
                                       wanted in (0_u64..60, 0_u64..30)) {
            let range = |(first, more): (u64, u64)| ByteRange { first, last: first + more };
            let mut held = Held::default();
            parts.iter().for_each(|part| held.add(range(*part)));
            let has = |ranges: &[ByteRange], byte: u64| ranges.iter().any(|part| part.first <= byte && byte <= part.last);
            let parts: Vec<_> = parts.iter().map(|part| range(*part)).collect();
            let (wanted, missing) = (range(wanted), held.missing(range(wanted)));
            for byte in 0..120 {
                let is_wanted = wanted.first <= byte && byte <= wanted.last;
                prop_assert_eq!(has(&missing, byte), is_wanted && !has(&parts, byte));
            }
            prop_assert!(held.parts.windows(2).all(|two| two[0].last + 1 < two[1].first));
        }
    }
}
