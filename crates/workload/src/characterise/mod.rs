//! Characterises a log: rates, sizes, popularity, daily rhythm and sessions, as figures for people and models.
//!
//! Everything is computed from the trace alone, so a stored trace gives the same result as a fresh one. Keys end in
//! their unit. A fit states its distance from the data; it never says "significant".
//!
//! A trace is read five times and never held: once for counts by document and by minute, four times for the exact
//! percentiles of sessions (see `selection`).

mod fit;
mod overview;
mod popularity;
mod quantiles;
mod rate_over_time;
mod sessions;
mod sizes;
mod source;
mod table1;
mod weighted_sample;

use serde::Serialize;

pub use fit::{Goodness, LogNormalFit, ParetoFit};
pub use popularity::{Popularity, RankPoint};
pub use rate_over_time::{Hour, Rhythm, TIMELINE_POINTS_MAX, TimelinePoint};
pub use sessions::{SessionStatistics, Summary};
pub use sizes::{CdfPoint, SizeDistribution, SizeQuantiles};
pub use source::{Source, StoredTrace};
pub use table1::Table1;

use crate::request_times::RequestTimes;
use crate::trace::Trace;
use overview::Overview;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Characteristics {
    /// The figures of seed IBM RC22629, Table 1.
    pub table1: Table1,
    /// Sizes of transfers: each document counts once per request.
    pub transfer_sizes: SizeDistribution,
    /// Sizes of documents: each counts once.
    pub document_sizes: SizeDistribution,
    /// Requests by rank of the document.
    pub popularity: Popularity,
    /// Requests by hour of the day and along the log.
    pub rhythm: Rhythm,
    /// Lengths, durations, think times and bursts.
    pub sessions: SessionStatistics,
    /// Durations of all selected requests, also of those that the trace leaves out, if the log records them.
    pub request_times: Option<RequestTimes>,
}

/// Characterises a trace; `None` without a successful request. Failed requests are left out, because they transfer no
/// document.
pub fn characterise(trace: &Trace) -> Option<Characteristics> {
    let Ok(characteristics) = characterise_from(&mut &*trace);
    characteristics
}

/// Characterises a trace from any source.
pub fn characterise_from<S: Source>(source: &mut S) -> Result<Option<Characteristics>, S::Error> {
    let overview = Overview::new(source)?;
    if overview.requests == 0 {
        return Ok(None);
    }
    let sessions = SessionStatistics::new(&overview, source)?;
    let documents = source.documents();
    let of_documents = || documents.iter().zip(&overview.requests_per_document);
    let got = || of_documents().filter(|(document, _)| !document.is_failed());
    let requested = got().map(|(document, &requests)| (document.size_bytes, u64::from(requests)));
    Ok(Some(Characteristics {
        table1: table1::table1(&overview, documents),
        transfer_sizes: SizeDistribution::new(requested),
        document_sizes: SizeDistribution::new(got().map(|(document, _)| (document.size_bytes, 1))),
        rhythm: Rhythm::new(&overview),
        sessions,
        request_times: source.times().cloned(),
        popularity: Popularity::new(overview.requests_per_document),
    }))
}

const NS_PER_SECOND: f64 = 1e9;
