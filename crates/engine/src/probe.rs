//! `sojourn-engine probe`: samples what processes use, a JSON object per line. `sojourn probe` displays and stores the
//! samples.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use sojourn_load::duration;
use sojourn_measure::confinement::Confinement;
use sojourn_measure::counters::Counter;
use sojourn_measure::machine::Machine;
use sojourn_measure::probe::{Column, Group, Probe, Sample, Target, listening_on};
use sojourn_measure::{Nanos, Reading, affinity, clock, limits, process};

use crate::confine::ConfinementOptions;
use crate::json;
use crate::load::generator::interrupt_flag;

/// Sample the resource use of processes.
#[derive(Args)]
pub struct Options {
    /// This process and its descendants; repeatable.
    #[arg(long)]
    pid: Vec<u32>,
    /// The processes that listen on this port, and their accept queue.
    #[arg(long)]
    port: Option<u16>,
    /// A control group, by its folder.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// The core to observe [default: all together].
    #[arg(long)]
    observe_core: Option<usize>,
    /// Sources to read; others cost nothing [default: all].
    #[arg(long, value_delimiter = ',', value_parser = group)]
    sources: Vec<Group>,
    /// Time between samples.
    #[arg(long, default_value = "100ms", value_parser = duration::parse)]
    interval: Nanos,
    /// Stop after this long [default: when interrupted, or when the processes have ended].
    #[arg(long, value_parser = duration::parse)]
    duration: Option<Nanos>,
    /// Pin the probe to this core.
    #[arg(long)]
    core: Option<usize>,
    #[command(flatten)]
    confinement: ConfinementOptions,
    /// The only format.
    #[arg(long, value_parser = ["json"], default_value = "json")]
    format: String,
    /// Start this command and probe it.
    #[arg(last = true)]
    command: Vec<String>,
}

/// With a shorter interval you would measure the probe.
const INTERVAL_MIN: Nanos = Nanos(1_000_000);

/// How long the probed command may take to end after it was asked to.
const END_TIMEOUT: Nanos = Nanos(5_000_000_000);

/// Enough for every perf event of hundreds of threads, and for their files in /proc.
const DESCRIPTORS_WANTED: u64 = 1 << 16;

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.interval < INTERVAL_MIN {
        bail!("an interval below {} ms would measure the probe itself", INTERVAL_MIN.0 / 1_000_000);
    }
    let confinement = &options.confinement;
    if options.command.is_empty() && confinement.is_limited() {
        bail!("limits apply only to a command that the probe starts\nhint: give the command after --");
    }
    // Interruptible before the group is created, so that the changes are undone.
    let interrupted = interrupt_flag()?;
    // A running server keeps its pages.
    let confinement = if options.command.is_empty() { None } else { confinement.arrange()? };
    let mut started = start(&options.command, confinement.as_ref())?;
    // Only now, so that the command has the limit that it would have without us.
    limits::raise_descriptors(DESCRIPTORS_WANTED);
    let group = confinement.as_ref().and_then(|confinement| confinement.groups().first());
    let outcome = watch(options, started.as_mut(), group, &interrupted);
    if let Some(child) = &mut started {
        end(child)?;
    }
    outcome
}

/// Ends the command that the probe started: SIGTERM, and after a while SIGKILL.
fn end(child: &mut Child) -> anyhow::Result<()> {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It may have ended already.
        let _ = kill_process(pid, Signal::TERM);
    }
    let limit = clock::now() + END_TIMEOUT;
    while child.try_wait()?.is_none() {
        if clock::now() >= limit {
            child.kill()?;
        }
        thread::sleep(Nanos(10_000_000).into());
    }
    Ok(())
}

fn watch(
    options: &Options,
    mut started: Option<&mut Child>,
    group: Option<&PathBuf>,
    interrupted: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let target = Target {
        pids: pids(options, started.as_deref())?,
        cgroup: options.cgroup.as_ref().or(group).cloned(),
        site: options.confinement.site.clone(),
        port: options.port,
        core: options.observe_core,
    };
    if let Some(core) = options.core {
        affinity::pin_to(core).with_context(|| format!("cannot pin the probe to core {core}"))?;
    }
    let groups = if options.sources.is_empty() { &Group::ALL[..] } else { &options.sources };
    let mut probe = Probe::new(&target, groups);
    let mut output = io::stdout().lock();
    print(&mut output, &Header::of(&probe, &target))?;
    let begin = clock::now();
    let mut due = begin;
    loop {
        let sample = probe.sample();
        print(&mut output, &Row::of(&sample, clock::now() - sample.time))?;
        let now = clock::now();
        let is_over = options.duration.is_some_and(|duration| now - begin >= duration);
        let has_ended = match started.as_deref_mut() {
            Some(child) => child.try_wait()?.is_some(),
            None => !target.pids.is_empty() && target.pids.iter().all(|&pid| !exists(pid)),
        };
        if is_over || has_ended || interrupted.load(Ordering::Relaxed) {
            return Ok(ExitCode::SUCCESS);
        }
        due = next_due(due, options.interval, now);
        sleep_until(due, interrupted);
    }
}

/// The processes named by any of the options.
fn pids(options: &Options, started: Option<&Child>) -> anyhow::Result<Vec<u32>> {
    let mut pids = options.pid.clone();
    if let Some(&pid) = pids.iter().find(|&&pid| !exists(pid)) {
        bail!(
            "process {pid} does not exist or is not visible\nhint: /proc may hide other users' processes (hidepid): run as its user or as root"
        );
    }
    pids.extend(started.map(Child::id));
    // A server that was just started listens a moment later; then the port is only used for its accept queue.
    if let (Some(port), None) = (options.port, started) {
        let listeners = listening_on(port)?;
        if listeners.is_empty() && pids.is_empty() {
            bail!(
                "no visible process listens on port {port}\nhint: start the server first, or run as its user"
            );
        }
        pids.extend(listeners);
    }
    if pids.is_empty() && options.cgroup.is_none() {
        bail!("nothing to probe\nhint: give --pid, --port, --cgroup or a command after --");
    }
    pids.sort_unstable();
    pids.dedup();
    // A worker is its parent's, which has what it used after it has ended: servers replace their workers.
    let all = pids.clone();
    pids.retain(|&pid| process::parent(pid).is_none_or(|parent| all.binary_search(&parent).is_err()));
    Ok(pids)
}

fn group(text: &str) -> Result<Group, String> {
    let names = Group::ALL.map(Group::name).join(", ");
    let found = Group::ALL.into_iter().find(|group| group.name() == text);
    found.ok_or_else(|| format!("unknown source: use {names}"))
}

fn start(command: &[String], confinement: Option<&Confinement>) -> anyhow::Result<Option<Child>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    // Standard output is reserved for samples.
    let mut command = Command::new(program);
    command.args(arguments).stdout(io::stderr());
    if let Some(confinement) = confinement {
        confinement.enclose(&mut command).map_err(|reason| anyhow!(reason))?;
    }
    command.spawn().map(Some).with_context(|| format!("cannot start {program}"))
}

fn exists(pid: u32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)
}

/// The next multiple of the interval, so that one late sample does not delay the following ones.
fn next_due(due: Nanos, interval: Nanos, now: Nanos) -> Nanos {
    let missed = (now - due).0 / interval.0;
    Nanos(due.0 + (missed + 1) * interval.0)
}

fn sleep_until(due: Nanos, interrupted: &AtomicBool) {
    /// How long an interruption may go unnoticed.
    const NAP: Nanos = Nanos(100_000_000);
    while clock::now() < due && !interrupted.load(Ordering::Relaxed) {
        thread::sleep((due - clock::now()).min(NAP).into());
    }
}

fn print(output: &mut dyn Write, line: &impl Serialize) -> anyhow::Result<()> {
    json::write_line(output, line)?;
    // A live display waits for each line.
    Ok(output.flush()?)
}

/// Adds the schemas of what the probe prints: a header, then a row per sample.
#[cfg(debug_assertions)]
pub fn add_schemas(generator: &mut schemars::SchemaGenerator) {
    generator.subschema_for::<Header<'static>>();
    generator.subschema_for::<Row<'static>>();
}

/// The first line: the columns, and why counters are missing.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "ProbeHeader"))]
struct Header<'a> {
    tool: &'static str,
    version: &'static str,
    machine: Machine,
    clocks: Clocks,
    pids: &'a [u32],
    columns: Vec<&'static Counter>,
    unavailable: Vec<Unavailable<'a>>,
}

/// The clocks of a row's two times.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "ProbeClocks"))]
struct Clocks {
    unix_seconds: &'static str,
    time_seconds: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "UnavailableCounter"))]
struct Unavailable<'a> {
    #[serde(flatten)]
    counter: &'static Counter,
    because: &'a str,
}

impl<'a> Header<'a> {
    fn of(probe: &'a Probe, target: &'a Target) -> Header<'a> {
        let refused = |column: &'a Column| {
            column.refused.as_deref().map(|because| Unavailable { counter: column.counter, because })
        };
        let columns = probe.columns().iter();
        Header {
            tool: "probe",
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::describe(),
            clocks: Clocks { unix_seconds: "CLOCK_REALTIME", time_seconds: "CLOCK_MONOTONIC" },
            pids: &target.pids,
            columns: columns
                .clone()
                .filter(|column| column.refused.is_none())
                .map(|column| column.counter)
                .collect(),
            unavailable: columns.filter_map(refused).collect(),
        }
    }
}

/// A sample: values in the order of the columns, and its cost.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema), schemars(rename = "ProbeRow"))]
struct Row<'a> {
    unix_seconds: f64,
    time_seconds: f64,
    sampling_seconds: f64,
    values: &'a [Reading<f64>],
}

impl Row<'_> {
    fn of(sample: &Sample, cost: Nanos) -> Row<'_> {
        Row {
            unix_seconds: sample.unix_seconds,
            time_seconds: sample.time.seconds(),
            sampling_seconds: cost.seconds(),
            values: &sample.readings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sample_does_not_make_others_late() {
        assert_eq!(next_due(Nanos(1000), Nanos(100), Nanos(1001)), Nanos(1100));
        assert_eq!(next_due(Nanos(1000), Nanos(100), Nanos(1250)), Nanos(1300));
    }
}
