//! The result and the progress of a load or replay, as printed and written to files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use sojourn_load::webstone::WebStone;
use sojourn_load::{EachRequest, Outcome, Progress, Report, Timeline};
use sojourn_measure::Summary;
use sojourn_measure::machine::Machine;

use crate::json;

/// Figures of other programs to report as well.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FigureSet {
    Ours,
    WebStone,
}

/// The one object that is printed.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct RunResult {
    pub tool: &'static str,
    pub version: &'static str,
    /// The machine of the generator, not of the server.
    pub machine: Machine,
    pub url: String,
    pub seed: u64,
    pub connection: String,
    /// Why the run failed although it reached its end: too many requests were abandoned.
    pub failed_because: Option<String>,
    /// The run by WebStone's definitions, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webstone: Option<WebStone>,
    #[serde(flatten)]
    pub report: Report,
}

/// The result of a load or replay of requests; with `--embed`, including timeline and histograms.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "LoadRecord"))]
pub struct Printed<'a> {
    #[serde(flatten)]
    pub result: &'a RunResult,
    #[serde(flatten)]
    pub embedded: Option<Embedded<'a>>,
    /// With `--each-request`, unless there were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each_request: Option<&'a EachRequest>,
}

/// Contents that are otherwise written to files, for a reader that has only the output.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Embedded<'a> {
    timeline: Option<&'a Timeline>,
    /// HDR interval logs.
    histograms: String,
    intervals: String,
}

impl<'a> Embedded<'a> {
    pub fn of(outcome: &'a Outcome) -> anyhow::Result<Embedded<'a>> {
        let (mut histograms, mut intervals) = (Vec::new(), Vec::new());
        outcome.write_histograms(&mut histograms)?;
        outcome.write_intervals(&mut intervals)?;
        let [histograms, intervals] = [histograms, intervals].map(String::from_utf8);
        Ok(Embedded { timeline: outcome.timeline(), histograms: histograms?, intervals: intervals? })
    }
}

/// Writes a file, or names it on standard error; returns true if that succeeded.
pub fn write_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> bool {
    write_opened(path, File::create(path), write)
}

/// The same for a file that only its owner may read.
pub fn write_private_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> bool {
    let mut options = File::options();
    write_opened(path, options.write(true).create(true).truncate(true).mode(0o600).open(path), write)
}

fn write_opened(
    path: &Path,
    opened: io::Result<File>,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> bool {
    let written = opened.and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    if let Err(error) = &written {
        eprintln!("error: cannot write {}: {error}", path.display());
        eprintln!("hint: free some space there, or choose another file");
    }
    written.is_ok()
}

/// The progress of a run: a line on standard error, once a second.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "LoadProgress"))]
pub struct ProgressLine<'a> {
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
pub fn print_progress(progress: &Progress) {
    json::tell(&ProgressLine {
        progress: progress.fraction,
        step: progress.step,
        requests_per_second: progress.requests_per_second,
        errors_per_second: progress.errors_per_second,
        in_flight: progress.in_flight,
        generator_cpu_fraction: progress.generator_cpu_fraction,
        time_to_first_byte_p95_seconds: progress.time_to_first_byte.p95,
        time_to_first_byte_intended_seconds: &progress.time_to_first_byte,
    });
}
