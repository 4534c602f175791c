//! Partial content in the cache: finds stored parts, stores received ones, and combines both (RFC 9111, 3.3 and 3.4).

use std::sync::Arc;

use sojourn_cache_store::{Insertion, Key, Object, PartHead, PartInsertion};
use sojourn_http::head;
use sojourn_http::range::ByteRange;
use sojourn_http::request::{Method, Request};
use sojourn_http::upstream;
use sojourn_http_cache::Metadata;
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::partial::{ContentRange, storable_part, strong_tag};

use super::upstream_response::{metadata, vary_of};
use super::{Cache, CacheMiss, Combination, FetchRange, Received, ResponseAction, Rest, fits};

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
        let stored = Metadata::read(metadata).ok()?;
        if self.purges.is_purged_since(&stored, miss.generation.tags) {
            return None;
        }
        let vary = vary_of(&stored, miss);
        let head = PartHead { metadata: metadata.into(), vary, tag: tag.into(), range, whole_bytes };
        self.store.begin_part(&miss.key, miss.generation.key, head)
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
