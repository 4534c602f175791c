//! `sojourn-engine still`: runs a program for which time stands still, for `sojourn misses`.

use std::process::{Command, ExitCode};
use std::thread;

use anyhow::{Context, bail};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sojourn_measure::still::{self, Held};

/// Runs a program under valgrind with clocks, chance and timeouts held still.
#[derive(Args)]
pub struct Options {
    /// The core that all its threads share.
    #[arg(long)]
    core: usize,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Some((program, arguments)) = options.command.split_first() else { bail!("no program was named") };
    let held = Held::default();
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let asked = held.clone();
    thread::spawn(move || signals.forever().for_each(|_| asked.abort()));
    if let Err(error) = still::take_turns(options.core) {
        eprintln!("threads do not take turns in the same order: {error}");
    }
    let code = still::run(Command::new(program).args(arguments), &held)
        .with_context(|| format!("cannot hold {program} still"))?;
    Ok(ExitCode::from(code as u8))
}
