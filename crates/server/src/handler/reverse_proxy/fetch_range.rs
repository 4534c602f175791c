//! Which stored responses and parts answer a request, and which range is requested from an upstream otherwise (RFC 9111,
//! 3.3 and 3.4).
//!
//! A range of an object that is not stored is requested unchanged and stored as a part. Stored parts with a strong
//! entity tag are completed: the range from the first to the last missing byte is requested with If-Range, and combined
//! with the stored bytes around it.

use std::sync::Arc;

use sojourn_cache_store::Object;
use sojourn_http::condition::Conditions;
use sojourn_http::range::ByteRange;
use sojourn_http::request::{Body, Method, Request};
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::Purpose;
use sojourn_http_cache::vary::secondary_key;
use sojourn_http_cache::{Allowance, Answer, Metadata, RequestDirectives, Use};

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
        let ByteRange { first, last } = self.missing;
        let (tag, reaches_end) = match self.held.stored_ranges() {
            Some(held) => (held.tag(), last + 1 == held.whole_bytes()),
            None => (&b""[..], false),
        };
        Purpose::Rest { tag, first, last: (!reaches_end).then_some(last) }
    }

    /// The request to make if the parts cannot be completed.
    pub(super) fn fallback_range(&self) -> FetchRange {
        if self.wanted.is_some() { FetchRange::Part } else { FetchRange::Whole }
    }
}

/// The form in which the stored response answers `request`.
pub fn answer(request: &Request<'_>, stored: &Metadata<'_>, length: u64) -> Answer {
    let range = request.range.filter(|_| request.method == Method::Get);
    Answer::of(&request.conditions, range, stored, length)
}

/// Returns true if a stored response's secondary key matches `request`.
pub fn fits(request: &Request<'_>, stored: &Metadata<'_>) -> bool {
    secondary_key(stored.vary, Section(request.fields)) == stored.secondary_key
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
