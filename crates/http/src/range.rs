//! Range requests: which bytes a client asks for (RFC 9110, 14).
//!
//! Units other than `bytes` are ignored. An invalid set is refused with 416, as the RFC allows and servers do
//! (15.5.17). A set that would cost more than the whole document (too many ranges, or more bytes in total) gets the
//! whole document.

/// The most ranges of one request; more are answered with the whole.
pub const RANGES_MAX: usize = 32;

/// A byte range, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub first: u64,
    /// The last byte; never less than `first`.
    pub last: u64,
}

impl ByteRange {
    pub fn length(self) -> u64 {
        self.last - self.first + 1
    }
}

/// The parts selected by a Range field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole body: the field is ignored.
    Whole,
    /// 416: the set is unsatisfiable or invalid.
    Nothing,
    /// Parts, in the requested order; at least one.
    Parts(Vec<ByteRange>),
}

/// Selects the parts of a body of `size` bytes that the Range field `value` asks for.
pub fn select(value: &[u8], size: u64) -> Selection {
    let Some(set) = value.trim_ascii().split_at_checked(UNIT.len()).and_then(|(unit, set)| {
        // Range units are case-insensitive (14.1).
        unit.eq_ignore_ascii_case(UNIT).then_some(set)
    }) else {
        return Selection::Whole;
    };
    let mut parts = Vec::new();
    // List elements may be empty (5.6.1).
    let specs = set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty());
    for (index, spec) in specs.enumerate() {
        match Spec::parse(spec) {
            Some(_) if index == RANGES_MAX => return Selection::Whole,
            Some(spec) => parts.extend(spec.within(size)),
            None => return Selection::Nothing,
        }
    }
    let selected: u128 = parts.iter().map(|part| u128::from(part.length())).sum();
    match (parts.is_empty(), size) {
        // Content-Range cannot describe a part of an empty body.
        (true, 0) if set.trim_ascii_start().starts_with(b"-") => Selection::Whole,
        (true, _) => Selection::Nothing,
        (false, _) if parts.len() > 1 && selected > u128::from(size) => Selection::Whole,
        (false, _) => Selection::Parts(parts),
    }
}

const UNIT: &[u8] = b"bytes=";

/// One range as requested, before the size is known.
#[derive(Clone, Copy)]
enum Spec {
    From(u64),
    Between(u64, u64),
    Last(u64),
}

impl Spec {
    fn parse(spec: &[u8]) -> Option<Spec> {
        let dash = spec.iter().position(|byte| *byte == b'-')?;
        match (&spec[..dash], &spec[dash + 1..]) {
            ([], suffix) => position(suffix).map(Spec::Last),
            (first, []) => position(first).map(Spec::From),
            (first, last) => {
                let (first, last) = (position(first)?, position(last)?);
                (first <= last).then_some(Spec::Between(first, last))
            }
        }
    }

    /// The range within a body of `size` bytes, if it overlaps it.
    fn within(self, size: u64) -> Option<ByteRange> {
        let end = size.checked_sub(1)?;
        match self {
            Spec::From(first) | Spec::Between(first, _) if first > end => None,
            Spec::From(first) => Some(ByteRange { first, last: end }),
            Spec::Between(first, last) => Some(ByteRange { first, last: last.min(end) }),
            Spec::Last(0) => None,
            Spec::Last(length) => Some(ByteRange { first: size.saturating_sub(length), last: end }),
        }
    }
}

/// Parses digits; a number too large for any file becomes the maximum.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |number: u64, byte: &u8| number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    Some(digits.iter().fold(0, digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: &str, size: u64, expected: &[(u64, u64)]) {
        let parts = expected.iter().map(|(first, last)| ByteRange { first: *first, last: *last }).collect();
        assert_eq!(select(value.as_bytes(), size), Selection::Parts(parts), "{value} of {size}");
    }

    #[test]
    fn parts() {
        check("bytes=0-0", 10, &[(0, 0)]);
        check("BYTES=2-", 10, &[(2, 9)]);
        check("bytes=-3", 10, &[(7, 9)]);
        check("bytes=-30", 10, &[(0, 9)]);
        check("bytes=5-99999999999999999999999", 10, &[(5, 9)]);
        check("bytes=0-1, 8-9", 10, &[(0, 1), (8, 9)]);
        check("bytes=8-9,0-1,10-11", 10, &[(8, 9), (0, 1)]);
        check("bytes=,0-1,, ,\t8-9,", 10, &[(0, 1), (8, 9)]);
    }

    #[test]
    fn nothing_of_it_is_there() {
        for value in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=10-,-0"] {
            assert_eq!(select(value.as_bytes(), 10), Selection::Nothing, "{value}");
        }
        let bad = [
            "a-b", "5-2", "1", "-", "+1-2", "0x1-2", "0-1,x", "0-1 3-4", "alpha", "1-alpha", "", ",", "1--2",
        ];
        for set in bad {
            assert_eq!(select(format!("bytes={set}").as_bytes(), 10), Selection::Nothing, "{set}");
        }
        assert_eq!(select(b"bytes=0-", 0), Selection::Nothing);
        assert_eq!(select(b"bytes=-1", 0), Selection::Whole);
    }

    #[test]
    fn ignored() {
        let many = format!("bytes={}", ["0-0"; RANGES_MAX + 1].join(","));
        let overlapping = "bytes=0-8,1-9";
        for value in ["", "bytes", "lines=0-1", "bytes = 0-1", "bytesx=0-1", &many, overlapping] {
            assert_eq!(select(value.as_bytes(), 10), Selection::Whole, "{value}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_inside(value in "bytes=[0-9,-]{0,20}", size in 0_u64..50) {
            if let Selection::Parts(parts) = select(value.as_bytes(), size) {
                prop_assert!(!parts.is_empty());
                prop_assert!(parts.iter().all(|part| part.first <= part.last && part.last < size));
                prop_assert!(parts.len() == 1 || parts.iter().map(|part| part.length()).sum::<u64>() <= size);
            }
        }
    }
}
