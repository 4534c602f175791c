//! Which ranges of a body are stored, and how a new part merges with them.

use sojourn_http::range::ByteRange;

use crate::body::CHUNK_OVERHEAD_BYTES;

/// The most separate ranges per body; the smallest are dropped.
pub const RANGES_MAX: usize = 16;

/// The stored ranges of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRanges {
    tag: Box<[u8]>,
    whole_bytes: u64,
    /// Sorted, not adjacent.
    ranges: Vec<ByteRange>,
}

impl StoredRanges {
    /// The ranges in order; no two are adjacent.
    pub fn ranges(&self) -> &[ByteRange] {
        &self.ranges
    }

    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// The body's strong validator; empty if it has none, in which case parts are never merged.
    pub fn tag(&self) -> &[u8] {
        &self.tag
    }

    /// The position of `wanted` within the stored bytes; `None` unless all of it is stored.
    pub fn stored_position(&self, wanted: ByteRange) -> Option<ByteRange> {
        let mut before = 0;
        for part in &self.ranges {
            if part.first <= wanted.first && wanted.last <= part.last {
                let first = before + wanted.first - part.first;
                return Some(ByteRange { first, last: first + wanted.length() - 1 });
            }
            before += part.length();
        }
        None
    }

    /// The smallest range that covers everything of `wanted` that is not stored; `None` if all is.
    pub fn missing(&self, wanted: ByteRange) -> Option<ByteRange> {
        let holding = |byte: u64| self.ranges.iter().find(|part| part.first <= byte && byte <= part.last);
        let first = holding(wanted.first).map_or(Some(wanted.first), |part| part.last.checked_add(1))?;
        let last = holding(wanted.last).map_or(Some(wanted.last), |part| part.first.checked_sub(1))?;
        (first <= last).then_some(ByteRange { first, last })
    }

    /// Merges `ranges` of a body with this length and strong validator.
    pub(crate) fn new(tag: &[u8], whole_bytes: u64, ranges: impl Iterator<Item = ByteRange>) -> StoredRanges {
        let mut stored = StoredRanges { tag: tag.into(), whole_bytes, ranges: Vec::new() };
        ranges.for_each(|range| stored.add(range));
        stored
    }

    fn add(&mut self, part: ByteRange) {
        let ByteRange { mut first, mut last } = part;
        self.ranges.retain(|held| {
            let is_apart = held.last.saturating_add(1) < first || last.saturating_add(1) < held.first;
            if !is_apart {
                first = first.min(held.first);
                last = last.max(held.last);
            }
            is_apart
        });
        let at = self.ranges.partition_point(|held| held.first < first);
        self.ranges.insert(at, ByteRange { first, last });
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        CHUNK_OVERHEAD_BYTES + self.tag.len() + self.ranges.len() * size_of::<ByteRange>()
    }

    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.ranges.as_slice(), [ByteRange { first: 0, last }] if last + 1 == self.whole_bytes)
    }
}
