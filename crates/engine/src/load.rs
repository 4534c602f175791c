//! `sojourn-engine load`: a closed loop of virtual clients.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Args, ValueEnum};
use sojourn_load::{Arrivals, Catalogue, Pick, Plan, Schedule, StopRule, Target, Think, ThinkLaw, duration};
use sojourn_measure::Nanos;

pub mod common;
mod progress;
mod start;
mod text;

use common::Common;

/// Loads a server with clients that ask again as soon as they are answered, or a think time later.
///
/// The clients are a closed loop: a slow server is asked more slowly. For arrivals that do not wait for the
/// server use `replay`. Everything runs on one thread, which should have a core of its own (--core).
#[derive(Args)]
#[command(after_help = "\
Example: 64 clients on one page for ten seconds, generator on core 1, server (process 4711) on core 0

  sojourn load http://127.0.0.1:8080/index.html --clients 64 --duration 10s --warm-up 2s \\
      --core 1 --observe-core 0 --observe-pid 4711 --format json

`requests` are the good answers to requests due in the measured time; `errors` are counted apart, by cause; \
`unfinished` ones had no answer at the end. Latencies of errors are not mixed in. Where `generator.limited` is \
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
            waiting: common.waiting(),
            observe: common.observe(),
            seed: common.seed,
        },
    )
}
