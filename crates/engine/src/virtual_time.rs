//! `sojourn-engine virtual-time`: runs a program in virtual time, for `sojourn misses`.

use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use anyhow::{Context, bail};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sojourn_measure::virtual_time::{self, VirtualTime};

use crate::serve::options::values::duration;

/// Run a program under valgrind in virtual time: clocks stand still, random numbers repeat, timeouts do not expire.
#[derive(Args)]
pub struct Options {
    /// The core for all its threads.
    #[arg(long)]
    core: usize,
    /// Advance time in steps: for each line on standard input with a duration such as 250ms, advances time by it; once
    /// the program has done what was due, prints the total time passed on standard output. The program's own output
    /// goes to standard error.
    #[arg(long)]
    steps: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Some((program, arguments)) = options.command.split_first() else { bail!("no program given") };
    let virtual_time = VirtualTime::new(options.steps)?;
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let asked = virtual_time.clone();
    thread::spawn(move || signals.forever().for_each(|_| asked.abort()));
    if let Err(error) = virtual_time::take_turns(options.core) {
        eprintln!("warning: threads may run in a different order each time: {error}");
    }
    let mut command = Command::new(program);
    if options.steps {
        command.stdin(Stdio::null()).stdout(io::stderr());
        let stepped = virtual_time.clone();
        thread::spawn(move || step(&stepped));
    }
    let code = virtual_time::run(command.args(arguments), &virtual_time)
        .with_context(|| format!("cannot run {program} in virtual time"))?;
    Ok(ExitCode::from(code as u8))
}

/// Advances time as requested on standard input; ends the program when the input ends, because the controlling process
/// has gone.
fn step(virtual_time: &VirtualTime) {
    for line in io::stdin().lines().map_while(Result::ok) {
        let time = match duration(&line) {
            Ok(time) => time,
            Err(fault) => {
                eprintln!("cannot advance the time by {line:?}: {fault}");
                break;
            }
        };
        let Some(passed) = virtual_time.pass(time) else { return };
        if writeln!(io::stdout(), "{:.6}", passed.as_secs_f64()).is_err() {
            break;
        }
    }
    virtual_time.abort();
}
