//! WebStone's file list and its figures, by its definitions, beside ours.
//!
//! WebStone times a response from starting the transaction, including connecting, to its end; here that is the time
//! since the generator acted. Its megabit has 1024² bits. Its program truncated seconds; here they are exact.

use serde::Serialize;

use crate::statistics::report::Report;

/// The standard file list (`filelist.standard`).
pub const FILELIST: &str = "/file500.html 350 #500\n/file5k.html 500 #5125\n/file50k.html 140 #51250\n\
                            /file500k.html 9 #512500\n/file5m.html 1 #5248000\n";
/// The minimum duration by WebStone's run rules.
pub const RUN_SECONDS_MIN: u64 = 600;

const MEGABIT_BITS: f64 = 1024.0 * 1024.0;

#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct WebStone {
    /// Connections served per second; to be quoted with the number of clients.
    pub server_connection_rate_per_second: Option<f64>,
    pub server_error_rate_per_second: Option<f64>,
    /// Failed connections over served ones.
    pub error_level_percent: Option<f64>,
    pub server_throughput_mebibit_per_second: Option<f64>,
    /// The sum of all response times over the run's duration: close to the number of clients, unless they waited for
    /// something else.
    pub littles_load_factor: Option<f64>,
    pub average_response_time_ms: Option<f64>,
    /// The rate at which a client received while it waited.
    pub average_client_throughput_mebibit_per_second: Option<f64>,
}

impl WebStone {
    /// The figures of a run.
    pub fn of(report: &Report) -> WebStone {
        let figures = &report.figures;
        let seconds = Some(figures.duration_seconds).filter(|&seconds| seconds > 0.0);
        let connections = figures.requests as f64;
        let response_seconds = figures.response_time_sent_seconds.mean;
        let waited_seconds = response_seconds.map(|mean| mean * connections);
        let bits = figures.bytes_per_second.zip(seconds).map(|(rate, seconds)| 8.0 * rate * seconds);
        let over = |value: Option<f64>, by: Option<f64>| Some(value? / by.filter(|&by| by > 0.0)?);
        WebStone {
            server_connection_rate_per_second: over(Some(connections), seconds),
            server_error_rate_per_second: over(Some(figures.errors as f64), seconds),
            error_level_percent: over(Some(100.0 * figures.errors as f64), Some(connections)),
            server_throughput_mebibit_per_second: over(bits, seconds).map(|rate| rate / MEGABIT_BITS),
            littles_load_factor: over(waited_seconds, seconds),
            average_response_time_ms: response_seconds.map(|mean| mean * 1e3),
            average_client_throughput_mebibit_per_second: over(bits, waited_seconds)
                .map(|rate| rate / MEGABIT_BITS),
        }
    }
}
