//! Partial content: which requests stored parts answer, which ranges are requested to complete them, and how received
//! and stored parts are combined (RFC 9111, 3.3 and 3.4).
//!
//! A range of an object that is not stored is requested unchanged and stored as a part. Stored parts with a strong
//! entity tag are completed: the range from the first to the last missing byte is requested with If-Range, and combined
//! with the stored bytes around it.

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
use super::{Cache, CacheMiss, Received, ResponseAction, answer, fits};

/// The range to request from an upstream.
#[derive(Clone, Debug, Default)]
pub enum FetchRange {
    #[default]
    Whole,
    /// The range that the client requested.
    Part,
    Rest(Rest),
}

/// A request for the missing bytes of stored parts.
#[derive(Clone, Debug)]
pub struct Rest {
    pub(super) held: Arc<Object>,
    pub(super) missing: ByteRange,
    /// The client's range; `None` for everything.
    pub(super) wanted: Option<ByteRange>,
}

impl Rest {
    /// The purpose of the request to the upstream.
    pub(super) fn purpose(&self) -> Purpose<'_> {
        Purpose::Rest { tag: self.held.stored_ranges().map_or(&[], |held| held.tag()), range: self.missing }
    }

    /// The request to make if the parts cannot be completed.
    pub(super) fn fallback_range(&self) -> FetchRange {
        if self.wanted.is_some() { FetchRange::Part } else { FetchRange::Whole }
    }
}

/// A response that combines stored and received parts.
#[derive(Debug)]
pub struct Combination {
    pub status: u16,
    /// Its field lines, without framing.
    pub fields: Vec<u8>,
    pub length: u64,
    /// Stored bytes before the received ones.
    pub before: Vec<Arc<[u8]>>,
    pub behind: Vec<Arc<[u8]>>,
    pub fill: Option<Insertion>,
    /// The insertion and metadata of a part, if the whole object is not stored.
    pub part: Option<(PartInsertion, Box<[u8]>)>,
}

impl Cache {
    /// The stored parts of the variant that `request` selects.
    pub(super) fn parts_for(&self, key: &Key<'_>, request: &Request<'_>) -> Option<Arc<Object>> {
        if request.method != Method::Get {
            return None;
        }
        let object = self.store.parts(key)?;
        let does_fit = Metadata::read(object.metadata()).is_ok_and(|stored| fits(request, &stored));
        (does_fit && !self.forget_if_purged(&object)).then_some(object)
    }
}

/// Returns true if the stored parts alone answer `request` at `now`.
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
            // Several ranges of an encoded body are answered with the whole.
            let is_told = ranges.len() == 1 || !Section(stored.fields).has("content-encoding");
            is_told && ranges.into_iter().all(|range| parts.stored_position(range).is_some())
        }
    }
}

/// Returns true if the request is for a range that may be stored as a part.
pub(super) fn is_for_part(request: &Request<'_>) -> bool {
    let unconditional = Conditions { if_range: None, ..request.conditions } == Conditions::default();
    request.method == Method::Get
        && request.body == Body::Length(0)
        && request.range.is_some()
        && unconditional
}

/// The range to request, given these parts.
pub(super) fn fetch_range(
    parts: Option<&Arc<Object>>,
    request: &Request<'_>,
    directives: &RequestDirectives,
    now: i64,
) -> FetchRange {
    let plain = if request.range.is_some() { FetchRange::Part } else { FetchRange::Whole };
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
        // For a stale object the client's range is requested, because the response includes its validator.
        Answer::Parts(ranges) if ranges.len() == 1 && stored.freshness(now) > 0 && !stored.no_cache => {
            Some(ranges[0])
        }
        _ => return plain,
    };
    match held.missing(wanted.unwrap_or(all)) {
        Some(missing) if missing != wanted.unwrap_or(all) => {
            FetchRange::Rest(Rest { held: Arc::clone(parts), missing, wanted })
        }
        _ => plain,
    }
}

/// Stores what arrived of a truncated body as a part, if it can be completed later.
pub(super) fn keep_as_part(fill: Insertion) {
    let busy_object = Arc::clone(fill.busy_object());
    let tag = metadata(&busy_object).map_or(&[][..], |stored| stored.entity_tag);
    if !tag.starts_with(b"W/") {
        fill.end_as_part(tag);
    }
}

impl Cache {
    /// Handles the response to a partial request; `None` if it needs no special handling.
    pub(super) fn classify_part(
        &self,
        miss: &CacheMiss,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> Option<ResponseAction> {
        match (&miss.fetch_range, received.head.status) {
            (FetchRange::Part, 206) => Some(self.begin_part(miss, received, claim)),
            (FetchRange::Rest(rest), 206) => Some(match self.join(miss, rest, received, claim) {
                Some(joined) => ResponseAction::Combination(Box::new(joined)),
                None => {
                    self.store.purge_object(&rest.held);
                    ResponseAction::Again
                }
            }),
            // The object has become shorter.
            (FetchRange::Rest(_), 416) => Some(ResponseAction::Again),
            _ => None,
        }
    }

    /// Starts to store a part; a part that covers everything is stored as the whole.
    fn begin_part(
        &self,
        miss: &CacheMiss,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> ResponseAction {
        let tag = strong_tag(Section(received.head.fields));
        let known = self.store.inspect_parts(&miss.key);
        let known =
            known.as_ref().filter(|known| known.stored_ranges().is_some_and(|held| held.tag() == tag));
        let known = known.filter(|_| !tag.is_empty()).and_then(|known| Metadata::read(known.metadata()).ok());
        let (request, response) = (received.request(miss), received.response());
        let Ok((ContentRange { part, complete: Some(whole_bytes) }, metadata)) =
            storable_part(&request, &response, known.as_ref(), &self.policy)
        else {
            return ResponseAction::Part(None);
        };
        let is_all = part.length() == whole_bytes && whole_bytes <= self.store.object_bytes_max();
        if is_all && received.head.body == upstream::Body::Length(whole_bytes) {
            return ResponseAction::Answer(self.start(miss, metadata, Some(whole_bytes), claim));
        }
        let fill = self.part_fill(miss, tag, part, whole_bytes, &metadata);
        ResponseAction::Part(fill.map(|fill| (fill, metadata)))
    }

    fn part_fill(
        &self,
        miss: &CacheMiss,
        tag: &[u8],
        range: ByteRange,
        whole_bytes: u64,
        metadata: &[u8],
    ) -> Option<PartInsertion> {
        let vary = vary_of(&Metadata::read(metadata).ok()?);
        let head = PartHead { metadata: metadata.into(), vary, tag: tag.into(), range, whole_bytes };
        self.store.begin_part(&miss.key, head)
    }

    /// Combines stored and received bytes; `None` if the response is not what was requested.
    fn join(
        &self,
        miss: &CacheMiss,
        rest: &Rest,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> Option<Combination> {
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
        let (request, response) = (received.request(miss), received.response());
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
        // Parts purged meanwhile must not come back.
        let is_held = self
            .store
            .inspect_parts(&miss.key)
            .is_some_and(|now| now.stored_ranges().is_some_and(|now| now.tag() == tag));
        let fill = wanted.is_none() && is_held && whole_bytes <= self.store.object_bytes_max();
        let fill = fill.then(|| self.start(miss, metadata.clone(), Some(whole_bytes), claim)).flatten();
        let part = match fill {
            Some(_) => None,
            None => {
                let fill = self.part_fill(miss, tag, *missing, whole_bytes, &metadata);
                fill.map(|fill| (fill, metadata.clone()))
            }
        };
        let status = if wanted.is_some() { 206 } else { 200 };
        Some(Combination { status, fields, length: all.length(), before, behind, fill, part })
    }
}
