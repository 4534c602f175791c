//! The ten figures of Table 1 in IBM RC22629.

use serde::Serialize;

use super::NS_PER_SECOND;
use super::overview::Overview;
use crate::trace::Document;

/// The rows of the table. Not-modified responses count with their document's size, because replay requests it in full.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table1 {
    /// The time from the first request to the last.
    pub span_seconds: f64,
    /// Requests over the span (or over one second, if the span is shorter).
    pub average_requests_per_second: f64,
    /// The highest rate over a clock minute; the average, if the log is shorter than a minute.
    pub peak_requests_per_second: f64,
    pub requests_per_connection: f64,
    pub files: u64,
    pub files_total_bytes: u64,
    pub requests: u64,
    /// Total size of all requested documents, without headers.
    pub responses_total_bytes: u64,
    /// Memory for the fewest most-requested documents that make up 97 % of all requests; of two equally requested ones
    /// the smaller counts first.
    pub data_97_percent_bytes: u64,
    /// The same for 98 %.
    pub data_98_percent_bytes: u64,
    /// The same for 99 %.
    pub data_99_percent_bytes: u64,
}

pub fn table1(overview: &Overview, documents: &[Document]) -> Table1 {
    let span_seconds = overview.span_ns as f64 / NS_PER_SECOND;
    let requests = overview.requests;
    let average = requests as f64 / span_seconds.max(1.0);
    let peak = overview.minutes.values().max().map_or(0.0, |&most| most as f64 / 60.0);
    let got = |(document, _): &(&Document, &u32)| !document.is_failed();
    let sizes = || documents.iter().zip(&overview.requests_per_document).filter(got);
    let by_popularity = by_popularity(sizes());
    let data = |percent| data_bytes(&by_popularity, requests, percent);
    Table1 {
        span_seconds,
        average_requests_per_second: average,
        peak_requests_per_second: if span_seconds < 60.0 { average } else { peak },
        requests_per_connection: requests as f64 / overview.sessions as f64,
        files: sizes().count() as u64,
        files_total_bytes: sizes().fold(0, |sum, (document, _)| sum.saturating_add(document.size_bytes)),
        requests,
        responses_total_bytes: sizes().fold(0, |sum, (document, &count)| {
            sum.saturating_add(document.size_bytes.saturating_mul(count.into()))
        }),
        data_97_percent_bytes: data(97),
        data_98_percent_bytes: data(98),
        data_99_percent_bytes: data(99),
    }
}

/// Requests and size of every document, the most requested first.
fn by_popularity<'a>(documents: impl Iterator<Item = (&'a Document, &'a u32)>) -> Vec<(u32, u64)> {
    let mut rows: Vec<_> = documents.map(|(document, &count)| (count, document.size_bytes)).collect();
    rows.sort_unstable_by_key(|&(count, size_bytes)| (std::cmp::Reverse(count), size_bytes));
    rows
}

fn data_bytes(by_popularity: &[(u32, u64)], requests: u64, percent: u64) -> u64 {
    let mut covered = 0;
    let mut bytes = 0_u64;
    for &(count, size_bytes) in by_popularity {
        if covered * 100 >= requests * percent {
            break;
        }
        covered += u64::from(count);
        bytes = bytes.saturating_add(size_bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_what_the_most_requested_documents_take() {
        // 100 requests: 90 for a small document, 8 for a large one, 2 for two documents asked for once.
        let documents = [(90, 10), (8, 1000), (1, 7), (1, 5)];
        let documents: Vec<_> =
            documents.map(|(count, size_bytes)| (Document::got("", size_bytes), count)).into_iter().collect();
        let rows = by_popularity(documents.iter().map(|(document, count)| (document, count)));
        let check = |percent, expected| assert_eq!(data_bytes(&rows, 100, percent), expected, "{percent} %");
        check(90, 10);
        check(97, 1010);
        check(98, 1010);
        check(99, 1015);
        check(100, 1022);
    }
}
