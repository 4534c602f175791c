//! Age and freshness lifetime of a response (RFC 9111, 4.2). Arithmetic is in whole seconds and saturates: no received
//! field can make an age negative or overflow.

use sojourn_http::HttpDate;

use super::control::{Control, Delta};
use super::directives::{DELTA_SECONDS_MAX, delta_seconds};
use super::fields::Section;
use super::policy::Policy;

/// When the request was sent and the response head arrived, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
    pub request: i64,
    pub response: i64,
}

/// A freshness lifetime and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Seconds since the response was generated.
    pub lifetime: u32,
    pub source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Given by the origin; 0 if it gives an invalid one.
    Explicit,
    Heuristic,
    /// Not given, and a heuristic is not allowed: 0.
    None,
}

/// Status codes, except 206, whose responses may be stored without explicit permission (RFC 9110, 15.1).
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

impl Freshness {
    /// The freshness lifetime (RFC 9111, 4.2.1 and 4.2.2), within the policy's limits.
    pub fn of(
        status: u16,
        fields: Section<'_>,
        control: &Control,
        moments: Moments,
        policy: &Policy,
    ) -> Freshness {
        let freshness = Freshness::unlimited(status, fields, control, moments, policy);
        let most = if status >= 400 { policy.error_seconds_max } else { DELTA_SECONDS_MAX };
        Freshness { lifetime: freshness.lifetime.min(most), ..freshness }
    }

    fn unlimited(
        status: u16,
        fields: Section<'_>,
        control: &Control,
        moments: Moments,
        policy: &Policy,
    ) -> Freshness {
        let explicit = |lifetime| Freshness { lifetime, source: Source::Explicit };
        match control.lifetime() {
            Delta::Seconds(lifetime) => return explicit(lifetime),
            Delta::Invalid => return explicit(0),
            Delta::Absent => {}
        }
        let date = date_value(fields, moments);
        // An invalid Expires, such as `0`, means the past (RFC 9111, 5.3); two different ones are invalid (4.2.1).
        if !control.is_targeted && fields.has("expires") {
            return explicit(single_date(fields, "expires").map_or(0, |end| seconds(date, end)));
        }
        if !is_heuristically_cacheable(status) && !control.public {
            return Freshness { lifetime: 0, source: Source::None };
        }
        let guess = match single_date(fields, "last-modified") {
            Some(modified) => {
                let since = u64::from(seconds(modified, date));
                let part = since * u64::from(policy.heuristic_percent.min(100)) / 100;
                u32::try_from(part).unwrap_or(u32::MAX).min(policy.heuristic_seconds_max)
            }
            None if status >= 400 => policy.error_seconds,
            None => return Freshness { lifetime: 0, source: Source::None },
        };
        Freshness { lifetime: guess, source: Source::Heuristic }
    }
}

/// The age on arrival (RFC 9111, 4.2.3). Of several Age fields the first counts; an invalid one is ignored (5.1).
pub fn initial_age(fields: Section<'_>, moments: Moments) -> u32 {
    let value = fields.values("age").next().unwrap_or_default();
    let first = value.split(|byte| *byte == b',').next().unwrap_or_default();
    let age_value = delta_seconds(first.trim_ascii()).unwrap_or(0);
    let apparent_age = seconds(date_value(fields, moments), moments.response);
    let corrected = age_value.saturating_add(seconds(moments.request, moments.response));
    corrected.max(apparent_age).min(DELTA_SECONDS_MAX)
}

/// When the response was generated: its Date, or its arrival without a valid one (RFC 9110, 6.6.1).
pub fn date_value(fields: Section<'_>, moments: Moments) -> i64 {
    single_date(fields, "date").unwrap_or(moments.response)
}

/// The seconds from `start` to `end`, clamped to 0 and the largest number of seconds.
pub(super) fn seconds(start: i64, end: i64) -> u32 {
    let most = i64::from(DELTA_SECONDS_MAX);
    end.saturating_sub(start).clamp(0, most) as u32
}

/// The date in a field; `None` if it is missing or invalid, or if two differ.
pub fn single_date(fields: Section<'_>, name: &str) -> Option<i64> {
    let mut values = fields.values(name);
    let value = values.next()?;
    if values.any(|other| other != value) {
        return None;
    }
    let date = HttpDate::parse(value).or_else(|| HttpDate::parse(&usual_case(value)))?;
    i64::try_from(date.seconds()).ok()
}

/// Normalises the case: names of days, months and zones match in any case (RFC 9111, 4.2).
fn usual_case(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_ascii_lowercase();
    for word in text.split_mut(|byte| !byte.is_ascii_alphabetic()) {
        if word == b"gmt" {
            word.make_ascii_uppercase();
        } else if let Some(first) = word.first_mut() {
            first.make_ascii_uppercase();
        }
    }
    text
}

#[cfg(test)]
mod tests;
