//! Which parts of a body are held, and what a part that comes makes of them.

use std::sync::Arc;

use sojourn_http::range::ByteRange;

use super::chunks::CHUNK_BYTES_BESIDE;
use super::object::Object;
use super::parts::PartHead;

/// More parts of one body, with gaps between them, are not kept: the smallest goes.
pub const PARTS_MAX: usize = 16;

/// Which parts of a body are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    tag: Box<[u8]>,
    whole_bytes: u64,
    /// In order, with gaps between them.
    parts: Vec<ByteRange>,
}

impl Held {
    /// The parts, in order, with gaps between them.
    pub fn parts(&self) -> &[ByteRange] {
        &self.parts
    }

    /// Bytes of the whole.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// What tells the body from all others; empty if nothing does: then nothing joins them.
    pub fn tag(&self) -> &[u8] {
        &self.tag
    }

    /// Where `wanted` lies in the bytes that are held; `None` if not all of it is.
    pub fn place(&self, wanted: ByteRange) -> Option<ByteRange> {
        let mut before = 0;
        for part in &self.parts {
            if part.first <= wanted.first && wanted.last <= part.last {
                let first = before + wanted.first - part.first;
                return Some(ByteRange { first, last: first + wanted.length() - 1 });
            }
            before += part.length();
        }
        None
    }

    /// The least range with all of `wanted` that is not held; `None` if all is.
    pub fn missing(&self, wanted: ByteRange) -> Option<ByteRange> {
        let holding = |byte: u64| self.parts.iter().find(|part| part.first <= byte && byte <= part.last);
        let first = holding(wanted.first).map_or(Some(wanted.first), |part| part.last.checked_add(1))?;
        let last = holding(wanted.last).map_or(Some(wanted.last), |part| part.first.checked_sub(1))?;
        (first <= last).then_some(ByteRange { first, last })
    }

    fn add(&mut self, part: ByteRange) {
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

    /// What it takes of the memory budget.
    pub(super) fn memory_bytes(&self) -> usize {
        CHUNK_BYTES_BESIDE + self.tag.len() + self.parts.len() * size_of::<ByteRange>()
    }

    pub(super) fn is_whole(&self) -> bool {
        matches!(self.parts.as_slice(), [ByteRange { first: 0, last }] if last + 1 == self.whole_bytes)
    }
}

/// Bytes, and where they belong.
type Segment = (ByteRange, Vec<Arc<[u8]>>);

/// The part `chunks` together with what is held, within the limits.
pub(super) fn joined(
    known: Option<&Object>,
    head: &PartHead,
    chunks: Vec<Arc<[u8]>>,
    bytes_max: u64,
    may_be_whole: bool,
) -> (Held, Vec<Arc<[u8]>>) {
    let known = known.and_then(|object| object.held().map(|held| (object, held)));
    let is_same =
        |held: &Held| !held.tag.is_empty() && held.tag == head.tag && held.whole_bytes == head.whole_bytes;
    let joins = known
        .filter(|(object, held)| is_same(held) && agrees(object, held, head.range, &chunks))
        .map_or(Vec::new(), |(object, held)| others(object, held, head.range));
    let mut segments = vec![(head.range, chunks)];
    segments.extend(joins);
    let mut held = held_of(head, &segments);
    while segments.len() > 1 {
        let bytes: u64 = held.parts.iter().map(|part| part.length()).sum();
        let is_too_much = bytes > bytes_max && !(may_be_whole && held.is_whole());
        if held.parts.len() <= PARTS_MAX && !is_too_much {
            break;
        }
        let is_new = |part: &ByteRange| part.first <= head.range.first && head.range.last <= part.last;
        let smallest = held.parts.iter().filter(|part| !is_new(part)).min_by_key(|part| part.length());
        match smallest {
            Some(gone) => segments.retain(|(range, _)| range.last < gone.first || gone.last < range.first),
            // What it touches is too much with it.
            None => segments.truncate(1),
        }
        held = held_of(head, &segments);
    }
    segments.sort_by_key(|(range, _)| range.first);
    (held, segments.into_iter().flat_map(|(_, chunks)| chunks).collect())
}

fn held_of(head: &PartHead, segments: &[Segment]) -> Held {
    let mut held = Held { tag: head.tag.clone(), whole_bytes: head.whole_bytes, parts: Vec::new() };
    segments.iter().for_each(|(range, _)| held.add(*range));
    held
}

/// What is held outside `range`.
fn others(object: &Object, held: &Held, range: ByteRange) -> Vec<Segment> {
    let outside = held.parts.iter().flat_map(|part| {
        let before = range.first.checked_sub(1).map(|last| ByteRange { last: last.min(part.last), ..*part });
        let after = ByteRange { first: part.first.max(range.last.saturating_add(1)), ..*part };
        before.into_iter().chain([after]).filter(|rest| rest.first <= rest.last)
    });
    outside.map(|rest| (rest, pieces(object, held.place(rest).expect("it is held")))).collect()
}

/// Whether a part has the bytes that are held already, where it has them. An origin that gives one tag to different
/// bytes is not to be believed: then only what it said last is kept.
fn agrees(object: &Object, held: &Held, range: ByteRange, chunks: &[Arc<[u8]>]) -> bool {
    let is_common = |part: &ByteRange| part.first <= range.last && range.first <= part.last;
    let all = if held.parts.iter().any(is_common) { chunks.concat() } else { Vec::new() };
    held.parts.iter().all(|part| {
        let common = ByteRange { first: part.first.max(range.first), last: part.last.min(range.last) };
        common.first > common.last || {
            let came = &all[(common.first - range.first) as usize..=(common.last - range.first) as usize];
            pieces(object, held.place(common).expect("it is held")).concat() == came
        }
    })
}

/// The bytes of `object` at `place`, shared where whole chunks are meant.
pub fn pieces(object: &Object, place: ByteRange) -> Vec<Arc<[u8]>> {
    let (mut pieces, mut position) = (Vec::new(), place.first);
    while position <= place.last
        && let Some(slice) = object.slice(position)
    {
        let bytes = slice.up_to(place.last + 1 - position).into_bytes();
        position += bytes.len() as u64;
        pieces.push(bytes);
    }
    pieces
}
