//! Counts from one pass over the sessions: totals, by document and by minute.

use hashbrown::HashMap;

use super::source::{Source, for_each_got};
use crate::trace::Origin;

pub const NS_PER_MINUTE: i64 = 60_000_000_000;

/// Totals over the trace; failed requests are excluded.
pub struct Overview {
    pub origin: Origin,
    /// The time from the first request to the last.
    pub span_ns: u64,
    /// Sessions with at least one request.
    pub sessions: u64,
    pub single_request_sessions: u64,
    pub requests: u64,
    pub requests_per_document: Vec<u32>,
    /// Requests by clock minute since 1970. Only minutes with requests are stored, because a log may span years.
    pub minutes: HashMap<i64, u64>,
}

impl Overview {
    pub fn new<S: Source>(source: &mut S) -> Result<Self, S::Error> {
        let old_origin = source.origin();
        let mut requests_per_document = vec![0; source.documents().len()];
        let mut minutes = HashMap::new();
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        let (mut sessions, mut single_request_sessions, mut requests_in_all) = (0, 0, 0);
        for_each_got(source, |start_ns, requests| {
            sessions += 1;
            single_request_sessions += u64::from(requests.len() == 1);
            requests_in_all += requests.len() as u64;
            first_ns = first_ns.min(start_ns);
            for request in requests {
                let at_ns = start_ns + request.offset_ns;
                last_ns = last_ns.max(at_ns);
                let minute = (old_origin.unix_ns + at_ns as i64).div_euclid(NS_PER_MINUTE);
                *minutes.entry(minute).or_default() += 1;
                requests_per_document[request.document as usize] += 1;
            }
        })?;
        let first_ns = first_ns.min(last_ns);
        Ok(Overview {
            origin: Origin { unix_ns: old_origin.unix_ns + first_ns as i64, ..old_origin },
            span_ns: last_ns - first_ns,
            sessions,
            single_request_sessions,
            requests: requests_in_all,
            requests_per_document,
            minutes,
        })
    }
}
