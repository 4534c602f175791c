//! Parts of what is not stored whole: which requests they answer, what is asked for to complete them, and what becomes of
//! the parts that come (RFC 9111, 3.3 and 3.4).
//!
//! A range that nothing is stored of is asked for as it is, and kept as a part. What is held with a strong entity tag is
//! completed: what lies between the first and the last missing byte is asked for, on condition that the tag is still
//! that (If-Range), and what is held goes before and behind it.

use std::sync::Arc;

use sojourn_cache_store::{Insertion, Key, Object, PartHead, PartInsertion};
use sojourn_http::condition::Conditions;
use sojourn_http::head;
use sojourn_http::range::ByteRange;
use sojourn_http::request::{Body, Method, Request};
use sojourn_http::upstream;
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::Purpose;
use sojourn_http_cache::partial::{ContentRange, storable_part, strong_tag};
use sojourn_http_cache::{Allowance, Answer, Metadata, RequestDirectives, Use};

use super::upstream_response::{metadata, vary_of};
use super::{Cache, Heard, Keyed, Received, answer, fits};

/// The part of a resource that is requested from an upstream.
#[derive(Clone, Debug, Default)]
pub enum Wish {
    #[default]
    Whole,
    /// The range that the client asks for.
    Part,
    Rest(Rest),
}

/// A request for the missing bytes of stored parts.
#[derive(Clone, Debug)]
pub struct Rest {
    pub(super) held: Arc<Object>,
    pub(super) missing: ByteRange,
    /// The client's range; everything if it has none.
    pub(super) wanted: Option<ByteRange>,
}

impl Rest {
    /// Why an upstream is asked.
    pub(super) fn purpose(&self) -> Purpose<'_> {
        Purpose::Rest { tag: self.held.stored_ranges().map_or(&[], |held| held.tag()), range: self.missing }
    }

    /// The request to make if the parts cannot be completed.
    pub(super) fn otherwise(&self) -> Wish {
        if self.wanted.is_some() { Wish::Part } else { Wish::Whole }
    }
}

/// An answer put together of what is held and what comes.
#[derive(Debug)]
pub struct Joined {
    pub status: u16,
    /// Its field lines; framing is the sender's.
    pub fields: Vec<u8>,
    pub length: u64,
    /// Stored bytes that precede the received ones.
    pub before: Vec<Arc<[u8]>>,
    pub behind: Vec<Arc<[u8]>>,
    pub fill: Option<Insertion>,
    /// The insertion for a part, with its metadata, if the whole is not stored.
    pub part: Option<(PartInsertion, Box<[u8]>)>,
}

impl Cache {
    /// The parts that are held of the variant that `request` asks for.
    pub(super) fn parts_for(&self, key: &Key<'_>, request: &Request<'_>) -> Option<Arc<Object>> {
        if request.method != Method::Get {
            return None;
        }
        let object = self.store.parts(key)?;
        let does_fit = Metadata::read(object.metadata()).is_ok_and(|stored| fits(request, &stored));
        (does_fit && !self.forget_if_purged(&object)).then_some(object)
    }
}

/// Returns true if the parts answer `request` at `now`, without the rest.
pub(super) fn answers(
    parts: &Object,
    request: &Request<'_>,
    directives: &RequestDirectives,
    now: i64,
) -> bool {
    let Ok(stored) = Metadata::read(parts.metadata()) else { return false };
    let used = sojourn_http_cache::lookup(directives, Some(&stored), now);
    if !matches!(used, Use::Fresh | Use::Stale { allowed_by: Allowance::Client }) {
        return false;
    }
    match answer(request, &stored, parts.whole_bytes()) {
        Answer::Whole => false,
        Answer::NotModified | Answer::RangeNotSatisfiable => true,
        Answer::Parts(ranges) => {
            // Several ranges of a coded body are the whole.
            let is_told = ranges.len() == 1 || !Section(stored.fields).has("content-encoding");
            is_told && ranges.into_iter().all(|range| parts.stored_position(range).is_some())
        }
    }
}

/// Returns true if a range is asked for that may be stored as a part.
pub(super) fn is_for_part(request: &Request<'_>) -> bool {
    let unconditional = Conditions { if_range: None, ..request.conditions } == Conditions::default();
    request.method == Method::Get
        && request.body == Body::Length(0)
        && request.range.is_some()
        && unconditional
}

/// The request to an upstream, given these parts.
pub(super) fn wish(
    parts: Option<&Arc<Object>>,
    request: &Request<'_>,
    directives: &RequestDirectives,
    now: i64,
) -> Wish {
    let plain = if request.range.is_some() { Wish::Part } else { Wish::Whole };
    let is_for_anybody =
        *directives == RequestDirectives::default() && request.field("authorization").is_none();
    let Some((parts, held)) =
        parts.filter(|_| is_for_anybody).and_then(|parts| Some((parts, parts.stored_ranges()?)))
    else {
        return plain;
    };
    let Ok(stored) = Metadata::read(parts.metadata()) else { return plain };
    if held.tag().is_empty() {
        return plain;
    }
    let all = ByteRange { first: 0, last: held.whole_bytes() - 1 };
    let wanted = match answer(request, &stored, held.whole_bytes()) {
        Answer::Whole if request.range.is_none() => None,
        // What is stale is asked for as it is: then its validator comes with it, whichever that is.
        Answer::Parts(ranges) if ranges.len() == 1 && stored.freshness(now) > 0 && !stored.no_cache => {
            Some(ranges[0])
        }
        _ => return plain,
    };
    match held.missing(wanted.unwrap_or(all)) {
        Some(missing) if missing != wanted.unwrap_or(all) => {
            Wish::Rest(Rest { held: Arc::clone(parts), missing, wanted })
        }
        _ => plain,
    }
}

/// Keeps what came of a whole that broke off, if it can be completed later.
pub(super) fn keep_as_part(fill: Insertion) {
    let filling = Arc::clone(fill.busy_object());
    let tag = metadata(&filling).map_or(&[][..], |stored| stored.entity_tag);
    if !tag.starts_with(b"W/") {
        fill.end_as_part(tag);
    }
}

impl Cache {
    /// Handles the response to a partial request; `None` if it is handled like any other.
    pub(super) fn hear_part(
        &self,
        keyed: &Keyed,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> Option<Heard> {
        match (&keyed.wish, received.head.status) {
            (Wish::Part, 206) => Some(self.begin_part(keyed, received, claim)),
            (Wish::Rest(rest), 206) => Some(match self.join(keyed, rest, received, claim) {
                Some(joined) => Heard::Joined(Box::new(joined)),
                None => {
                    self.store.purge_object(&rest.held);
                    Heard::Again
                }
            }),
            // There is less than there was.
            (Wish::Rest(_), 416) => Some(Heard::Again),
            _ => None,
        }
    }

    /// Begins to keep the part that comes; one that is all is kept as that.
    fn begin_part(&self, keyed: &Keyed, received: &Received<'_>, claim: &mut Option<Insertion>) -> Heard {
        let tag = strong_tag(Section(received.head.fields));
        let known = self.store.inspect_parts(&keyed.key);
        let known =
            known.as_ref().filter(|known| known.stored_ranges().is_some_and(|held| held.tag() == tag));
        let known = known.filter(|_| !tag.is_empty()).and_then(|known| Metadata::read(known.metadata()).ok());
        let (request, response) = (received.request(keyed), received.response());
        let Ok((ContentRange { part, complete: Some(whole_bytes) }, metadata)) =
            storable_part(&request, &response, known.as_ref(), &self.policy)
        else {
            return Heard::Part(None);
        };
        let is_all = part.length() == whole_bytes && whole_bytes <= self.store.object_bytes_max();
        if is_all && received.head.body == upstream::Body::Length(whole_bytes) {
            return Heard::Answer(self.start(keyed, metadata, Some(whole_bytes), claim));
        }
        let fill = self.part_fill(keyed, tag, part, whole_bytes, &metadata);
        Heard::Part(fill.map(|fill| (fill, metadata)))
    }

    fn part_fill(
        &self,
        keyed: &Keyed,
        tag: &[u8],
        range: ByteRange,
        whole_bytes: u64,
        metadata: &[u8],
    ) -> Option<PartInsertion> {
        let vary = vary_of(&Metadata::read(metadata).ok()?);
        let head = PartHead { metadata: metadata.into(), vary, tag: tag.into(), range, whole_bytes };
        self.store.begin_part(&keyed.key, head)
    }

    /// Combines stored and received bytes; `None` if the response is not what was requested.
    fn join(
        &self,
        keyed: &Keyed,
        rest: &Rest,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> Option<Joined> {
        let Rest { held: object, missing, wanted } = rest;
        let (held, head) = (object.stored_ranges()?, received.head);
        let (tag, whole_bytes) = (strong_tag(Section(head.fields)), held.whole_bytes());
        let expected = ContentRange { part: *missing, complete: Some(whole_bytes) };
        let is_expected = tag == held.tag()
            && ContentRange::of(Section(head.fields)) == Some(expected)
            && head.body == upstream::Body::Length(missing.length());
        if !is_expected {
            return None;
        }
        let stored = Metadata::read(object.metadata()).ok()?;
        let (request, response) = (received.request(keyed), received.response());
        let (_, metadata) = storable_part(&request, &response, Some(&stored), &self.policy).ok()?;
        let all = wanted.unwrap_or(ByteRange { first: 0, last: whole_bytes - 1 });
        let known = Metadata::read(&metadata).ok()?;
        let mut fields = known.fields.to_vec();
        if let Some(range) = wanted {
            head::content_range(&mut fields, *range, whole_bytes);
        }
        let between = |first: u64, end: u64| {
            let place = (first < end).then(|| held.stored_position(ByteRange { first, last: end - 1 }));
            place.map_or(Some(Vec::new()), |place| Some(object.chunks(place?)))
        };
        let (before, behind) = (between(all.first, missing.first)?, between(missing.last + 1, all.last + 1)?);
        // What was purged meanwhile does not come back.
        let is_held = self
            .store
            .inspect_parts(&keyed.key)
            .is_some_and(|now| now.stored_ranges().is_some_and(|now| now.tag() == tag));
        let fill = wanted.is_none() && is_held && whole_bytes <= self.store.object_bytes_max();
        let fill = fill.then(|| self.start(keyed, metadata.clone(), Some(whole_bytes), claim)).flatten();
        let part = match fill {
            Some(_) => None,
            None => {
                let fill = self.part_fill(keyed, tag, *missing, whole_bytes, &metadata);
                fill.map(|fill| (fill, metadata.clone()))
            }
        };
        let status = if wanted.is_some() { 206 } else { 200 };
        Some(Joined { status, fields, length: all.length(), before, behind, fill, part })
    }
}
