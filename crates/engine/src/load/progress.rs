//! The progress of a run, as a JSON object per line on standard error, once a second.

use schemars::JsonSchema;
use serde::Serialize;
use sojourn_load::Progress;
use sojourn_measure::Summary;

/// The progress of a run: a line on standard error, once a second.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoadProgress")]
pub struct Line<'a> {
    progress: f64,
    step: Option<usize>,
    requests_per_second: f64,
    errors_per_second: f64,
    in_flight: u64,
    generator_cpu_fraction: f64,
    time_to_first_byte_p95_seconds: Option<f64>,
    time_to_first_byte_intended_seconds: &'a Summary,
}

/// Writes one line to standard error, which Python reads for its live view.
pub fn print(progress: &Progress) {
    let line = Line {
        progress: progress.fraction,
        step: progress.step,
        requests_per_second: progress.requests_per_second,
        errors_per_second: progress.errors_per_second,
        in_flight: progress.in_flight,
        generator_cpu_fraction: progress.generator_cpu_fraction,
        time_to_first_byte_p95_seconds: progress.time_to_first_byte.p95,
        time_to_first_byte_intended_seconds: &progress.time_to_first_byte,
    };
    if let Ok(line) = serde_json::to_string(&line) {
        eprintln!("{line}");
    }
}
