//! A start that another program gives: `--start-on-stdin`, for generators on several machines that begin
//! together.
//!
//! The engine says `{"ready": true}` on standard error once everything is prepared, then reads lines: `clock`
//! is answered with this machine's time (the other side estimates how far the clocks are apart), `go TIME`
//! starts the run at that time of this machine's clock, in seconds since the epoch. From then on `stop`, or the
//! end of standard input, ends the run as an interrupt does: a generator whose coordinator is gone stops.

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

/// A start further away than this is a mistake in the clocks, not a plan.
const START_DELAY_MAX: Duration = Duration::from_secs(600);
/// Longer lines are not ours.
const LINE_BYTES_MAX: u64 = 256;

/// Waits until the other side says go; from then on its `stop` raises `interrupted`.
pub fn wait_on_stdin(interrupted: &Arc<AtomicBool>) -> anyhow::Result<()> {
    eprintln!("{{\"ready\": true}}");
    while let Some(line) = read_line()? {
        match line.split_once(' ').unwrap_or((line.as_str(), "")) {
            ("clock", "") => eprintln!("{{\"clock_seconds\": {:.9}}}", since_epoch().as_secs_f64()),
            ("go", time) => {
                let start = time.parse::<f64>().ok().and_then(|time| Duration::try_from_secs_f64(time).ok());
                let start =
                    start.with_context(|| format!("`go` wants seconds since the epoch, not {time:?}"))?;
                let delay = start.saturating_sub(since_epoch());
                if delay > START_DELAY_MAX {
                    bail!("the start is {} s away: the clocks of the machines differ", delay.as_secs());
                }
                watch_for_stop(Arc::clone(interrupted));
                thread::sleep(delay);
                return Ok(());
            }
            _ => bail!("standard input said {line:?}; `clock`, `go TIME` and `stop` are understood"),
        }
    }
    bail!("standard input ended before it said `go`")
}

fn watch_for_stop(interrupted: Arc<AtomicBool>) {
    thread::spawn(move || {
        // Any input, an error or the end included, stops the run.
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
