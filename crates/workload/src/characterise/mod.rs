//! What a log is like: rates, sizes, popularity, rhythm and sessions, as figures for people and models.
//!
//! Everything is computed from the trace alone, so a trace that was stored is characterised like a fresh
//! one. Keys end in their unit. A fit says how far it is from the data; it never says "significant".

mod fit;
mod popularity;
mod rhythm;
mod sessions;
mod sizes;
mod table1;
mod weighted;

use serde::Serialize;

pub use fit::{Goodness, LogNormalFit, ParetoFit};
pub use popularity::{Popularity, RankPoint};
pub use rhythm::{Hour, Rhythm, TIMELINE_POINTS_MAX, TimelinePoint};
pub use sessions::{SessionStatistics, Summary};
pub use sizes::{CdfPoint, SizeDistribution, SizeQuantiles};
pub use table1::Table1;

use crate::trace::Trace;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Characteristics {
    /// The figures of seed IBM RC22629, Table 1.
    pub table1: Table1,
    /// Sizes as they are transferred: a document counts once per request.
    pub transfer_sizes: SizeDistribution,
    /// Sizes as they are stored: a document counts once.
    pub document_sizes: SizeDistribution,
    /// Requests by rank of the document.
    pub popularity: Popularity,
    /// Requests by hour of the day and along the log.
    pub rhythm: Rhythm,
    /// Lengths, durations, think times and bursts.
    pub sessions: SessionStatistics,
}

/// Characterises a trace; `None` where it holds no request for a document that was got. The others are left
/// out: they transfer no document.
pub fn characterise(trace: &Trace) -> Option<Characteristics> {
    let trace = &*trace.without_failed();
    if trace.requests.is_empty() {
        return None;
    }
    let requests_per_document = trace.requests_per_document();
    let minutes = rhythm::requests_per_minute(trace);
    let got =
        || trace.documents.iter().zip(&requests_per_document).filter(|(document, _)| !document.is_failed());
    let requested = got().map(|(document, &requests)| (document.size_bytes, u64::from(requests)));
    Some(Characteristics {
        table1: table1::table1(trace, &requests_per_document, &minutes),
        transfer_sizes: SizeDistribution::new(requested),
        document_sizes: SizeDistribution::new(got().map(|(document, _)| (document.size_bytes, 1))),
        popularity: Popularity::new(requests_per_document),
        rhythm: Rhythm::new(trace, &minutes),
        sessions: SessionStatistics::new(trace),
    })
}

const NS_PER_SECOND: f64 = 1e9;
