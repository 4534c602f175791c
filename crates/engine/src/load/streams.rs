//! `sojourn-engine load rtsp://…` and `load http://….m3u8`: viewers of films.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use serde::Serialize;
use sojourn_load::viewers::{StreamOutcome, StreamProgress, StreamReport, StreamTimeline, run_streams};
use sojourn_measure::{Summary, affinity, machine::Machine};

use crate::json;

use super::generator::{Format, interrupt_flag};
use super::result::write_file;
use super::start;

mod options;
mod text;

pub use options::Options;
use text::write_text;

const SCHEME: &str = "rtsp://";

/// Returns true if the arguments of `load` ask for viewers of films.
pub fn is_streaming(words: &[std::ffi::OsString]) -> bool {
    words.get(1).is_some_and(|word| word == "load")
        && words
            .iter()
            .any(|word| word.to_str().is_some_and(|word| word.starts_with(SCHEME) || is_of_hls(word)))
}

/// Returns true if an argument is the URL of a playlist, or an option that names more of them.
fn is_of_hls(word: &str) -> bool {
    let path = word.split(['?', '#']).next().unwrap_or_default();
    let is_web = path.starts_with("http://") || path.starts_with("https://");
    word == "--hls" || (is_web && path.ends_with(".m3u8"))
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let plan = options.plan()?;
    if let Some(core) = options.core {
        affinity::pin_to(core).with_context(|| format!("cannot pin the generator to core {core}"))?;
    }
    let (films, connection) = (plan.films.len(), plan.transport.name());
    let interrupted = interrupt_flag()?;
    if options.start_on_stdin {
        start::wait_on_stdin(&interrupted)?;
    }
    let mut print = print_progress;
    let progress = if options.progress { Some(&mut print as &mut dyn FnMut(&StreamProgress)) } else { None };
    let outcome = run_streams(plan, &interrupted, progress)?;
    let report = outcome.report();
    let complete = report.complete;
    let result = StreamResult {
        tool: "load",
        kind: "streams",
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::describe(),
        url: options.urls[0].clone(),
        films,
        seed: options.seed,
        connection,
        report,
    };
    let embedded = options.embed.then(|| Embedded::of(&outcome)).transpose()?;
    let mut output = io::stdout().lock();
    match options.format {
        Format::Json => {
            json::write_line(&mut output, &Printed { result: &result, embedded })?;
        }
        Format::Text => write_text(&mut output, &result)?,
    }
    output.flush()?;
    // Written after the result, which a full disk must not take away.
    let written = write_files(options, &outcome);
    Ok(if complete && written { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Writes the requested files; returns true if that succeeded.
fn write_files(options: &Options, outcome: &StreamOutcome) -> bool {
    let histograms = options
        .histograms
        .as_ref()
        .is_none_or(|path| write_file(path, |file| outcome.write_histograms(file)));
    let timeline = options
        .timeline
        .as_ref()
        .is_none_or(|path| write_file(path, |file| json::write(file, outcome.timeline())));
    histograms && timeline
}

/// The one object that is printed.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct StreamResult {
    pub tool: &'static str,
    /// Distinguishes it from a load of requests.
    pub kind: &'static str,
    pub version: &'static str,
    /// The machine of the generator, not of the server.
    pub machine: Machine,
    /// The first requested URL.
    pub url: String,
    /// The number of films.
    pub films: usize,
    pub seed: u64,
    /// How packets were transported.
    pub connection: &'static str,
    #[serde(flatten)]
    pub report: StreamReport,
}

/// The result of a load of viewers; with `--embed`, including timeline and histograms.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "StreamRecord"))]
pub struct Printed<'a> {
    #[serde(flatten)]
    result: &'a StreamResult,
    #[serde(flatten)]
    embedded: Option<Embedded<'a>>,
}

/// Contents that are otherwise written to files, for a reader that has only the output.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "EmbeddedStreams"))]
struct Embedded<'a> {
    timeline: &'a StreamTimeline,
    /// An HDR interval log.
    histograms: String,
    /// The bit rate of each stream that played for at least two seconds, in the order in which they ended.
    stream_bits_per_second: &'a [f64],
}

impl<'a> Embedded<'a> {
    fn of(outcome: &'a StreamOutcome) -> anyhow::Result<Embedded<'a>> {
        let mut histograms = Vec::new();
        outcome.write_histograms(&mut histograms)?;
        Ok(Embedded {
            timeline: outcome.timeline(),
            histograms: String::from_utf8(histograms)?,
            stream_bits_per_second: outcome.stream_bits_per_second(),
        })
    }
}

/// The progress of a run of viewers: a line on standard error, once per interval.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "StreamProgress"))]
pub struct ProgressLine<'a> {
    progress: f64,
    streams_started: u64,
    streams_playing: u64,
    streams_conforming: u64,
    streams_refused: u64,
    streams_timed_out: u64,
    streams_failed: u64,
    bits_per_second: f64,
    behind_seconds: &'a Summary,
    generator_cpu_fraction: f64,
}

fn print_progress(progress: &StreamProgress) {
    json::tell(&ProgressLine {
        progress: progress.fraction,
        streams_started: progress.started,
        streams_playing: progress.playing,
        streams_conforming: progress.conforming,
        streams_refused: progress.refused,
        streams_timed_out: progress.timed_out,
        streams_failed: progress.failed,
        bits_per_second: progress.bits_per_second,
        behind_seconds: &progress.behind,
        generator_cpu_fraction: progress.generator_cpu_fraction,
    });
}
