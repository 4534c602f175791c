//! Decides about upstream responses: forward, store, or use as a revalidation result.

use std::sync::Arc;

use sojourn_cache_store::{
    BusyObject, InsertOutcome, Insertion, Key, Object, ObjectHead, PartInsertion, Sharing, Vary,
};
use sojourn_http::upstream::{self, Head, RequestKind};
use sojourn_http_cache::fields::{Section, append_line};
use sojourn_http_cache::forward::Via;
use sojourn_http_cache::validation::{Freshened, freshen, matches_head, validated};
use sojourn_http_cache::vary::secondary_key;
use sojourn_http_cache::{
    Failure, Forwarded, Metadata, Moments, NotStorable, RequestDirectives, is_own_content, may_answer_after,
    storable,
};

use super::cache_miss::Generation;
use super::{Cache, CacheMiss, Changes, Combination, FetchRange, Revalidation};

/// The head of a response, with its request.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    pub asked: RequestKind,
    /// The request head as it was sent.
    pub sent: &'a [u8],
    pub head: &'a Head<'a>,
    /// When the request was sent and the response arrived.
    pub moments: Moments,
    pub via: Via<'a>,
}

#[derive(Debug)]
pub enum ResponseAction {
    /// Forward it, and store it if there is an insertion.
    Answer(Option<Insertion>),
    /// Forward it, and store it as a part with this metadata if there is an insertion.
    Part(Option<(PartInsertion, Box<[u8]>)>),
    /// Combine it with the stored parts.
    Combination(Box<Combination>),
    Stored(Revalidation),
    /// It matches no stored response: repeat the request without conditions.
    Again,
}

/// What to answer if no upstream responds.
#[derive(Debug)]
pub enum Fallback {
    Stored(Arc<Object>),
    /// 504: the stored response must not be used without revalidation (RFC 9111, 5.2.2.2).
    Forbidden,
    Nothing,
}

impl Cache {
    /// Decides about a response; `claim` is the insertion, if one was started.
    pub fn classify(
        &self,
        miss: &CacheMiss,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> ResponseAction {
        let status = received.head.status;
        if status == 304 && miss.is_validation() {
            return self.validate(miss, received, claim);
        }
        if let Some(action) = self.classify_part(miss, received, claim) {
            return action;
        }
        let now = received.moments.response;
        match self.stale_if_error(Failure::Status(status), miss, now) {
            Some(object) => {
                ResponseAction::Stored(Revalidation { object, upstream_status: status, is_for_all: true })
            }
            None if received.asked == RequestKind::Head => {
                self.refresh_from_head(miss, received);
                ResponseAction::Answer(None)
            }
            None => ResponseAction::Answer(self.begin(miss, received, claim)),
        }
    }

    /// What to answer at `now` after every upstream failed (RFC 9111, 4.2.4 and 4.3.3).
    pub fn stale_or_failure(&self, miss: &CacheMiss, now: i64) -> Fallback {
        if let Some(object) = self.stale_if_error(Failure::Disconnected, miss, now) {
            return Fallback::Stored(object);
        }
        let stored = miss.known.as_ref().and_then(|known| Metadata::read(known.metadata()).ok());
        match stored {
            Some(stored) if stored.forbids_stale => Fallback::Forbidden,
            _ => Fallback::Nothing,
        }
    }

    fn stale_if_error(&self, failure: Failure, miss: &CacheMiss, now: i64) -> Option<Arc<Object>> {
        let known = miss.known.as_ref()?;
        let stored = Metadata::read(known.metadata()).ok()?;
        may_answer_after(failure, &miss.directives, &stored, now, &self.policy).then(|| Arc::clone(known))
    }

    /// Handles a 304 to a revalidation (RFC 9111, 4.3.3 and 4.3.4).
    fn validate(
        &self,
        miss: &CacheMiss,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> ResponseAction {
        let (all, fields) = (miss.stored(), Section(received.head.fields));
        let Some(current) = validated(fields, &all) else { return ResponseAction::Again };
        let place = all.iter().position(|one| std::ptr::eq(one, current)).expect("it is one of them");
        let object = &miss.about[place];
        let Received { moments, via, .. } = *received;
        let revalidation = |object, is_for_all| Revalidation { object, upstream_status: 304, is_for_all };
        let key = key_of(&miss.key, current);
        let is_purged = self.purges.is_purged_since(current, miss.generation.tags);
        let is_current = !is_purged && self.store.is_current(&key, object);
        match freshen(current, &received.request(miss), fields, moments, via, &self.policy) {
            Freshened::Stored(metadata) => {
                self.note_sharing(miss, &metadata);
                let fresh = match is_current {
                    true => self.store.freshen(object, &metadata),
                    // Replaced or purged meanwhile: it is not stored again, and answers only this client.
                    false => Arc::new(object.with_metadata(&metadata)),
                };
                if is_current {
                    self.store_as_variant(&fresh, miss, received, claim);
                }
                let is_for_all = is_current || !is_purged && self.held(&key).is_some();
                ResponseAction::Stored(revalidation(fresh, is_for_all))
            }
            Freshened::Apart(metadata, lines) => {
                if is_current {
                    self.store.freshen(object, &metadata);
                }
                ResponseAction::Stored(revalidation(once(object, current, &lines, moments.response), false))
            }
            Freshened::Once(lines, reason) => {
                if !reason.is_of_request() {
                    self.store.purge(&key);
                }
                ResponseAction::Stored(revalidation(once(object, current, &lines, moments.response), false))
            }
            Freshened::Changed => {
                self.store.purge(&miss.key);
                ResponseAction::Again
            }
        }
    }

    /// Also stores the variant that a 304 selected under this request's secondary key, so that the next such request
    /// need not be revalidated (RFC 9111, 4.1). A body that is only on disk is not copied.
    fn store_as_variant(
        &self,
        chosen: &Object,
        miss: &CacheMiss,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) {
        let Ok(stored) = Metadata::read(chosen.metadata()) else { return };
        let own = secondary_key(stored.vary, received.request(miss).fields);
        if stored.vary.is_empty() || own == stored.secondary_key || !chosen.is_in_memory() {
            return;
        }
        let metadata = Metadata { secondary_key: &own, ..stored }.write();
        let Some(mut copy) = self.start(miss, metadata, Some(chosen.length()), claim) else { return };
        let mut position = 0;
        while let Some(slice) = chosen.slice(position) {
            copy.append(slice.as_bytes().into());
            position += slice.as_bytes().len() as u64;
        }
        // The length is right by construction.
        let _ = copy.complete();
    }

    /// Handles a 200 to a HEAD: updates the stored response that it describes; if it describes a different one, marks
    /// the stored one as stale (RFC 9111, 4.3.5).
    fn refresh_from_head(&self, miss: &CacheMiss, received: &Received<'_>) {
        let Some(object) = &miss.known else { return };
        let Ok(stored) = Metadata::read(object.metadata()) else { return };
        let Received { head, moments, via, .. } = *received;
        let (key, fields) = (key_of(&miss.key, &stored), Section(head.fields));
        let is_purged = self.purges.is_purged_since(&stored, miss.generation.tags);
        if head.status != 200 || is_purged || !self.store.is_current(&key, object) {
            return;
        }
        // What is stored with another status is not what a GET would bring now.
        if stored.status != 200 || !matches_head(fields, &stored, object.length(), head.content_length) {
            self.store.freshen(object, &Metadata { lifetime: 0, ..stored }.write());
            return;
        }
        match freshen(&stored, &received.request(miss), fields, moments, via, &self.policy) {
            Freshened::Stored(metadata) | Freshened::Apart(metadata, _) => {
                drop(self.store.freshen(object, &metadata));
            }
            Freshened::Once(_, reason) if reason.is_of_request() => {}
            Freshened::Once(..) | Freshened::Changed => drop(self.store.purge(&key)),
        }
    }

    /// Starts to store the response; `None` if it must not be stored, or another request stores it.
    fn begin(
        &self,
        miss: &CacheMiss,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> Option<Insertion> {
        let Received { head, moments, .. } = received;
        // While an origin fails, one request at a time is enough.
        let pass = || {
            if head.status < 500 {
                self.hit_for_miss.remember(&miss.key, moments.response);
            }
        };
        let Some(length) = length_of(head) else {
            pass();
            return None;
        };
        let metadata = match storable(&received.request(miss), &received.response(), &self.policy) {
            Ok(metadata) => metadata,
            Err(reason) => {
                self.forget_replaced(miss, head.status, reason);
                if !reason.is_of_request() {
                    pass();
                }
                return None;
            }
        };
        if length.is_some_and(|length| length > self.store.object_bytes_max()) {
            pass();
            return None;
        }
        self.start(miss, metadata, length, claim)
    }

    /// Starts to store a body within the size limit; `None` if another request does, or if it was purged since it was
    /// requested.
    pub(super) fn start(
        &self,
        miss: &CacheMiss,
        metadata: Box<[u8]>,
        length: Option<u64>,
        claim: &mut Option<Insertion>,
    ) -> Option<Insertion> {
        let stored = Metadata::read(&metadata).ok()?;
        if self.purges.is_purged_since(&stored, miss.generation.tags) {
            return None;
        }
        let vary = vary_of(&stored, miss);
        let may_be_shared = self.note_sharing(miss, &metadata);
        let is_current = || self.store.generation(&miss.key) == miss.generation.key;
        let mut fill = match claim.take() {
            // A purge since it was claimed has found it.
            Some(fill) => fill,
            None => match self.store.begin(&miss.key, miss.known.as_ref()) {
                // Begun first: a purge from here on finds it.
                InsertOutcome::Insert(fill) if is_current() => fill,
                InsertOutcome::Insert(_) | InsertOutcome::Busy(_) | InsertOutcome::Hit(_) => return None,
            },
        };
        if may_be_shared {
            self.hit_for_miss.forget(&miss.key);
        }
        fill.start(ObjectHead { metadata, length, vary, sharing: Sharing::Stored });
        Some(fill)
    }

    /// Returns true if the response that has just arrived, or was revalidated, may answer coalesced requests, too. Otherwise
    /// remembers it, so that the next ones are not coalesced.
    fn note_sharing(&self, miss: &CacheMiss, metadata: &[u8]) -> bool {
        let Ok(stored) = Metadata::read(metadata) else { return false };
        let may_be_shared = stored.may_be_shared(stored.response_time);
        if !may_be_shared {
            self.hit_for_miss.remember(&miss.key, stored.response_time);
        }
        may_be_shared
    }

    /// A new response that must not be stored outdates the stored one, so that is removed; failures, partial responses,
    /// and responses that depend on the client do not.
    fn forget_replaced(&self, miss: &CacheMiss, status: u16, reason: NotStorable) {
        let is_answer = status < 500 && reason != NotStorable::Status && !reason.is_of_request();
        let stored = miss.known.as_ref().and_then(|known| Metadata::read(known.metadata()).ok());
        if let Some(stored) = stored.filter(|_| is_answer) {
            self.store.purge(&key_of(&miss.key, &stored));
        }
    }
}

impl Cache {
    /// Starts to store the response to a POST for later GETs, if Content-Location and freshness allow that (RFC 9110,
    /// 9.3.3).
    pub(super) fn begin_posted(&self, changes: &Changes, received: &Received<'_>) -> Option<Insertion> {
        let (target, head) = (changes.target(), received.head);
        let is_posted = *changes.method == *b"POST" && head.status == 200;
        // Requests with the same key must be sent alike, and this one was sent unchanged.
        let is_plain = *changes.spelling.of(&changes.path) == *changes.path;
        if !is_posted || !is_plain || !is_own_content(&target, Section(head.fields)) {
            return None;
        }
        let length = length_of(head).filter(|length| length.unwrap_or(0) <= self.store.object_bytes_max())?;
        let fields = received.sent.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = target.key();
        let miss = CacheMiss {
            key: Key::new(&text).into_owned(),
            // Its own invalidation is one more.
            generation: Generation { key: changes.generation.key + 1, ..changes.generation },
            may_join: false,
            why: Forwarded::Method,
            fetch_range: FetchRange::Whole,
            directives: RequestDirectives::read(&received.sent[fields..]),
            known: None,
            busy_object: None,
            variants: None,
            about: Vec::new(),
        };
        let metadata = storable(&received.request(&miss), &received.response(), &self.policy).ok()?;
        let stored = Metadata::read(&metadata).ok()?;
        let is_explicit = !stored.is_heuristic && stored.lifetime > 0;
        is_explicit.then(|| self.start(&miss, metadata.clone(), length, &mut None)).flatten()
    }
}

impl Received<'_> {
    pub(super) fn request(&self, miss: &CacheMiss) -> sojourn_http_cache::Request<'_> {
        let line_end = self.sent.iter().position(|byte| *byte == b'\n');
        let fields = line_end.map_or(&[][..], |end| &self.sent[end + 1..]);
        sojourn_http_cache::Request {
            method: b"GET",
            fields: Section(fields),
            directives: miss.directives,
            has_body: false,
        }
    }

    pub(super) fn response(&self) -> sojourn_http_cache::Response<'_> {
        let Received { head, moments, via, .. } = *self;
        sojourn_http_cache::Response { status: head.status, fields: Section(head.fields), moments, via }
    }
}

/// A copy of `object` with these field lines, to be used once at `now`.
fn once(object: &Object, stored: &Metadata<'_>, lines: &[u8], now: i64) -> Arc<Object> {
    // Age is computed anew.
    let mut fields = Vec::with_capacity(lines.len());
    let is_kept = |name: &[u8]| !name.eq_ignore_ascii_case(b"age");
    for (name, value) in Section(lines).lines().filter(|(name, _)| is_kept(name)) {
        append_line(&mut fields, name, &[value]);
    }
    let once = Metadata { fields: &fields, response_time: now, initial_age: 0, ..*stored };
    Arc::new(object.with_metadata(&once.write()))
}

/// The body's length, if the head gives it; `None` if a truncated body could not be detected.
pub(super) fn length_of(head: &Head<'_>) -> Option<Option<u64>> {
    match head.body {
        upstream::Body::Length(length) => Some(Some(length)),
        upstream::Body::None => Some(Some(0)),
        upstream::Body::Chunked => Some(None),
        upstream::Body::UntilClose => None,
    }
}

pub(super) fn vary_of(stored: &Metadata<'_>, miss: &CacheMiss) -> Option<Vary> {
    (!stored.vary.is_empty()).then(|| Vary {
        fields: vec![stored.vary.as_bytes().into()],
        secondary_key: stored.secondary_key.into(),
        listed: miss.variants.clone(),
    })
}

fn key_of(primary: &Key<'_>, stored: &Metadata<'_>) -> Key<'static> {
    match stored.vary {
        "" => primary.clone().into_owned(),
        _ => primary.variant(stored.secondary_key),
    }
}

/// The metadata of an object in transit.
pub fn metadata(kept: &BusyObject) -> Option<Metadata<'_>> {
    Metadata::read(&kept.head()?.metadata).ok()
}
