//! Fields of responses that are sent again and again, prepared to be encoded.
//!
//! Responses with the same document have the same fields behind Date, and all of a second have the same ones up to it. They
//! are found by their text, whoever wrote it. What is kept is valid over every connection: an event loop has one cache
//! for all of its own.

use super::fields::{checked_fields, for_each_field};
use super::hpack::{Prepared, hash};

const SETS: usize = 256;

/// Longer sections are not kept.
const SECTION_BYTES_MAX: usize = 512;

/// The sections that were sent lately.
#[derive(Debug, Default)]
pub struct HeadCache {
    /// Without memory until the first section.
    sets: Vec<Set>,
}

/// Where a section is kept: its set, and its place there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize, usize);

#[derive(Debug, Default)]
struct Set {
    slots: [Slot; 2],
    latest: usize,
}

#[derive(Debug, Default)]
struct Slot {
    hash: u64,
    seen: Seen,
}

#[derive(Debug, Default)]
enum Seen {
    /// It may be the only time.
    #[default]
    Once,
    /// Malformed, or secret.
    Unfit,
    Again(Box<Section>),
}

/// A section of fields.
#[derive(Debug)]
pub(super) struct Section {
    text: Box<[u8]>,
    pub content_length: Option<u64>,
    pub fields: Prepared,
}

impl HeadCache {
    /// Where the section with these lines is, unless this is the first time. It stays there while another is looked for.
    pub(super) fn find(&mut self, text: &[u8]) -> Option<Place> {
        if text.is_empty() || text.len() > SECTION_BYTES_MAX {
            return None;
        }
        if self.sets.is_empty() {
            self.sets.resize_with(SETS, Default::default);
        }
        let hash = hash(text);
        let number = hash as usize % SETS;
        let Set { slots, latest } = &mut self.sets[number];
        if slots[*latest].hash != hash {
            *latest = 1 - *latest;
        }
        let Slot { hash: other, seen } = &mut slots[*latest];
        if *other != hash {
            (*other, *seen) = (hash, Seen::Once);
            return None;
        }
        if matches!(seen, Seen::Once) {
            *seen = Section::of(text).map_or(Seen::Unfit, |section| Seen::Again(Box::new(section)));
        }
        match seen {
            Seen::Again(section) if *section.text == *text => Some(Place(number, *latest)),
            _ => None,
        }
    }

    /// The section that was just found at `place`.
    pub(super) fn section(&self, Place(set, slot): Place) -> &Section {
        match &self.sets[set].slots[slot].seen {
            Seen::Again(section) => section,
            Seen::Once | Seen::Unfit => unreachable!("nothing is at such a place"),
        }
    }
}

impl Section {
    fn of(text: &[u8]) -> Option<Section> {
        let content_length = checked_fields(text)?;
        let (mut fields, mut is_fit) = (Prepared::default(), true);
        for_each_field(text, |name, value| is_fit &= fields.add(name, value));
        is_fit.then(|| Section { text: text.into(), content_length, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_twice_is_kept() {
        let mut cache = HeadCache::default();
        let text = b"Content-Length: 5\r\nETag: \"x\"\r\nConnection: close\r\n";
        assert!(cache.find(text).is_none());
        let place = cache.find(text).unwrap();
        assert_eq!(cache.section(place).content_length, Some(5));
        assert!(cache.find(b"Content-Length: 6\r\n").is_none());
        assert!(cache.find(text).is_some());
    }

    #[test]
    fn what_is_not_kept() {
        let mut cache = HeadCache::default();
        let long = format!("X: {}\r\n", "x".repeat(SECTION_BYTES_MAX));
        for text in [
            "",
            "X\r\n",
            "Content-Length: x\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Set-Cookie: a\r\n",
            &long,
        ] {
            for _ in 0..3 {
                assert!(cache.find(text.as_bytes()).is_none(), "{text}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn there_are_no_more_than_the_sets_hold() {
        let mut cache = HeadCache::default();
        let count = 10 * SETS;
        let found = |cache: &mut HeadCache| {
            (0..count).filter(|number| cache.find(format!("X: {number}\r\n").as_bytes()).is_some()).count()
        };
        for number in 0..count {
            cache.find(format!("X: {number}\r\n").as_bytes());
            assert!(cache.find(format!("X: {number}\r\n").as_bytes()).is_some());
        }
        assert!(found(&mut cache) <= 2 * SETS && cache.sets.len() == SETS);
    }

    /// Even if it is in the same set.
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes")]
    fn the_last_one_stays_while_another_is_looked_for() {
        let mut cache = HeadCache::default();
        let texts: Vec<_> = (0..2 * SETS).map(|number| format!("X: {number}\r\n").into_bytes()).collect();
        for (first, second) in texts.iter().zip(&texts[1..]) {
            cache.find(first);
            let place = cache.find(first).unwrap();
            cache.find(second);
            assert_eq!(*cache.section(place).text, **first);
        }
    }
}
