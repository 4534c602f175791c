//! Revalidation: asks the origin whether a stored response is current and applies its answer (RFC 9111, 4.3).

use sojourn_http::HttpDate;
use sojourn_http::condition::is_same_weakly;

use super::control::Control;
use super::fields::{Section, append_line, is_one_of};
use super::forward::Via;
use super::metadata::Metadata;
use super::policy::Policy;
use super::storable::{NotStorable, Request, Response, entity_tag, storable};
use super::vary::Vary;
use super::{Moments, freshness::single_date};

/// Selects the stored variant that a 304 validates (RFC 9111, 4.3.4): an equal strong validator, or the latest with an
/// equal weak one. A 304 without validator selects the variant if only one was asked about; it need not repeat
/// Last-Modified (RFC 9110, 15.4.5). `None`: the 304 is unusable, request again without conditions.
pub fn validated<'a, 'b>(received: Section<'_>, stored: &'a [Metadata<'b>]) -> Option<&'a Metadata<'b>> {
    if let Some(tag) = entity_tag(received) {
        let is_it = |one: &&Metadata<'_>| {
            if tag.starts_with(b"W/") { is_same_weakly(one.entity_tag, tag) } else { one.entity_tag == tag }
        };
        return stored.iter().filter(is_it).max_by_key(|one| one.date);
    }
    if received.has("last-modified") {
        let modified = single_date(received, "last-modified")?;
        let is_it = |one: &&Metadata<'_>| one.last_modified == Some(modified);
        return stored.iter().filter(is_it).max_by_key(|one| one.date);
    }
    match stored {
        [one] => Some(one),
        _ => None,
    }
}

/// What a 304 means for a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshened {
    /// Store it with this metadata, and answer with it.
    Stored(Box<[u8]>),
    /// Store it with this metadata, but answer with these field lines, which hold a cookie or other fields for this client
    /// only.
    Apart(Box<[u8]>, Vec<u8>),
    /// Answer with these field lines, then drop the stored response, unless the reason [lies in the
    /// request](NotStorable::is_of_request).
    Once(Vec<u8>, NotStorable),
    /// It now varies by other fields: drop it and request again.
    Changed,
}

/// Fields that describe the stored body, which a 304 must not change (RFC 9111, 3.2).
const OF_THE_BODY: [&str; 5] = ["content-encoding", "content-length", "content-md5", "content-range", "etag"];

/// Updates `stored` by the fields of a 304, or of a 200 to a HEAD that [matches](matches_head).
pub fn freshen(
    stored: &Metadata<'_>,
    request: &Request<'_>,
    received: Section<'_>,
    moments: Moments,
    via: Via<'_>,
    policy: &Policy,
) -> Freshened {
    if received.has("vary") && Vary::of(received).is_none_or(|vary| vary.as_str() != stored.vary) {
        return Freshened::Changed;
    }
    // Via describes the path of the latest message only, so it replaces the stored one.
    let is_replaced = |name: &[u8]| {
        let is_new = received.lines().any(|(other, _)| other.eq_ignore_ascii_case(name));
        is_one_of(name, &["date", "via"]) || is_new && !is_one_of(name, &OF_THE_BODY)
    };
    let mut lines = Vec::with_capacity(stored.fields.len() + received.0.len());
    for (name, value) in Section(stored.fields).lines().filter(|(name, _)| !is_replaced(name)) {
        append_line(&mut lines, name, &[value]);
    }
    for (name, value) in received.lines().filter(|(name, _)| !is_one_of(name, &OF_THE_BODY)) {
        append_line(&mut lines, name, &[value]);
    }
    let response = Response { status: stored.status, fields: Section(&lines), moments, via };
    let once = || {
        let mut once = Vec::new();
        let date = || HttpDate::from_seconds(moments.response).text();
        super::forward::append_response(&mut once, response.fields, via, date, |_| true);
        once
    };
    let verdict = match storable(request, &response, policy) {
        Err(NotStorable::SetCookie) => {
            // The stored response was public without the cookie, and the origin says it is current: it stays so.
            let mut bare = Vec::with_capacity(lines.len());
            for (name, value) in response.fields.lines().filter(|(name, _)| !is_one_of(name, &["set-cookie"]))
            {
                append_line(&mut bare, name, &[value]);
            }
            storable(request, &Response { fields: Section(&bare), ..response }, policy)
                .map(|bytes| (bytes, Some(once())))
        }
        // Without what Cache-Control withholds from other clients.
        verdict => {
            let surrogate = policy.is_surrogate.then_some(via.pseudonym);
            let control = Control::of(response.fields, &policy.targets, surrogate);
            let is_own = |name: &[u8]| control.withholds(name) && !is_one_of(name, &OF_THE_BODY);
            let has_own = received.lines().any(|(name, _)| is_own(name));
            verdict.map(|bytes| (bytes, has_own.then(&once)))
        }
    };
    match verdict {
        // The secondary key stays that of the first request, which this one matched.
        Ok((bytes, once)) => match (Metadata::read(&bytes), once) {
            (Ok(fresh), once) => {
                let fresh = Metadata { secondary_key: stored.secondary_key, ..fresh }.write();
                match once {
                    None => Freshened::Stored(fresh),
                    Some(once) => Freshened::Apart(fresh, once),
                }
            }
            (Err(_), _) => Freshened::Changed,
        },
        Err(reason) => Freshened::Once(once(), reason),
    }
}

/// Returns true if a 200 to a HEAD describes the stored response, so that it may update it; otherwise the stored
/// response counts as stale (RFC 9111, 4.3.5). `length` is the stored body's.
pub fn matches_head(received: Section<'_>, stored: &Metadata<'_>, length: u64, told: Option<u64>) -> bool {
    let same_tag = !received.has("etag") || entity_tag(received).is_some_and(|tag| tag == stored.entity_tag);
    let same_date = !received.has("last-modified")
        || single_date(received, "last-modified").is_some_and(|date| stored.last_modified == Some(date));
    same_tag && same_date && told.is_none_or(|told| told == length)
}

#[cfg(test)]
mod tests;
