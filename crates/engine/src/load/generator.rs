//! What `load` and `replay` share: options, and running a plan.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::{Args, ValueEnum};
use sojourn_load::webstone::WebStone;
use sojourn_load::{
    Catalogue, Connections, Count, Figures, Limits, Observe, Outcome, Plan, Progress, STREAMS_MAX, TICK,
    TIMER_SLACK_MAX, Target, Tls, Transport, Trust, Version, Waiting, duration,
};
use sojourn_measure::machine::Machine;
use sojourn_measure::{Nanos, affinity, priority};

use crate::json;

use super::result::{
    Embedded, FigureSet, Printed, RunResult, print_progress, write_file, write_private_file,
};
use super::{start, text::write_text};

/// Options of every command that generates load.
#[derive(Args)]
pub struct GeneratorOptions {
    /// Keep connections for many requests, or close after one [default: keep-alive].
    #[arg(long, value_name = "keep-alive|close", help_heading = CONNECTIONS)]
    connection: Option<ConnectionName>,
    /// Close a connection after this many requests: a number, LEAST-MOST, or geometric:MEAN.
    #[arg(long, value_name = "N", conflicts_with = "connection", value_parser = count, help_heading = CONNECTIONS)]
    requests_per_connection: Option<Count>,
    /// HTTP version [default: 1.1]. Requests of 1.0 ask for keep-alive unless connections are closed. HTTP/2 needs ALPN over
    /// https, and is spoken without negotiation over http.
    #[arg(long, value_name = "1.0|1.1|2", help_heading = CONNECTIONS)]
    http: Option<VersionName>,
    /// HTTP/2: let this many clients share a connection, each with one stream at a time [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(STREAMS_MAX)), help_heading = CONNECTIONS)]
    streams: Option<u32>,
    /// Limit the read rate of each connection, like a slow line: 56kbit/s, 400kbit/s, 10Mbit/s.
    #[arg(long, value_name = "RATE", value_parser = bit_rate, help_heading = CONNECTIONS)]
    read_rate: Option<f64>,
    /// Verify that all bodies of a document equal the first one, by SHA-256; another is an error.
    #[arg(long, help_heading = CONNECTIONS)]
    verify: bool,
    /// Accept any certificate of an https server: nothing is verified.
    #[arg(long, conflicts_with = "cacert", help_heading = CONNECTIONS)]
    insecure: bool,
    /// Trust the authorities or certificates in this PEM file instead of the system's.
    #[arg(long, value_name = "FILE", help_heading = CONNECTIONS)]
    cacert: Option<PathBuf>,
    /// Make a full TLS handshake on every connection instead of resuming sessions.
    #[arg(long, help_heading = CONNECTIONS)]
    no_resumption: bool,
    /// Use kernel timestamps of responses, to separate the generator's own delay from the server's latency.
    #[arg(long, help_heading = MACHINE)]
    timestamps: bool,
    /// Connect from this local address; repeatable. Each has some 28,000 ports for a server.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = CONNECTIONS)]
    source: Vec<IpAddr>,
    /// Seed of all random draws.
    #[arg(long, help_heading = MACHINE, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Pin the generator to this core.
    #[arg(long, help_heading = MACHINE, value_name = "N")]
    core: Option<usize>,
    /// Sleep or poll while there is nothing to do [default: poll on a core of its own, otherwise sleep].
    #[arg(long, help_heading = MACHINE, value_name = "sleep|spin")]
    wait: Option<WaitName>,
    /// In an open loop at high rates, delay sends and responses by up to this, to batch several; 0s never delays. No
    /// effect on a generator that polls.
    #[arg(long, help_heading = MACHINE, value_name = "TIME", default_value = TIMER_SLACK, value_parser = timer_slack)]
    timer_slack: Nanos,
    /// Run before all other programs, where that is permitted: on cores that server and generator share, answers then do
    /// not wait for the generator. For a generator that sleeps.
    #[arg(long, help_heading = MACHINE)]
    real_time: bool,
    /// The generator counts as the limit if it sends 1 % of its requests later than this.
    #[arg(long, help_heading = MACHINE, value_name = "TIME", default_value = "10ms", value_parser = duration::parse)]
    lag_limit: Nanos,
    /// Report what this process and its descendants use; repeatable.
    #[arg(long, help_heading = MACHINE, value_name = "PID")]
    observe_pid: Vec<u32>,
    /// Report the utilisation of this core, the server's.
    #[arg(long, help_heading = MACHINE, value_name = "N")]
    observe_core: Option<usize>,
    /// Timeout for connecting, and for each response.
    #[arg(long, value_name = "TIME", help_heading = CONNECTIONS, default_value = "10s", value_parser = duration::parse)]
    timeout: Nanos,
    /// Time to wait for outstanding responses at the end.
    #[arg(long, value_name = "TIME", help_heading = CONNECTIONS, default_value = "2s", value_parser = duration::parse)]
    drain: Nanos,
    /// Fail the run if a larger share of its requests was abandoned: never sent because an earlier one in the session
    /// or iteration had failed.
    #[arg(long, value_name = "SHARE", help_heading = OUTPUT, default_value = "1%", value_parser = share)]
    abandoned_limit: f64,
    /// What to print.
    #[arg(long, help_heading = OUTPUT, default_value = "text")]
    format: Format,
    /// Write the latencies of every step to this file, as an HDR interval log.
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.hlog")]
    histograms: Option<PathBuf>,
    /// Write a timeline of ten rows per second to this file: throughput, latency, CPU.
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.json")]
    timeline: Option<PathBuf>,
    /// Write the latencies of every interval to this file, as an HDR interval log.
    #[arg(long, help_heading = OUTPUT, value_name = "FILE.hlog")]
    intervals: Option<PathBuf>,
    /// The length of an interval in whole tenths of a second.
    #[arg(long, value_name = "TIME", help_heading = OUTPUT, default_value = "1s", value_parser = interval)]
    interval: Nanos,
    /// Include the timeline, and the latencies of steps and intervals, in the JSON object.
    #[arg(long, help_heading = OUTPUT)]
    embed: bool,
    /// Include each request in the JSON object, with the time at which it was due and its response time; up to
    /// 100,000.
    #[arg(long, help_heading = OUTPUT)]
    each_request: bool,
    /// Print progress on stderr every second, a JSON object per line.
    #[arg(long, help_heading = OUTPUT)]
    progress: bool,
    /// Print `ready` on stderr, and start when standard input says `go TIME`.
    #[arg(long, help_heading = OUTPUT)]
    start_on_stdin: bool,
}

/// Measured at 50,000 arrivals a second: CPU time per request falls from 14 to 8 µs, and to 4 with 1 ms (see make
/// bench-load).
const TIMER_SLACK: &str = "100us";
const CONNECTIONS: &str = "Connections";
const MACHINE: &str = "Machine";
const OUTPUT: &str = "Output";

/// Parses a distribution of requests per connection.
fn count(text: &str) -> Result<Count, String> {
    let refused = || format!("{text:?} is not a number from 1 on, LEAST-MOST, or geometric:MEAN");
    let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number > 0).ok_or_else(refused);
    if let Some(mean) = text.strip_prefix("geometric:") {
        let mean = mean.parse().ok().filter(|mean| (1.0..=1e9).contains(mean)).ok_or_else(refused)?;
        return Ok(Count::Geometric { mean });
    }
    match text.split_once('-') {
        None => number(text).map(Count::Constant),
        Some((least, most)) => {
            let (least, most) = (number(least)?, number(most)?);
            if least <= most { Ok(Count::Uniform(least, most)) } else { Err(refused()) }
        }
    }
}

/// Parses a bit rate; returns bits per second.
pub fn bit_rate(text: &str) -> Result<f64, String> {
    let units = [("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("bit/s", 1.0)];
    let rate = units.iter().find_map(|(unit, bits)| {
        text.strip_suffix(unit)?.trim_end().parse::<f64>().ok().map(|number| number * bits)
    });
    rate.filter(|rate| (1.0..=1e12).contains(rate))
        .ok_or_else(|| format!("{text:?} is not a rate such as 56kbit/s, 400kbit/s or 10Mbit/s"))
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
    #[value(name = "2")]
    Http2,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

impl GeneratorOptions {
    /// How connections are used; `default` if the options do not say.
    pub fn connections(&self, default: Connections) -> Connections {
        match (self.requests_per_connection, self.connection) {
            (Some(requests), _) => Connections::Requests(requests),
            (None, Some(ConnectionName::KeepAlive)) => Connections::KeepAlive,
            (None, Some(ConnectionName::Close)) => Connections::Close,
            (None, None) => default,
        }
    }

    /// The HTTP version; `default` if the options do not say.
    pub fn version(&self, default: Version) -> Version {
        match self.http {
            Some(VersionName::Http10) => Version::Http10,
            Some(VersionName::Http11) => Version::Http11,
            Some(VersionName::Http2) => Version::Http2,
            None => default,
        }
    }

    /// How connections are used beyond that.
    pub fn transport(&self) -> Transport {
        Transport {
            read_bytes_per_second: self.read_rate.map(|bits| bits / 8.0),
            sources: self.source.clone(),
            timestamps: self.timestamps,
            streams: self.speaks_http2().then(|| self.streams.unwrap_or(1)),
            ..Transport::default()
        }
    }

    fn speaks_http2(&self) -> bool {
        matches!(self.http, Some(VersionName::Http2))
    }

    /// Refuses options that say nothing about the version of HTTP.
    fn check_version(&self) -> anyhow::Result<()> {
        let is_http2 = self.speaks_http2();
        anyhow::ensure!(
            is_http2 || self.streams.is_none(),
            "--streams works with HTTP/2 only\nhint: add --http 2"
        );
        anyhow::ensure!(!is_http2 || self.read_rate.is_none(), "--read-rate works with HTTP/1 only");
        Ok(())
    }

    pub fn verifies(&self) -> bool {
        self.verify
    }

    /// Enables verification of bodies, if the options say so.
    pub fn verified(&self, mut catalogue: Catalogue) -> Catalogue {
        if self.verify {
            catalogue.verify_contents();
        }
        catalogue
    }

    /// TLS for the target, if it uses https.
    pub fn tls(&self, target: &Target) -> anyhow::Result<Option<Tls>> {
        let trust = match &self.cacert {
            Some(path) => Trust::File(path.clone()),
            None if self.insecure => Trust::Anything,
            None => Trust::System,
        };
        let asked = self.insecure || self.cacert.is_some() || self.no_resumption;
        anyhow::ensure!(
            target.secured || !asked,
            "{} is not https: --insecure, --cacert and --no-resumption have no effect",
            target.url
        );
        self.check_version()?;
        let tls = target.secured.then(|| Tls::new(target, &trust, !self.no_resumption));
        let mut tls = tls.transpose()?;
        if let Some(tls) = tls.as_mut().filter(|_| self.speaks_http2()) {
            tls.offer_http2();
        }
        Ok(tls)
    }

    pub fn limits(&self) -> Limits {
        Limits {
            connect_timeout: self.timeout,
            response_timeout: self.timeout,
            drain: self.drain,
            send_lag_p99: self.lag_limit,
            target_p95: None,
        }
    }

    pub fn waiting(&self) -> Waiting {
        match (self.wait, self.core) {
            (Some(WaitName::Spin), _) | (None, Some(_)) => Waiting::Spin,
            (Some(WaitName::Sleep), _) | (None, None) => Waiting::Sleep { timer_slack: self.timer_slack },
        }
    }

    pub fn observe(&self) -> Observe {
        Observe {
            pids: self.observe_pid.clone(),
            core: self.observe_core,
            own_core: self.core,
            timeline: self.timeline.is_some() || self.embed,
            interval: (self.intervals.is_some() || self.embed).then_some(self.interval),
            requests: self.each_request,
        }
    }

    /// Runs a plan, prints its result, and writes its users to `users_file`.
    pub fn run(
        &self,
        tool: &'static str,
        plan: Plan<'_>,
        shows: FigureSet,
        users_file: Option<&Path>,
    ) -> anyhow::Result<ExitCode> {
        if let Some(core) = self.core {
            affinity::pin_to(core).with_context(|| format!("cannot pin the generator to core {core}"))?;
        }
        if self.real_time {
            anyhow::ensure!(
                matches!(self.waiting(), Waiting::Sleep { .. }),
                "--real-time: a generator that polls would leave its core to nobody\nhint: add --wait sleep"
            );
            // The result says whether it was permitted.
            let _ = priority::take_real_time();
        }
        let url = plan.target.url.clone();
        let connection = match plan.connections {
            Connections::KeepAlive => "keep-alive".to_owned(),
            Connections::Close => "close".to_owned(),
            Connections::Requests(Count::Constant(requests)) => format!("{requests} requests"),
            Connections::Requests(Count::Uniform(least, most)) => format!("{least} to {most} requests"),
            Connections::Requests(Count::Geometric { mean }) => format!("geometric, {mean} requests"),
            Connections::Requests(Count::Mixed { many, mean }) => {
                format!("{} % of requests by geometric {mean}, the others by 1", many * 100.0)
            }
        };
        let interrupted = interrupt_flag()?;
        if self.start_on_stdin {
            start::wait_on_stdin(&interrupted)?;
        }
        let mut print = print_progress;
        let progress = if self.progress { Some(&mut print as &mut dyn FnMut(&Progress)) } else { None };
        let outcome = sojourn_load::run(plan, &interrupted, progress)?;
        let report = outcome.report();
        let complete = report.complete;
        let failed_because = self.failed_because(&report.figures);
        let failed = failed_because.is_some();
        let webstone = (shows == FigureSet::WebStone).then(|| WebStone::of(&report));
        let result = RunResult {
            tool,
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::describe(),
            url,
            seed: self.seed,
            connection,
            failed_because,
            webstone,
            report,
        };
        let embedded = self.embed.then(|| Embedded::of(&outcome)).transpose()?;
        let mut output = io::stdout().lock();
        match self.format {
            Format::Json => {
                let printed = Printed { result: &result, embedded, each_request: outcome.requests() };
                json::write_line(&mut output, &printed)?;
            }
            Format::Text => write_text(&mut output, &result)?,
        }
        output.flush()?;
        // Written after the result, which a full disk must not take away.
        let keep = |path| write_private_file(path, |file| json::write(file, &outcome.kept_users));
        let written = self.write_files(&outcome) && users_file.is_none_or(keep);
        Ok(if complete && written && !failed { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    /// Why a run has failed although it reached its end.
    fn failed_because(&self, figures: &Figures) -> Option<String> {
        let share = figures.abandoned_fraction.filter(|share| *share > self.abandoned_limit)?;
        Some(format!(
            "{} requests were abandoned, {:.1} % of those due (--abandoned-limit {}%): one before each had failed",
            figures.abandoned,
            100.0 * share,
            100.0 * self.abandoned_limit
        ))
    }

    /// Writes the requested files; returns true if that succeeded.
    fn write_files(&self, outcome: &Outcome) -> bool {
        let histograms = self
            .histograms
            .as_ref()
            .is_none_or(|path| write_file(path, |file| outcome.write_histograms(file)));
        let intervals =
            self.intervals.as_ref().is_none_or(|path| write_file(path, |file| outcome.write_intervals(file)));
        let timeline = self
            .timeline
            .as_ref()
            .zip(outcome.timeline())
            .is_none_or(|(path, timeline)| write_file(path, |file| json::write(file, timeline)));
        histograms && intervals && timeline
    }
}

/// Parses a share: `5%` or `0.05`.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|number| number / scale);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text:?} is not a share; write it as 5% or 0.05"))
}

fn timer_slack(text: &str) -> anyhow::Result<Nanos> {
    let slack = duration::parse(text)?;
    anyhow::ensure!(slack <= TIMER_SLACK_MAX, "a slack of {text} is longer than 10 ms, the maximum");
    Ok(slack)
}

/// Parses the length of an interval.
pub fn interval(text: &str) -> anyhow::Result<Nanos> {
    let interval = duration::parse(text)?;
    anyhow::ensure!(interval >= TICK, "an interval of {text} is shorter than 100 ms");
    Ok(interval)
}

/// The flag that SIGINT and SIGTERM set. A second signal ends the program immediately.
pub fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}
