//! `sojourn-engine link`: a network link between this network namespace and one of its own, in which a command runs.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use sojourn_link::carrier::{Carrier, Link};
use sojourn_link::command::{self, exit_code};
use sojourn_link::emulator::Emulator;
use sojourn_link::iproute::ShapingError;
use sojourn_link::line::Line;
use sojourn_link::loss::Loss;
use sojourn_link::network::{LINES_MAX, Network};
use sojourn_link::shaped::Shaped;
use sojourn_link::{DirectionReport, Report};
use sojourn_load::duration;
use sojourn_measure::Nanos;
use sojourn_queueing::distribution::{Deterministic, Distribution, Erlang, Exponential};

use crate::json;
use crate::load::generator::bit_rate;

const LINE: &str = "Line, both directions";
const ASYMMETRY: &str = "Line, one direction";
const CLIENTS: &str = "Clients";
const MACHINE: &str = "Machine and result";

const SEED_DEFAULT: u64 = 1;
const LATENESS_LIMIT_DEFAULT: Nanos = Nanos(1_000_000);

/// Run a command behind an emulated network link: rate, delay, loss, a limited queue.
///
/// The command runs in a network namespace whose only way out is the link. The server stays where it is; let it listen
/// at the link's first address (10.77.0.1) or everywhere. Sockets and TCP are the kernel's own. Packets pass through
/// this program, which reports how late it was, or with --shaper kernel through the kernel alone. Without a command the
/// link is up until SIGINT or SIGTERM. Needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and leaves nothing behind.
#[derive(Args)]
#[command(after_help = "\
Example: sojourn link --rate 1.5Mbit/s --delay 15ms -- \\
    sojourn load http://10.77.0.1:8080/ --clients 4 --duration 10s")]
pub struct Options {
    /// The rate of a line: 56kbit/s, 1.5Mbit/s [default: as fast as this machine].
    #[arg(long, value_name = "RATE", value_parser = bit_rate, help_heading = LINE)]
    rate: Option<f64>,
    /// One-way delay, from the end of sending to arrival: 15ms, exponential:15ms, erlang:4:15ms [default: none].
    #[arg(long, value_name = "LAW", value_parser = law, help_heading = LINE)]
    delay: Option<Distribution>,
    /// Packet loss: 0.1%, or in bursts, bursts:0.1%,30% (probability per packet of entering and of leaving the bad
    /// state).
    #[arg(long, value_name = "LOSS", value_parser = Loss::parse, default_value = "0%", help_heading = LINE)]
    loss: Loss,
    /// The queue of a line in packets, including the one being sent; one more is dropped. Only with a rate.
    #[arg(long, value_name = "PACKETS", default_value_t = 100, value_parser = packets, help_heading = LINE)]
    queue: usize,
    /// Let packets overtake each other if their random delays say so; TCP takes that for loss.
    #[arg(long, help_heading = LINE)]
    reorder: bool,
    /// The rate from clients to the server, if different.
    #[arg(long, value_name = "RATE", value_parser = bit_rate, help_heading = ASYMMETRY)]
    up_rate: Option<f64>,
    /// The delay from clients to the server, if different.
    #[arg(long, value_name = "LAW", value_parser = law, help_heading = ASYMMETRY)]
    up_delay: Option<Distribution>,
    /// The loss from clients to the server, if different.
    #[arg(long, value_name = "LOSS", value_parser = Loss::parse, help_heading = ASYMMETRY)]
    up_loss: Option<Loss>,
    /// The number of client addresses, each behind a line with its own rate and queue, like modems.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = lines, help_heading = CLIENTS)]
    lines: u32,
    /// Extra one-way delay of a line, drawn once per line, for clients at different distances.
    #[arg(long, value_name = "LAW", value_parser = law, help_heading = CLIENTS)]
    line_delay: Option<Distribution>,
    /// The link's network: the server has its first address, clients the next ones. Several links need different
    /// networks.
    #[arg(long, value_name = "NETWORK", value_parser = Network::parse, default_value = "10.77.0.0/16", help_heading = CLIENTS)]
    network: Network,
    /// What carries the packets: this program or the kernel.
    #[arg(long, value_name = "WHO", value_enum, default_value_t = ShaperName::User, help_heading = MACHINE)]
    shaper: ShaperName,
    /// Seed of all random draws [default: 1].
    #[arg(long, value_name = "N", help_heading = MACHINE)]
    seed: Option<u64>,
    /// Pin the link to this core; the command is not pinned.
    #[arg(long, value_name = "N", help_heading = MACHINE)]
    core: Option<usize>,
    /// Mark the result as limited if more than one packet in a hundred is delivered later than this after it was due
    /// [default: 1ms].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = MACHINE)]
    lateness_limit: Option<Nanos>,
    /// Write the report to this file as one JSON object; - for standard output.
    #[arg(long, value_name = "FILE", help_heading = MACHINE)]
    report: Option<PathBuf>,
    /// The command to run behind the link, after `--`; its exit code becomes this program's.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ShaperName {
    /// This program: all features, and a report of its lateness.
    User,
    /// The kernel's queueing disciplines, set up by tc and ip (iproute2): less CPU time; only rates, constant delays
    /// and losses.
    Kernel,
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    options.network.holds(options.lines)?;
    match options.shaper {
        ShaperName::User => run_carrier(options, Emulator::new(options.link()).map_err(not_emulated)?),
        ShaperName::Kernel => {
            options.check_kernel_options()?;
            run_carrier(options, Shaped::new(options.link()).map_err(not_shaped)?)
        }
    }
}

fn run_carrier(options: &Options, mut carrier: impl Carrier) -> anyhow::Result<ExitCode> {
    if options.command.is_empty() {
        let (process, namespace) = (std::process::id(), carrier.namespace().raw());
        eprintln!(
            "link up: the server is {}, clients start at {}\n\
             hint: nsenter --net=/proc/{process}/fd/{namespace} COMMAND runs a command behind it",
            options.network.server(),
            options.network.client(0)
        );
    }
    let status = command::run(&mut carrier, &options.command, options.core).with_context(|| {
        let name = options.command.first().map(|name| name.to_string_lossy().into_owned());
        format!("cannot run {} behind the link", name.unwrap_or_default())
    })?;
    let report = carrier.report().context("cannot read the link's counters")?;
    print_report(&report);
    write(options, &report)?;
    Ok(status.map_or(ExitCode::SUCCESS, |status| exit_code(status).into()))
}

impl Options {
    /// Rejects options that the kernel's shaper would ignore; the kernel itself reports what it cannot do.
    fn check_kernel_options(&self) -> anyhow::Result<()> {
        let idle = [
            ("--seed", self.seed.is_some(), "the kernel draws losses from its own seed"),
            ("--core", self.core.is_some(), "the kernel shapes on the cores that send and receive"),
            ("--lateness-limit", self.lateness_limit.is_some(), "the kernel does not report lateness"),
        ];
        if let Some((option, _, why)) = idle.into_iter().find(|(_, is_given, _)| *is_given) {
            bail!(
                "{option} has no effect on the kernel's shaper: {why}\nhint: leave it out, or --shaper user"
            );
        }
        Ok(())
    }

    fn link(&self) -> Link {
        let down = Line {
            rate: self.rate,
            delay: self.delay.clone(),
            loss: self.loss,
            queue_packets_max: self.queue,
            reorders: self.reorder,
        };
        let up = Line {
            rate: self.up_rate.or(self.rate),
            delay: self.up_delay.clone().or_else(|| self.delay.clone()),
            loss: self.up_loss.unwrap_or(self.loss),
            ..down.clone()
        };
        Link {
            network: self.network,
            lines: self.lines,
            up,
            down,
            line_delay: self.line_delay.clone(),
            seed: self.seed.unwrap_or(SEED_DEFAULT),
            lateness_limit: self.lateness_limit.unwrap_or(LATENESS_LIMIT_DEFAULT),
        }
    }
}

fn not_emulated(error: io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            setup_error(error, "the kernel has no TUN devices: modprobe tun")
        }
        _ => not_made(error),
    }
}

fn not_shaped(error: ShapingError) -> anyhow::Error {
    match error {
        ShapingError::System(error) => not_made(error),
        error => setup_error(error, "--shaper user does it in user space"),
    }
}

fn not_made(error: io::Error) -> anyhow::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "it needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN; without, `sojourn load --read-rate 56kbit/s` has \
             clients that read slowly"
        }
        Some(libc::EEXIST) => "another link or network has these addresses: choose another --network",
        _ => return anyhow::Error::new(error).context("cannot bring the link up"),
    };
    setup_error(error, hint)
}

fn setup_error(error: impl Display, hint: &str) -> anyhow::Error {
    anyhow::anyhow!("cannot bring the link up: {error}\nhint: {hint}")
}

fn print_report(report: &Report) {
    print_direction("up", &report.up);
    print_direction("down", &report.down);
    if let (Some(true), Some(limit)) = (report.limited, report.lateness_limit_seconds) {
        eprintln!(
            "warning: the link itself was late (more than 1 % of packets by over {} ms): its delays are this \
             machine's too\nhint: give it a core of its own (--core), or fewer packets, or --shaper kernel",
            limit * 1e3
        );
    }
}

fn print_direction(name: &str, direction: &DirectionReport) {
    let dropped = match (direction.overflowed_packets, direction.lost_packets) {
        (Some(overflowed), Some(lost)) => format!("{overflowed} dropped by the queue, {lost} lost"),
        _ => format!("{} dropped by the queue or lost", direction.dropped_packets),
    };
    let late = direction.lateness_seconds.as_ref().map(|lateness| {
        let p99 = lateness.p99.map_or("-".into(), |p99| format!("{:.3} ms", p99 * 1e3));
        format!("; 99 % at most {p99} late")
    });
    eprintln!(
        "link {name}: {} packets, {} bytes delivered; {dropped}{}",
        direction.delivered_packets,
        direction.delivered_bytes,
        late.unwrap_or_default()
    );
}

fn write(options: &Options, report: &Report) -> anyhow::Result<()> {
    let Some(path) = &options.report else { return Ok(()) };
    if path.as_os_str() == "-" {
        return Ok(json::write_line(&mut io::stdout(), report)?);
    }
    let mut file =
        File::create(path).with_context(|| format!("cannot write the report {}", path.display()))?;
    Ok(json::write_indented(&mut file, report)?)
}

/// Parses `15ms`, `exponential:15ms`, `erlang:4:15ms`.
fn law(text: &str) -> anyhow::Result<Distribution> {
    let seconds = |text: &str| duration::parse(text).map(Nanos::seconds);
    Ok(match text.split(':').collect::<Vec<_>>()[..] {
        [time] => Deterministic::new(seconds(time)?)?.into(),
        ["exponential", mean] => Exponential::new(seconds(mean)?)?.into(),
        ["erlang", stages, mean] => {
            let stages = stages.parse().with_context(|| format!("{stages:?} is not a number of stages"))?;
            Erlang::new(seconds(mean)?, stages)?.into()
        }
        _ => bail!("{text:?} is not a delay such as 15ms, exponential:15ms or erlang:4:15ms"),
    })
}

fn lines(text: &str) -> Result<u32, String> {
    let lines = text.parse().ok().filter(|lines| (1..=LINES_MAX).contains(lines));
    lines.ok_or_else(|| format!("{text:?} is not a number of clients from 1 to {LINES_MAX}"))
}

fn packets(text: &str) -> Result<usize, String> {
    let packets = text.parse().ok().filter(|packets| (1..=1_000_000).contains(packets));
    packets.ok_or_else(|| format!("{text:?} is not a number of packets from 1 to 1000000"))
}

#[cfg(test)]
mod tests {
    use sojourn_queueing::distribution::RandomVariable;

    use super::*;

    #[test]
    fn laws() {
        let mean = |text| law(text).unwrap().mean();
        assert!((mean("15ms") - 0.015).abs() < 1e-12);
        assert!((mean("erlang:4:195ms") - 0.195).abs() < 1e-12);
        assert!((mean("exponential:2s") - 2.0).abs() < 1e-12);
        for bad in
            ["", "15", "erlang:15ms", "erlang:0:15ms", "erlang:x:15ms", "normal:15ms", "exponential:0ms"]
        {
            assert!(law(bad).is_err(), "{bad}");
        }
    }
}
