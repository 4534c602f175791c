//! Decides whether a shared cache may store a response, and what it stores (RFC 9111, 3).

use sojourn_http::HttpDate;

use super::control::{Control, Delta};
use super::fields::{Section, is_one_of};
use super::forward::{Via, append_response};
use super::freshness::{
    Freshness, Moments, Source, date_value, initial_age, is_heuristically_cacheable, single_date,
};
use super::metadata::Metadata;
use super::policy::Policy;
use super::request::RequestDirectives;
use super::vary::{Vary, secondary_key};

/// The request as it was sent to the origin. The secondary key is made of these fields, not of the client's: a field
/// named in `Connection` never reached the origin, so it did not select the response.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a [u8],
    pub fields: Section<'a>,
    pub directives: RequestDirectives,
    pub has_body: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    pub status: u16,
    pub fields: Section<'a>,
    /// When the request was sent and the response arrived.
    pub moments: Moments,
    pub via: Via<'a>,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStorable {
    /// Only responses to GET are stored (HEAD has no body).
    #[error("the method is not GET")]
    Method,
    /// A GET with a body, which is not part of the key.
    #[error("the request had a body")]
    RequestBody,
    /// RFC 9111, 5.2.1.5: the request has `no-store`.
    #[error("the request has no-store")]
    RequestNoStore,
    /// RFC 9111, 3: the status is not final or not cacheable.
    #[error("the status is not final, or does not answer a whole request")]
    Status,
    /// RFC 9111, 5.2.2.5: the response has `no-store`.
    #[error("the response has no-store")]
    NoStore,
    /// RFC 9111, 5.2.2.7: the response is `private`.
    #[error("the response is private")]
    Private,
    /// RFC 9111, 5.2.2.3: `must-understand` with an unknown status.
    #[error("the response has must-understand and an unknown status")]
    NotUnderstood,
    /// RFC 9111, 3.5: the request was authenticated.
    #[error("the request has Authorization and the response does not allow shared use")]
    Authorization,
    /// The response sets a cookie, which other clients must not get.
    #[error("the response sets a cookie and does not allow storing without it")]
    SetCookie,
    /// RFC 9111, 4.1: no other request could match.
    #[error("the response has Vary: *")]
    Vary,
    /// RFC 9111, 3: neither explicit nor heuristic permission.
    #[error("the response has no freshness information that allows storing it")]
    NotCacheable,
    /// It would be stale immediately and cannot be revalidated.
    #[error("the stored response could never be used")]
    NeverUsable,
}

impl NotStorable {
    /// Returns true if the reason lies in the request, so that another request's response could be stored.
    pub fn is_of_request(self) -> bool {
        matches!(
            self,
            NotStorable::Method
                | NotStorable::RequestBody
                | NotStorable::RequestNoStore
                | NotStorable::Authorization
        )
    }
}

/// Status codes that the cache understands (RFC 9110, 15), for `must-understand`.
const UNDERSTOOD: [u16; 26] = [
    200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 409, 410, 414, 451, 500,
    501, 502, 503, 504, 505,
];

/// The metadata of the response to store, serialised, or why it must not be stored.
pub fn storable(
    request: &Request<'_>,
    response: &Response<'_>,
    policy: &Policy,
) -> Result<Box<[u8]>, NotStorable> {
    let name = policy.is_surrogate.then_some(response.via.pseudonym);
    let control = Control::of(response.fields, &policy.targets, name);
    let freshness = Freshness::of(response.status, response.fields, &control, response.moments, policy);
    may_store(request, response, &control, freshness)?;
    let vary = Vary::of(response.fields).ok_or(NotStorable::Vary)?;
    let entity_tag = entity_tag(response.fields).unwrap_or_default();
    let metadata = Metadata {
        status: response.status,
        response_time: response.moments.response,
        date: date_value(response.fields, response.moments),
        last_modified: single_date(response.fields, "last-modified"),
        initial_age: initial_age(response.fields, response.moments),
        lifetime: freshness.lifetime,
        stale_while_revalidate: control.stale_while_revalidate.or_none(),
        stale_if_error: control.stale_if_error.or_none(),
        no_cache: control.no_cache,
        forbids_stale: control.forbids_stale(),
        is_heuristic: freshness.source == Source::Heuristic,
        entity_tag,
        vary: vary.as_str(),
        secondary_key: &secondary_key(vary.as_str(), request.fields),
        fields: &stored_lines(response, &control),
    };
    let is_ever_usable = metadata.has_validator()
        || !metadata.no_cache && metadata.useful_until().is_some_and(|end| end > response.moments.response);
    if is_ever_usable { Ok(metadata.write()) } else { Err(NotStorable::NeverUsable) }
}

/// RFC 9111, 3, condition by condition.
fn may_store(
    request: &Request<'_>,
    response: &Response<'_>,
    control: &Control,
    freshness: Freshness,
) -> Result<(), NotStorable> {
    let is_understood = UNDERSTOOD.contains(&response.status);
    let refusals = [
        (request.method != b"GET", NotStorable::Method),
        (request.has_body, NotStorable::RequestBody),
        (request.directives.no_store, NotStorable::RequestNoStore),
        // 206 and 304 are not whole responses; 407 and 416 depend on one client's credentials and range.
        (matches!(response.status, 100..=199 | 206 | 304 | 407 | 416), NotStorable::Status),
        (control.must_understand && !is_understood, NotStorable::NotUnderstood),
        // RFC 9111, 5.2.2.3: `no-store` next to it is meant for caches that do not know `must-understand`.
        (control.no_store && !control.must_understand, NotStorable::NoStore),
        (control.private, NotStorable::Private),
        (request.fields.has("authorization") && !control.allows_authenticated(), NotStorable::Authorization),
        (response.fields.has("set-cookie") && !may_drop_cookie(control, freshness), NotStorable::SetCookie),
        (
            freshness.source != Source::Explicit
                && !control.public
                && !is_heuristically_cacheable(response.status),
            NotStorable::NotCacheable,
        ),
    ];
    refusals.into_iter().find(|(applies, _)| *applies).map_or(Ok(()), |(_, refusal)| Err(refusal))
}

/// A response with a cookie is stored (without the cookie) only if it lists Set-Cookie as not reusable and is
/// explicitly public.
fn may_drop_cookie(control: &Control, freshness: Freshness) -> bool {
    let is_for_all = control.public || control.is_targeted || control.s_maxage != Delta::Absent;
    control.withholds(b"set-cookie") && freshness.source == Source::Explicit && is_for_all
}

/// The field lines to store (RFC 9111, 3.1): no withheld, computed or hop-by-hop fields.
fn stored_lines(response: &Response<'_>, control: &Control) -> Vec<u8> {
    let mut lines = Vec::new();
    let is_kept = |name: &[u8]| !is_one_of(name, &["age"]) && !control.withholds(name);
    let date = || HttpDate::from_seconds(response.moments.response).text();
    append_response(&mut lines, response.fields, response.via, date, is_kept);
    lines
}

/// The entity tag, if there is exactly one valid one (RFC 9110, 8.8.3).
pub fn entity_tag<'b>(fields: Section<'b>) -> Option<&'b [u8]> {
    let mut values = fields.values("etag");
    let tag = values.next()?;
    let inner = tag.strip_prefix(b"W/").unwrap_or(tag).strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let is_tag = inner.iter().all(|byte| !matches!(byte, 0..=0x20 | b'"' | 0x7f));
    (is_tag && values.next().is_none()).then_some(tag)
}

#[cfg(test)]
mod tests;
