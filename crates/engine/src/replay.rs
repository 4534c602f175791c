//! `sojourn-engine replay`: the sessions of a trace, as logged or at rising rates.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use sojourn_load::{
    Arrivals, Catalogue, Connections, Distribution, Failed, Form, Host, Limits, Paths, Plan, Replayed,
    Requests, Schedule, StopRule, Target, Think, Version, duration,
};
use sojourn_measure::Nanos;
use sojourn_replay::{Part, Stored, as_logged, at_random};
use sojourn_workload::{
    arrivals::{Staircase, positive},
    trace::Request,
    trace_file::Index,
};

use crate::load::generator::GeneratorOptions;
use crate::load::result::FigureSet;

/// Replay the sessions of a log or trace, as logged or at rising rates.
///
/// Sessions start when they are due, whatever the server does. With --scale they start as logged, that many times as
/// fast; think times within a session stay. With --rate they start at random, so that each step offers that many
/// requests per second. Each session has a connection of its own and sends its requests one after another.
#[derive(Args)]
#[command(
    after_help = "\
Example: a log, ten times as fast as it was
  sojourn replay day.trace http://127.0.0.1:8080 --scale 10 --format json",
    after_long_help = "\
Examples: a log ten times as fast as it was; rising rates until the server misses its target
  sojourn replay day.trace http://127.0.0.1:8080 --scale 10 --format json
  sojourn replay day.trace http://127.0.0.1:8080 --rate 500,1000,2000,4000 --step 5s --settle 1s \\
      --think-scale 0.2 --target-p95 200ms --stop-when-failing --core 1 --observe-core 0 --format json

A request is due at its session's start plus its offset times the think scale. It is sent then, or when the response \
before it is complete. Latencies belong to the step in which a request was due; requests per second count responses in \
the step in which they arrived. If 1 % of requests are sent later than --lag-limit, `generator.limited` is true.

Document i of the trace is expected at /III/IIIIII-BYTES below the URL, where `sojourn fileset from-log` puts it. With \
--paths original the log's own paths are requested, of a site that has them.

`sojourn replay` also takes a log, with the options of `sojourn trace` that read and filter it: --log-format, \
--json-field, --session-gap, --from, --to, --status, --method, --path, --host, --client, --map-path, --map-host, --keep. \
With --failed send or expect it keeps failed requests, with --paths original queries.

Exit code: 0 complete, 1 not complete (interrupted, or the server went away), 2 could not run."
)]
#[command(group = clap::ArgGroup::new("arrivals").required(true).args(["scale", "rate"]))]
pub struct Options {
    /// The trace, as `sojourn trace --output` writes it.
    trace: PathBuf,
    /// The server: http[s]://HOST[:PORT][/PATH]
    url: String,
    /// Replay as logged, with session starts this many times as fast.
    #[arg(long, value_name = "N")]
    scale: Option<f64>,
    /// Offer these request rates one after another, in rising order.
    #[arg(long, value_name = "R1,R2,...", value_delimiter = ',')]
    rate: Vec<f64>,
    /// Replay only this part of the sessions, such as 0..0.5, spread evenly over the trace: generators with parts that make
    /// the whole share a replay.
    #[arg(long, value_name = "FROM..TO", default_value = "0..1", conflicts_with = "rate")]
    part: Part,
    /// How long each rate is held.
    #[arg(long, default_value = "4s", value_parser = duration::parse, conflicts_with = "scale")]
    step: Nanos,
    /// The part of each step, or of a replay as logged, that is not measured [default: 1s, or 0s with --scale].
    #[arg(long, value_parser = duration::parse)]
    settle: Option<Nanos>,
    /// Multiply think times within sessions by this factor.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    think_scale: f64,
    /// Stop a replay as logged after this long.
    #[arg(long, value_parser = duration::parse, conflicts_with = "rate")]
    duration: Option<Nanos>,
    /// Target for the p95 of the time to first byte from the intended start.
    #[arg(long, default_value = "200ms", value_parser = duration::parse)]
    target_p95: Nanos,
    /// Stop after the first step that misses the target or does not follow the offered rate; a replay as logged has one
    /// step.
    #[arg(long)]
    stop_when_failing: bool,
    /// Request the documents of a site built for the trace, or the logged paths.
    #[arg(long, default_value = "site")]
    paths: PathsName,
    /// Requests that failed in the log (not 200 or 304): skip them, send them and accept any response, or expect the
    /// logged status.
    #[arg(long, default_value = "skip")]
    failed: FailedName,
    /// The Host field: `url`, `log` (the logged host, if there is one), or a name [default: log with --paths original,
    /// else url].
    #[arg(long, value_name = "url|log|NAME", value_parser = host_field)]
    host_field: Option<Host>,
    /// With --paths original, count a response whose size differs from the log's as an error.
    #[arg(long)]
    check_sizes: bool,
    /// With --paths original, send the log's requests of these methods with them: POST,PUT. Load a copy: they change data.
    #[arg(long, value_name = "METHOD,...", value_delimiter = ',')]
    allow_methods: Vec<String>,
    /// Send this file's bytes as the body of each of them.
    #[arg(long, value_name = "FILE", requires = "allow_methods")]
    body: Option<PathBuf>,
    /// Another field of each request, as 'Name: value'; may be given again.
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    header: Vec<String>,
    #[command(flatten)]
    generator: GeneratorOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PathsName {
    Site,
    Original,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailedName {
    Skip,
    Send,
    Expect,
}

/// The default part of each rate's step that is not measured.
const STAIRCASE_SETTLE: Nanos = Nanos(1_000_000_000);
/// Time beyond the last due time of a replay, so that a late generator can still send the last requests; the run ends
/// when they are answered.
const REPLAY_MARGIN: Nanos = Nanos(1_000_000_000);

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let target = Target::resolve(&options.url)?;
    let generator = &options.generator;
    ensure!(
        options.think_scale.is_finite() && options.think_scale >= 0.0,
        "--think-scale must not be negative"
    );
    let mut trace = Stored::open(&options.trace, options.failed == FailedName::Skip)?;
    let head = trace.head();
    ensure!(head.requests > 0, "{}: the trace contains no requests to send", options.trace.display());
    let connections = generator.connections(Connections::KeepAlive);
    let form = Form {
        fields: &options.header,
        ..Form::get(&target, generator.version(Version::Http11), connections)
    };
    form.check()?;
    let catalogue = Catalogue::trace(&form, trace.documents(), &options.replayed()?);
    catalogue.check()?;
    let (schedule, (arrivals, reading)) = match options.scale {
        Some(scale) => {
            positive("scale factor", scale)?;
            let schedule = options.replay_schedule(&mut trace, scale)?;
            (schedule, as_logged(trace.into_parts(), scale, options.part.clone())?)
        }
        None => {
            let schedule = options.staircase_schedule()?;
            let mut index = Index::new(options.think_scale);
            trace.scan(&mut |place, _, requests| index.session(place, duration_ns(requests)))?;
            (schedule, at_random(trace.into_parts(), index, &options.staircase())?)
        }
    };
    let tls = generator.tls(&target)?;
    let plan = Plan {
        target,
        arrivals: Arrivals::Logged(Box::new(arrivals)),
        requests: Requests::Logged { think_scale: options.think_scale },
        think: Think::AfterAnswer(Distribution::NONE),
        catalogue: generator.verified(catalogue),
        connections,
        tls,
        transport: generator.transport(),
        schedule,
        stop: options.stop_rule(),
        limits: Limits { target_p95: Some(options.target_p95), ..generator.limits() },
        waiting: generator.waiting(),
        observe: generator.observe(),
        seed: generator.seed,
    };
    let code = generator.run("replay", plan, FigureSet::Ours, None)?;
    Ok(match reading.end() {
        Ok(()) => code,
        Err(error) => {
            eprintln!("error: {}: {error:#}; the replay ended there", options.trace.display());
            ExitCode::from(1)
        }
    })
}

/// From the first request of a session to the last.
fn duration_ns(requests: &[Request]) -> u64 {
    requests.last().map_or(0, |request| request.offset_ns)
}

/// Parses a field value, or where to take it from.
fn host_field(text: &str) -> Result<Host, String> {
    match text {
        "url" => Ok(Host::Url),
        "log" => Ok(Host::Log),
        name if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Host::Named(name.to_owned()))
        }
        other => Err(format!("{other:?} is not a host")),
    }
}

impl Options {
    fn replayed(&self) -> anyhow::Result<Replayed> {
        let (paths, usual_host) = match self.paths {
            PathsName::Site => (Paths::Site, Host::Url),
            PathsName::Original => (Paths::Original, Host::Log),
        };
        let failed = match self.failed {
            FailedName::Skip => Failed::Skip,
            FailedName::Send => Failed::Send,
            FailedName::Expect => Failed::Expect,
        };
        let host = self.host_field.clone().unwrap_or(usual_host);
        ensure!(
            self.allow_methods.is_empty() || paths == Paths::Original,
            "--allow-methods works with the log's own paths only\nhint: add --paths original"
        );
        let read = |path: &PathBuf| fs::read(path).with_context(|| path.display().to_string());
        Ok(Replayed {
            paths,
            failed,
            host,
            check_sizes: self.check_sizes,
            methods: self.allow_methods.iter().map(|method| method.trim().to_uppercase()).collect(),
            body: self.body.as_ref().map(read).transpose()?.unwrap_or_default(),
        })
    }

    /// One step from the end of the settle part to the last request, or for as long as requested. All parts of a trace have
    /// the same step.
    fn replay_schedule(&self, trace: &mut Stored, scale: f64) -> anyhow::Result<Schedule> {
        let (mut span, mut count, mut session) = (Nanos::ZERO, 0, 0);
        trace.scan(&mut |_, start_ns, requests| {
            let due = start_ns as f64 / scale + duration_ns(requests) as f64 * self.think_scale;
            span = span.max(Nanos(due as u64));
            count += if self.part.has(session) { requests.len() } else { 0 };
            session += 1;
        })?;
        ensure!(count > 0, "this part of the trace contains no session: it has {session}");
        let settle = self.settle.unwrap_or(Nanos::ZERO);
        let measured = self.duration.unwrap_or(span + REPLAY_MARGIN - settle);
        ensure!(
            measured > Nanos::ZERO,
            "--settle leaves nothing to measure of a replay of {:.1} s",
            span.seconds()
        );
        let rate = (span > Nanos::ZERO).then(|| count as f64 / span.seconds());
        Ok(Schedule::single(settle, measured, rate))
    }

    fn stop_rule(&self) -> StopRule {
        match self.scale {
            // One step, which ends with its last answer: the time left for a late generator is not part of it.
            Some(_) => StopRule::Answered,
            None if self.stop_when_failing => StopRule::Failing,
            None => StopRule::ScheduleEnd,
        }
    }

    fn staircase_schedule(&self) -> anyhow::Result<Schedule> {
        let settle = self.settle.unwrap_or(STAIRCASE_SETTLE);
        ensure!(settle < self.step, "--settle must be shorter than --step");
        Ok(Schedule::staircase(&self.rate, self.step, settle))
    }

    fn staircase(&self) -> Staircase {
        let settle = self.settle.unwrap_or(STAIRCASE_SETTLE);
        Staircase::in_steps(&self.rate, self.step.0, settle.0, self.think_scale, self.generator.seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn only_rising_rates_stop_before_their_end() {
        let rule = |arguments: &[&str]| {
            let words = ["replay", "day.trace", "http://127.0.0.1"].iter().chain(arguments);
            Command::parse_from(words).options.stop_rule()
        };
        assert_eq!(rule(&["--scale", "2"]), StopRule::Answered);
        assert_eq!(rule(&["--scale", "2", "--stop-when-failing"]), StopRule::Answered);
        assert_eq!(rule(&["--rate", "5,9"]), StopRule::ScheduleEnd);
        assert_eq!(rule(&["--rate", "5,9", "--stop-when-failing"]), StopRule::Failing);
    }
}
