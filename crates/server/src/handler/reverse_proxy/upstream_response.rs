//! Decides about upstream responses: forward, store, or use as a revalidation result.

use std::sync::Arc;

use sojourn_cache_store::{
    BusyObject, InsertOutcome, Insertion, Key, Object, ObjectHead, PartInsertion, Sharing, Vary,
};
use sojourn_http::upstream::{self, Asked, Head};
use sojourn_http_cache::fields::{Section, append_line};
use sojourn_http_cache::forward::Via;
use sojourn_http_cache::key::normalised;
use sojourn_http_cache::validation::{Freshened, freshen, matches_head, validated};
use sojourn_http_cache::{
    Failure, Forwarded, Metadata, Moments, NotStorable, RequestDirectives, is_own_content, may_answer_after,
    storable,
};

use super::{Cache, Changes, Joined, Keyed, Revalidation, Wish};

/// The head of an answer, and what led to it.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    pub asked: Asked,
    /// The head of the request as it was sent.
    pub sent: &'a [u8],
    pub head: &'a Head<'a>,
    /// When it was asked for and came.
    pub moments: Moments,
    pub via: Via<'a>,
}

/// The decision about a response.
#[derive(Debug)]
pub enum Heard {
    /// Forward it, and store it if there is an insertion.
    Answer(Option<Insertion>),
    /// Forward it, and store it as a part with this metadata if there is an insertion.
    Part(Option<(PartInsertion, Box<[u8]>)>),
    /// It completes what is held.
    Joined(Box<Joined>),
    Stored(Revalidation),
    /// It is about nothing that is stored: ask again, without conditions.
    Again,
}

/// The answer without an upstream.
#[derive(Debug)]
pub enum Without {
    Stored(Arc<Object>),
    /// An error, for what is stored must not be used so: 504 (RFC 9111, 5.2.2.2).
    Forbidden,
    Nothing,
}

impl Cache {
    /// Decides about the response to the request of `keyed`; `claim` is the insertion, if one was begun.
    pub fn hear(&self, keyed: &Keyed, received: &Received<'_>, claim: &mut Option<Insertion>) -> Heard {
        let status = received.head.status;
        if status == 304 && keyed.is_validation() {
            return self.validate(keyed, received);
        }
        if let Some(heard) = self.hear_part(keyed, received, claim) {
            return heard;
        }
        let now = received.moments.response;
        match self.stands_in(Failure::Status(status), keyed, now) {
            Some(object) => Heard::Stored(Revalidation { object, upstream_status: status, is_for_all: true }),
            None if received.asked == Asked::Head => {
                self.learn(keyed, received);
                Heard::Answer(None)
            }
            None => Heard::Answer(self.begin(keyed, received, claim)),
        }
    }

    /// The answer to the request of `keyed` at `now`, after every upstream failed (RFC 9111, 4.2.4 and 4.3.3).
    pub fn without_upstream(&self, keyed: &Keyed, now: i64) -> Without {
        if let Some(object) = self.stands_in(Failure::Disconnected, keyed, now) {
            return Without::Stored(object);
        }
        let stored = keyed.known.as_ref().and_then(|known| Metadata::read(known.metadata()).ok());
        match stored {
            Some(stored) if stored.forbids_stale => Without::Forbidden,
            _ => Without::Nothing,
        }
    }

    fn stands_in(&self, failure: Failure, keyed: &Keyed, now: i64) -> Option<Arc<Object>> {
        let known = keyed.known.as_ref()?;
        let stored = Metadata::read(known.metadata()).ok()?;
        may_answer_after(failure, &keyed.directives, &stored, now, &self.policy).then(|| Arc::clone(known))
    }

    /// A 304 to what was asked with the conditions of what is stored (RFC 9111, 4.3.3 and 4.3.4).
    fn validate(&self, keyed: &Keyed, received: &Received<'_>) -> Heard {
        let (all, fields) = (keyed.stored(), Section(received.head.fields));
        let Some(current) = validated(fields, &all) else { return Heard::Again };
        let place = all.iter().position(|one| std::ptr::eq(one, current)).expect("it is one of them");
        let object = &keyed.about[place];
        let Received { moments, via, .. } = *received;
        let standing = |object, is_for_all| Revalidation { object, upstream_status: 304, is_for_all };
        let key = key_of(&keyed.key, current);
        match freshen(current, &received.request(keyed), fields, moments, via, &self.policy) {
            Freshened::Stored(metadata) => {
                let is_current = self.store.is_current(&key, object);
                let fresh = match is_current {
                    true => self.store.freshen(object, &metadata),
                    // It was replaced or purged meanwhile: then it does not come back, and is for nobody else.
                    false => Arc::new(object.with_metadata(&metadata)),
                };
                Heard::Stored(standing(fresh, is_current || self.held(&key).is_some()))
            }
            Freshened::Apart(metadata, lines) => {
                if self.store.is_current(&key, object) {
                    self.store.freshen(object, &metadata);
                }
                Heard::Stored(standing(once(object, current, &lines, moments.response), false))
            }
            Freshened::Once(lines, reason) => {
                if !reason.is_of_request() {
                    self.store.purge(&key);
                }
                Heard::Stored(standing(once(object, current, &lines, moments.response), false))
            }
            Freshened::Changed => {
                self.store.purge(&keyed.key);
                Heard::Again
            }
        }
    }

    /// A 200 to a HEAD brings the stored response up to date that it is about; one that is about another makes that stale
    /// (RFC 9111, 4.3.5).
    fn learn(&self, keyed: &Keyed, received: &Received<'_>) {
        let Some(object) = &keyed.known else { return };
        let Ok(stored) = Metadata::read(object.metadata()) else { return };
        let Received { head, moments, via, .. } = *received;
        let (key, fields) = (key_of(&keyed.key, &stored), Section(head.fields));
        if head.status != 200 || !self.store.is_current(&key, object) {
            return;
        }
        if !matches_head(fields, &stored, object.length(), head.content_length) {
            self.store.freshen(object, &Metadata { lifetime: 0, ..stored }.write());
            return;
        }
        match freshen(&stored, &received.request(keyed), fields, moments, via, &self.policy) {
            Freshened::Stored(metadata) | Freshened::Apart(metadata, _) => {
                drop(self.store.freshen(object, &metadata));
            }
            Freshened::Once(_, reason) if reason.is_of_request() => {}
            Freshened::Once(..) | Freshened::Changed => drop(self.store.purge(&key)),
        }
    }

    /// Begins to store the response; `None` if it must not be stored, or another request stores it.
    fn begin(
        &self,
        keyed: &Keyed,
        received: &Received<'_>,
        claim: &mut Option<Insertion>,
    ) -> Option<Insertion> {
        let Received { head, moments, .. } = received;
        // While an origin fails, one request at a time is enough.
        let pass = || {
            if head.status < 500 {
                self.hit_for_miss.remember(&keyed.key, moments.response);
            }
        };
        let Some(length) = length_of(head) else {
            pass();
            return None;
        };
        let metadata = match storable(&received.request(keyed), &received.response(), &self.policy) {
            Ok(metadata) => metadata,
            Err(reason) => {
                self.forget_replaced(keyed, head.status, reason);
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
        self.start(keyed, metadata, length, claim)
    }

    /// Begins to store a body within the size limit; `None` if another request does.
    pub(super) fn start(
        &self,
        keyed: &Keyed,
        metadata: Box<[u8]>,
        length: Option<u64>,
        claim: &mut Option<Insertion>,
    ) -> Option<Insertion> {
        let vary = vary_of(&Metadata::read(&metadata).ok()?);
        let mut fill = match claim.take() {
            Some(fill) => fill,
            None => match self.store.begin(&keyed.key, keyed.known.as_ref()) {
                InsertOutcome::Insert(fill) => fill,
                InsertOutcome::Busy(_) | InsertOutcome::Hit(_) => return None,
            },
        };
        self.hit_for_miss.forget(&keyed.key);
        fill.start(ObjectHead { metadata, length, vary, sharing: Sharing::Stored });
        Some(fill)
    }

    /// A new answer that must not be stored makes what is stored outdated; what failed, or is no answer to a whole
    /// request, does not, and neither does what another client's request would have got.
    fn forget_replaced(&self, keyed: &Keyed, status: u16, reason: NotStorable) {
        let is_answer = status < 500 && reason != NotStorable::Status && !reason.is_of_request();
        let stored = keyed.known.as_ref().and_then(|known| Metadata::read(known.metadata()).ok());
        if let Some(stored) = stored.filter(|_| is_answer) {
            self.store.purge(&key_of(&keyed.key, &stored));
        }
    }
}

impl Cache {
    /// Begins to store the answer to a POST that a later GET gets (RFC 9110, 9.3.3): it says so by Content-Location, and
    /// for how long.
    pub(super) fn begin_posted(&self, changes: &Changes, received: &Received<'_>) -> Option<Insertion> {
        let (target, head) = (changes.target(), received.head);
        let is_posted = *changes.method == *b"POST" && head.status == 200;
        // Requests with one key must get the same answer from every origin: this one went as it was.
        let is_plain = *normalised(&changes.path) == *changes.path;
        if !is_posted || !is_plain || !is_own_content(&target, Section(head.fields)) {
            return None;
        }
        let length = length_of(head).filter(|length| length.unwrap_or(0) <= self.store.object_bytes_max())?;
        let fields = received.sent.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = target.key();
        let keyed = Keyed {
            key: Key::new(&text).into_owned(),
            may_join: false,
            why: Forwarded::Method,
            wish: Wish::Whole,
            directives: RequestDirectives::read(&received.sent[fields..]),
            known: None,
            under_way: None,
            about: Vec::new(),
        };
        let metadata = storable(&received.request(&keyed), &received.response(), &self.policy).ok()?;
        let stored = Metadata::read(&metadata).ok()?;
        let is_explicit = !stored.is_heuristic && stored.lifetime > 0;
        is_explicit.then(|| self.start(&keyed, metadata.clone(), length, &mut None)).flatten()
    }
}

impl Received<'_> {
    pub(super) fn request(&self, keyed: &Keyed) -> sojourn_http_cache::Request<'_> {
        let line_end = self.sent.iter().position(|byte| *byte == b'\n');
        let fields = line_end.map_or(&[][..], |end| &self.sent[end + 1..]);
        sojourn_http_cache::Request {
            method: b"GET",
            fields: Section(fields),
            directives: keyed.directives,
            has_body: false,
        }
    }

    pub(super) fn response(&self) -> sojourn_http_cache::Response<'_> {
        let Received { head, moments, via, .. } = *self;
        sojourn_http_cache::Response { status: head.status, fields: Section(head.fields), moments, via }
    }
}

/// `object`, to be used once with these field lines at `now`.
fn once(object: &Object, stored: &Metadata<'_>, lines: &[u8], now: i64) -> Arc<Object> {
    // Its age is computed anew.
    let mut fields = Vec::with_capacity(lines.len());
    let is_kept = |name: &[u8]| !name.eq_ignore_ascii_case(b"age");
    for (name, value) in Section(lines).lines().filter(|(name, _)| is_kept(name)) {
        append_line(&mut fields, name, &[value]);
    }
    let once = Metadata { fields: &fields, response_time: now, initial_age: 0, ..*stored };
    Arc::new(object.with_metadata(&once.write()))
}

/// The body's length, if the head has it; `None` if a truncated body could not be detected.
pub(super) fn length_of(head: &Head<'_>) -> Option<Option<u64>> {
    match head.body {
        upstream::Body::Length(length) => Some(Some(length)),
        upstream::Body::None => Some(Some(0)),
        upstream::Body::Chunked => Some(None),
        upstream::Body::UntilClose => None,
    }
}

/// The Vary of a stored response.
pub(super) fn vary_of(stored: &Metadata<'_>) -> Option<Vary> {
    (!stored.vary.is_empty()).then(|| Vary {
        fields: vec![stored.vary.as_bytes().into()],
        secondary_key: stored.secondary_key.into(),
    })
}

/// Where a stored response is found.
fn key_of(primary: &Key<'_>, stored: &Metadata<'_>) -> Key<'static> {
    match stored.vary {
        "" => primary.clone().into_owned(),
        _ => primary.variant(stored.secondary_key),
    }
}

/// The metadata of what is being kept.
pub fn metadata(kept: &BusyObject) -> Option<Metadata<'_>> {
    Metadata::read(&kept.head()?.metadata).ok()
}
