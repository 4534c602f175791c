//! A start on command: `--start-on-stdin`, for generators on several machines that start together.
//!
//! The engine prints `{"ready": true}` on standard error once everything is prepared, then reads lines: `clock` is
//! answered with this machine's time (the other side estimates the clock offset), `go TIME` starts the run at that time
//! of this machine's clock, in seconds since 1970. From then on `stop`, or the end of standard input, ends the run like
//! an interrupt: a generator whose coordinator has gone stops.

use std::{
    io::{self, BufRead, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};

/// A start further away is a clock error.
const START_DELAY_MAX: Duration = Duration::from_secs(600);
/// The longest accepted line.
const LINE_BYTES_MAX: u64 = 256;

/// Waits for the start; from then on `stop` sets `interrupted`.
pub fn wait_on_stdin(interrupted: &Arc<AtomicBool>) -> anyhow::Result<()> {
    eprintln!("{{\"ready\": true}}");
    while let Some(line) = read_line()? {
        match line.split_once(' ').unwrap_or((line.as_str(), "")) {
            ("clock", "") => eprintln!("{{\"clock_seconds\": {:.9}}}", since_epoch().as_secs_f64()),
            ("go", time) => {
                let start = time.parse::<f64>().ok().and_then(|time| Duration::try_from_secs_f64(time).ok());
                let start =
                    start.with_context(|| format!("`go` needs seconds since the epoch, not {time:?}"))?;
                let delay = start.saturating_sub(since_epoch());
                if delay > START_DELAY_MAX {
                    bail!("the start is {} s away: the clocks of the machines differ", delay.as_secs());
                }
                watch_for_stop(Arc::clone(interrupted));
                thread::sleep(delay);
                return Ok(());
            }
            _ => bail!("unexpected line {line:?} on standard input: send `clock`, `go TIME` or `stop`"),
        }
    }
    bail!("standard input ended before `go`")
}

fn watch_for_stop(interrupted: Arc<AtomicBool>) {
    thread::spawn(move || {
        // Any input, including an error or the end, stops the run.
        let _ = read_line();
        interrupted.store(true, Ordering::Relaxed);
    });
}

fn read_line() -> anyhow::Result<Option<String>> {
    let mut line = String::new();
    let read = io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line);
    read.context("cannot read standard input")?;
    Ok((!line.is_empty()).then(|| line.trim_end().to_owned()))
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
