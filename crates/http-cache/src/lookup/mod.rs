//! Decides whether a stored response may answer a request (RFC 9111, 4).

use super::metadata::Metadata;
use super::policy::Policy;
use super::request::RequestDirectives;

/// What to do with a request, given the matching stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Answer with it: it is fresh.
    Fresh,
    /// Answer with it although it is stale.
    Stale { allowed_by: Allowance },
    /// Revalidate it with the origin first.
    Revalidate(Need),
    /// No stored response matches: forward the request.
    Miss,
    /// Forward the request unchanged: its conditions are for the origin (RFC 9111, 4.3.2).
    Forward,
    /// 504: the client accepts an answer from the cache only (RFC 9111, 5.2.1.7).
    GatewayTimeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// The client, by `max-stale`.
    Client,
    /// The response, by `stale-while-revalidate`, provided that it is revalidated meanwhile (RFC 5861, 3).
    WhileRevalidating,
}

/// Why a stored response needs revalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Stale,
    NoCache,
    /// The client requires validation, a lower age, or longer freshness.
    Client,
}

/// How the origin failed during a revalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It did not answer, or not with HTTP.
    Disconnected,
    Status(u16),
}

/// Decides about a GET or HEAD at `now` (seconds since 1970), given the `stored` response with the matching secondary
/// key.
pub fn lookup(request: &RequestDirectives, stored: Option<&Metadata<'_>>, now: i64) -> Use {
    let verdict = match stored {
        _ if request.is_for_origin => Use::Forward,
        None => Use::Miss,
        Some(stored) => of_stored(request, stored, now),
    };
    match verdict {
        Use::Revalidate(_) | Use::Miss | Use::Forward if request.only_if_cached => Use::GatewayTimeout,
        verdict => verdict,
    }
}

fn of_stored(request: &RequestDirectives, stored: &Metadata<'_>, now: i64) -> Use {
    if stored.no_cache {
        return Use::Revalidate(Need::NoCache);
    }
    let freshness = stored.freshness(now);
    let is_too_old = request.max_age.is_some_and(|most| stored.age(now) > most);
    let is_soon_stale = request.min_fresh.is_some_and(|least| freshness < i64::from(least));
    if request.no_cache || is_too_old || is_soon_stale {
        return Use::Revalidate(Need::Client);
    }
    if freshness > 0 {
        return Use::Fresh;
    }
    let stale_for = -freshness;
    if stored.forbids_stale {
        Use::Revalidate(Need::Stale)
    } else if request.max_stale.is_some_and(|most| stale_for <= i64::from(most)) {
        Use::Stale { allowed_by: Allowance::Client }
    } else if stale_for < i64::from(stored.stale_while_revalidate) {
        Use::Stale { allowed_by: Allowance::WhileRevalidating }
    } else {
        Use::Revalidate(Need::Stale)
    }
}

/// Returns true if `stored` may answer although the origin failed to revalidate it (RFC 9111, 4.2.4 and 4.3.3; RFC
/// 5861, 4).
pub fn may_answer_after(
    failure: Failure,
    request: &RequestDirectives,
    stored: &Metadata<'_>,
    now: i64,
    policy: &Policy,
) -> bool {
    let by_policy = match failure {
        Failure::Disconnected => policy.disconnected_seconds,
        Failure::Status(500 | 502 | 503 | 504) => 0,
        Failure::Status(_) => return false,
    };
    if stored.no_cache || stored.forbids_stale || request.no_cache {
        return false;
    }
    let allowed = stored.stale_if_error.max(request.stale_if_error).max(by_policy);
    let stale_for = -stored.freshness(now);
    stale_for < i64::from(allowed)
}

#[cfg(test)]
mod tests;
