//! Answers to POST that are what a later GET gets (RFC 9110, 9.3.3): those that say so by Content-Location, and for how long.

use sojourn_cache_store::{Fill, Key};
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::key::normalised;
use sojourn_http_cache::{Forwarded, Metadata, RequestDirectives, is_own_content, storable};

use super::hearing::length_of;
use super::{Cache, Changes, Keyed, Received, Wish};

impl Cache {
    /// Begins to keep the answer to a request that may have changed something, if it is such an answer.
    pub(super) fn begin_posted(&self, changes: &Changes, received: &Received<'_>) -> Option<Fill> {
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
