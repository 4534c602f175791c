//! What `load` and `replay` share: options, running a plan, and where its result goes.

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
    Connections, Limits, Observe, Outcome, Plan, Progress, Report, TICK, Timeline, Version, Waiting, duration,
};
use sojourn_measure::{Nanos, affinity};

use super::{progress, start, text::write_text};

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
    /// Sleep or poll while there is nothing to do; by default it polls on a core of its own, else sleeps.
    #[arg(long, value_name = "sleep|spin")]
    wait: Option<WaitName>,
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
    /// Write the latencies of every interval here, as an HDR interval log.
    #[arg(long, value_name = "FILE.hlog")]
    intervals: Option<PathBuf>,
    /// How long an interval is, in whole tenths of a second.
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: Nanos,
    /// Put the timeline, the steps' and the intervals' latencies into the JSON object.
    #[arg(long)]
    embed: bool,
    /// Say on stderr, once a second, how it goes: a JSON object a line.
    #[arg(long)]
    progress: bool,
    /// Say `ready` on stderr and begin when standard input says `go TIME`.
    #[arg(long)]
    start_on_stdin: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ConnectionName {
    KeepAlive,
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WaitName {
    Sleep,
    Spin,
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

    pub fn waiting(&self) -> Waiting {
        match (self.wait, self.core) {
            (Some(WaitName::Spin), _) | (None, Some(_)) => Waiting::Spin,
            (Some(WaitName::Sleep), _) | (None, None) => Waiting::Sleep,
        }
    }

    pub fn observe(&self) -> Observe {
        Observe {
            pids: self.observe_pid.clone(),
            core: self.observe_core,
            own_core: self.core,
            timeline: self.timeline.is_some() || self.embed,
            interval: (self.intervals.is_some() || self.embed).then_some(self.interval),
        }
    }

    /// Runs a plan and puts its result where the options say.
    pub fn run(&self, tool: &'static str, plan: Plan<'_>) -> anyhow::Result<ExitCode> {
        if let Some(core) = self.core {
            affinity::pin_to(core).with_context(|| format!("cannot pin the generator to core {core}"))?;
        }
        let url = plan.target.url.clone();
        let interrupted = interrupt_flag()?;
        if self.start_on_stdin {
            start::wait_on_stdin(&interrupted)?;
        }
        let mut print = progress::print;
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
        let embedded = self.embed.then(|| Embedded::of(&outcome)).transpose()?;
        let mut output = io::stdout().lock();
        match self.format {
            Format::Json => {
                serde_json::to_writer(&mut output, &Printed { result: &result, embedded })?;
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
        if let Some(path) = &self.intervals {
            write_file(path, |file| outcome.write_intervals(file))?;
        }
        if let (Some(path), Some(timeline)) = (&self.timeline, outcome.timeline()) {
            write_file(path, |file| Ok(serde_json::to_writer(file, timeline)?))?;
        }
        Ok(())
    }
}

fn interval(text: &str) -> anyhow::Result<Nanos> {
    let interval = duration::parse(text)?;
    anyhow::ensure!(interval >= TICK, "an interval of {text} is shorter than the clock's tick of 100 ms");
    Ok(interval)
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
pub fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// The one object that is printed.
#[derive(Serialize)]
pub struct RunResult {
    pub tool: &'static str,
    pub version: &'static str,
    pub url: String,
    pub seed: u64,
    pub connection: String,
    #[serde(flatten)]
    pub report: Report,
}

/// The result with what else was asked for inside it.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    result: &'a RunResult,
    #[serde(flatten)]
    embedded: Option<Embedded<'a>>,
}

/// What otherwise goes to files, for a reader who has only the output.
#[derive(Serialize)]
struct Embedded<'a> {
    timeline: Option<&'a Timeline>,
    /// HDR interval logs.
    histograms: String,
    intervals: String,
}

impl<'a> Embedded<'a> {
    fn of(outcome: &'a Outcome) -> anyhow::Result<Embedded<'a>> {
        let (mut histograms, mut intervals) = (Vec::new(), Vec::new());
        outcome.write_histograms(&mut histograms)?;
        outcome.write_intervals(&mut intervals)?;
        let [histograms, intervals] = [histograms, intervals].map(String::from_utf8);
        Ok(Embedded { timeline: outcome.timeline(), histograms: histograms?, intervals: intervals? })
    }
}
