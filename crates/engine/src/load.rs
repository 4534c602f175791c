//! `sojourn-engine load`: a closed loop of virtual clients. Also the options and the output that it
//! shares with `replay`.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Serialize;
use sojourn_load::{
    Arrivals, Catalogue, Connections, Limits, Observe, Outcome, Pick, Plan, Progress, Report, Schedule,
    StopRule, Target, Think, ThinkLaw, Version, duration,
};
use sojourn_measure::{Nanos, Summary, affinity};

/// Loads a server with clients that ask again as soon as they are answered, or a think time later.
///
/// The clients are a closed loop: a slow server is asked more slowly. For arrivals that do not wait for the
/// server use `replay`. Everything runs on one thread, which should have a core of its own (--core).
#[derive(Args)]
#[command(after_help = "\
Example: 64 clients on one page for ten seconds, generator on core 1, server (process 4711) on core 0

  sojourn-engine load http://127.0.0.1:8080/index.html --clients 64 --duration 10s --warm-up 2s \\
      --core 1 --observe-core 0 --observe-pid 4711 --format json

`requests` are the good answers to requests due in the measured time; `errors` are counted apart, by cause;
`unfinished` ones had no answer at the end. Latencies of errors are not mixed in. Where `generator.limited` is
true, the figures say what the generator can do, not the server.

Exit code: 0 the run is complete, 1 it is not (interrupted, or the server went away), 2 it could not run.")]
pub struct Options {
    /// What to ask for: http://HOST[:PORT][/PATH]
    url: String,
    /// How many clients.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients: u32,
    /// How long to measure.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    duration: Nanos,
    /// How long to run before measuring.
    #[arg(long, default_value = "1s", value_parser = duration::parse)]
    warm_up: Nanos,
    /// The mean time from an answer to the client's next request.
    #[arg(long, default_value = "0s", value_parser = duration::parse)]
    think_time: Nanos,
    /// How think times spread around their mean.
    #[arg(long, default_value = "exponential")]
    think_law: ThinkLawName,
    /// A WebStone file list to pick from at random: lines of `/path weight #bytes`, below the URL's path.
    #[arg(long, value_name = "FILELIST")]
    mix: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, ValueEnum)]
enum ThinkLawName {
    Constant,
    Exponential,
}

/// Options of every command that makes load.
#[derive(Args)]
pub struct Common {
    /// Whether a connection serves many requests or one.
    #[arg(long, default_value = "keep-alive")]
    connection: ConnectionName,
    /// Close a connection after this many requests.
    #[arg(long, value_name = "N", conflicts_with = "connection", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_connection: Option<u32>,
    /// The version of HTTP to speak.
    #[arg(long, default_value = "1.1", value_name = "1.0|1.1")]
    http: VersionName,
    /// Says everything that is random.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Pin the generator to this core.
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Report what this process and its descendants use; may be given again.
    #[arg(long, value_name = "PID")]
    observe_pid: Vec<u32>,
    /// Report how busy this core is: the server's.
    #[arg(long, value_name = "N")]
    observe_core: Option<usize>,
    /// How long to wait for a connection, and for an answer.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    timeout: Nanos,
    /// How long to wait at the end for what is still unanswered.
    #[arg(long, default_value = "2s", value_parser = duration::parse)]
    drain: Nanos,
    /// What to print.
    #[arg(long, default_value = "text")]
    format: Format,
    /// Write every step's latencies here, as an HDR interval log.
    #[arg(long, value_name = "FILE.hlog")]
    histograms: Option<PathBuf>,
    /// Write ten rows a second here: throughput, latency, CPU.
    #[arg(long, value_name = "FILE.json")]
    timeline: Option<PathBuf>,
    /// Say on stderr, once a second, how it goes: a JSON object a line.
    #[arg(long)]
    progress: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConnectionName {
    KeepAlive,
    Close,
}

#[derive(Clone, Copy, ValueEnum)]
enum VersionName {
    #[value(name = "1.0")]
    Http10,
    #[value(name = "1.1")]
    Http11,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub fn run(options: Options) -> anyhow::Result<ExitCode> {
    let common = &options.common;
    let target = Target::resolve(&options.url)?;
    let (catalogue, pick) = match &options.mix {
        None => (Catalogue::single(&target, common.version(), common.connections()), Pick::First),
        Some(path) => {
            let list = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let mix = Catalogue::mix(&target, common.version(), common.connections(), &list);
            mix.with_context(|| path.display().to_string())?
        }
    };
    let law = match options.think_law {
        ThinkLawName::Constant => ThinkLaw::Constant,
        ThinkLawName::Exponential => ThinkLaw::Exponential,
    };
    let think = Think { mean: options.think_time, law };
    common.run(
        "load",
        Plan {
            target,
            arrivals: Arrivals::Closed { clients: options.clients, think, pick },
            catalogue,
            connections: common.connections(),
            schedule: Schedule::single(options.warm_up, options.duration, None),
            stop: StopRule::ScheduleEnd,
            limits: common.limits(),
            observe: common.observe(),
            seed: common.seed,
        },
    )
}

impl Common {
    pub fn connections(&self) -> Connections {
        match (self.requests_per_connection, self.connection) {
            (Some(requests), _) => Connections::Requests(requests),
            (None, ConnectionName::KeepAlive) => Connections::KeepAlive,
            (None, ConnectionName::Close) => Connections::Close,
        }
    }

    pub fn version(&self) -> Version {
        match self.http {
            VersionName::Http10 => Version::Http10,
            VersionName::Http11 => Version::Http11,
        }
    }

    pub fn limits(&self) -> Limits {
        Limits { connect_timeout: self.timeout, response_timeout: self.timeout, drain: self.drain }
    }

    pub fn observe(&self) -> Observe {
        Observe {
            pids: self.observe_pid.clone(),
            core: self.observe_core,
            own_core: self.core,
            timeline: self.timeline.is_some(),
        }
    }

    /// Runs a plan and puts its result where the options say.
    pub fn run(&self, tool: &'static str, plan: Plan<'_>) -> anyhow::Result<ExitCode> {
        if let Some(core) = self.core {
            affinity::pin_to(core).with_context(|| format!("cannot pin the generator to core {core}"))?;
        }
        let url = plan.target.url.clone();
        let interrupted = interrupt_flag()?;
        let mut print = |progress: &Progress| print_progress(progress);
        let progress = if self.progress { Some(&mut print as &mut dyn FnMut(&Progress)) } else { None };
        let outcome = sojourn_load::run(plan, &interrupted, progress)?;
        self.write_files(&outcome)?;
        let report = outcome.report();
        let complete = report.complete;
        let connection = match self.connections() {
            Connections::KeepAlive => "keep-alive".to_owned(),
            Connections::Close => "close".to_owned(),
            Connections::Requests(requests) => format!("{requests} requests"),
        };
        let result =
            RunResult { tool, version: env!("CARGO_PKG_VERSION"), url, seed: self.seed, connection, report };
        let mut output = io::stdout().lock();
        match self.format {
            Format::Json => {
                serde_json::to_writer(&mut output, &result)?;
                writeln!(output)?;
            }
            Format::Text => write_text(&mut output, &result)?,
        }
        Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn write_files(&self, outcome: &Outcome) -> anyhow::Result<()> {
        if let Some(path) = &self.histograms {
            write_file(path, |file| outcome.write_histograms(file))?;
        }
        if let (Some(path), Some(timeline)) = (&self.timeline, outcome.timeline()) {
            write_file(path, |file| Ok(serde_json::to_writer(file, timeline)?))?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> anyhow::Result<()> {
    let written = File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The flag that SIGINT and SIGTERM raise. A second signal ends the program at once.
fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

#[derive(Serialize)]
struct RunResult {
    tool: &'static str,
    version: &'static str,
    url: String,
    seed: u64,
    connection: String,
    #[serde(flatten)]
    report: Report,
}

fn print_progress(progress: &Progress) {
    #[derive(Serialize)]
    struct Line {
        progress: f64,
        step: Option<usize>,
        requests_per_second: f64,
        time_to_first_byte_p95_seconds: Option<f64>,
    }
    let line = Line {
        progress: progress.fraction,
        step: progress.step,
        requests_per_second: progress.requests_per_second,
        time_to_first_byte_p95_seconds: progress.time_to_first_byte_p95_seconds,
    };
    if let Ok(line) = serde_json::to_string(&line) {
        eprintln!("{line}");
    }
}

fn write_text(output: &mut impl Write, result: &RunResult) -> io::Result<()> {
    let report = &result.report;
    let all = &report.figures;
    writeln!(output, "{} of {}, {} connections", result.tool, result.url, result.connection)?;
    if let Some(why) = &report.stopped_because {
        let state = if report.complete { "stopped early" } else { "NOT COMPLETE" };
        writeln!(output, "{state}: {why}")?;
    }
    writeln!(
        output,
        "{} requests in {:.1} s: {} requests/s, {} MB/s; {} failed, {} unfinished",
        all.requests,
        all.duration_seconds,
        number(all.requests_per_second),
        number(all.bytes_per_second.map(|bytes| bytes / 1e6)),
        all.errors,
        all.unfinished,
    )?;
    for (cause, count) in &all.errors_by_cause {
        writeln!(output, "  {count} {cause}")?;
    }
    writeln!(
        output,
        "\n{:30} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "milliseconds", "mean", "p50", "p95", "p99", "max"
    )?;
    write_row(output, "response time", &all.response_time_seconds)?;
    write_row(output, "time to first byte", &all.time_to_first_byte_seconds)?;
    write_row(output, "  from the intended start", &all.time_to_first_byte_intended_seconds)?;
    write_row(output, "connect", &all.connect_time_seconds)?;
    write_row(output, "generator's lateness", &all.send_lag_seconds)?;
    write_steps(output, report)?;
    let generator = &report.generator;
    let busy = number(generator.cpu_fraction.map(|fraction| fraction * 100.0));
    writeln!(output, "\ngenerator: {busy} % of a core")?;
    if let Some(why) = &generator.limited_because {
        writeln!(output, "THE GENERATOR WAS THE LIMIT, not the server: {why}")?;
    }
    Ok(())
}

fn write_steps(output: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.steps.len() < 2 {
        return Ok(());
    }
    let header = ["offered/s", "answered/s", "p95 ms", "in flight", "failed", "unfinished", "steady"];
    writeln!(output)?;
    header.iter().try_for_each(|name| write!(output, "{name:>11}"))?;
    writeln!(output)?;
    for step in &report.steps {
        let p95 = step.figures.time_to_first_byte_intended_seconds.p95;
        writeln!(
            output,
            "{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}",
            number(step.offered_requests_per_second),
            number(step.figures.requests_per_second),
            number(p95.map(|seconds| seconds * 1e3)),
            number(step.in_flight_mean),
            step.figures.errors,
            step.figures.unfinished,
            if step.steady { "yes" } else { "no" },
        )?;
    }
    Ok(())
}

fn write_row(output: &mut impl Write, name: &str, summary: &Summary) -> io::Result<()> {
    write!(output, "{name:30}")?;
    for seconds in [summary.mean, summary.p50, summary.p95, summary.p99, summary.max] {
        write!(output, " {:>9}", number(seconds.map(|seconds| seconds * 1e3)))?;
    }
    writeln!(output)
}

/// Three digits, or a dash where nothing was measured.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.4}"),
    }
}
