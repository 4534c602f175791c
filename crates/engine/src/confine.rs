//! `sojourn-engine confine`: runs a program with less memory, a slower disk or a slower processor, and undoes the
//! changes afterwards. The probe has the same options.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use rustix::process::{Pid, kill_process};
use sojourn_link::command::{Signals, unblock_in};
use sojourn_measure::confinement::{
    Confinement, DiskLimit, Hierarchies, Limits, disk_under, restore, state_folder,
};
use sojourn_measure::site_pages::{self, SitePages};

use crate::serve::options::values::size;

/// Run a program with less memory, a slower disk or a slower processor than the machine has.
///
/// It runs in a control group of its own (version 1 or 2), which is removed when it ends. The next run, or
/// --restore, undoes the changes of a run that was killed.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub confinement: ConfinementOptions,
    /// Undo what killed runs have left behind, and exit.
    #[arg(long, exclusive = true)]
    restore: bool,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present = "restore")]
    command: Vec<String>,
}

/// Limits on the processor time, memory and disk rates of a program.
#[derive(Args)]
#[command(next_help_heading = "Confinement")]
pub struct ConfinementOptions {
    /// Memory limit of the program and its descendants, including their share of the page cache: 64MiB; needs root
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<usize>,
    /// Read rate limit for the disk that holds the site: 20MiB/s, 20MB/s; needs root
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "site")]
    pub disk_read_limit: Option<u64>,
    /// Limit of read operations per second for that disk, like a disk with a head: 100; needs root
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "site")]
    pub disk_iops_limit: Option<u64>,
    /// CPU limit: 0.25 is a quarter of a processor, 2 is two; needs root
    #[arg(long, value_name = "PROCESSORS", value_parser = processors)]
    pub cpu_limit: Option<f64>,
    /// The site's folder: its pages are dropped first, so that they count against the program's memory, and its
    /// resident pages are reported
    #[arg(long, value_name = "FOLDER")]
    pub site: Option<PathBuf>,
    /// Which pages to drop from the page cache first; `machine` needs root and affects the whole machine
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Dropped::Site)]
    drop_pages: Dropped,
}

/// Which pages are dropped from the page cache.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dropped {
    None,
    Site,
    Machine,
}

const RATE_HINT: &str = "write a rate such as 20MiB/s or 17.7MB/s";

/// Added to a signal's number, as in shells.
const SIGNALLED: i32 = 128;

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.restore {
        for group in restore(&state()?).map_err(|reason| anyhow!(reason))? {
            eprintln!("removed {}", group.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some((program, arguments)) = options.command.split_first() else { bail!("no program given") };
    // From now on, a signal while the group is being created keeps the program from starting.
    let signals = Signals::new()?;
    let confinement = options.confinement.arrange()?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(confinement) = &confinement {
        confinement.enclose(&mut command).map_err(|reason| anyhow!(reason))?;
    }
    unblock_in(&mut command);
    if let Some(signal) = signals.earlier()? {
        return Ok(ExitCode::from((SIGNALLED + signal.as_raw()) as u8));
    }
    let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    let pid = Pid::from_child(&child);
    thread::spawn(move || forward(&signals, pid));
    Ok(ExitCode::from(code_of(child.wait()?) as u8))
}

impl ConfinementOptions {
    pub fn is_limited(&self) -> bool {
        self.memory_limit.is_some() || self.is_disk_limited() || self.cpu_limit.is_some()
    }

    fn is_disk_limited(&self) -> bool {
        self.disk_read_limit.is_some() || self.disk_iops_limit.is_some()
    }

    /// Drops pages and creates the group; `None` if nothing is limited.
    pub fn arrange(&self) -> anyhow::Result<Option<Confinement>> {
        if self.drop_pages == Dropped::Machine {
            site_pages::drop_all()?;
        }
        if let (Some(site), Dropped::Site) = (&self.site, self.drop_pages) {
            drop_site(site)?;
        }
        let mut limits = Limits {
            memory_bytes: self.memory_limit.map(|bytes| bytes as u64),
            disk: None,
            processors: self.cpu_limit,
        };
        if let Some(site) = self.site.as_ref().filter(|_| self.is_disk_limited()) {
            let disk = disk_under(site).map_err(|reason| anyhow!(reason))?;
            let (bytes_per_second, reads_per_second) = (self.disk_read_limit, self.disk_iops_limit);
            limits.disk = Some(DiskLimit { disk, bytes_per_second, reads_per_second });
        }
        if !self.is_limited() {
            return Ok(None);
        }
        let name = format!("sojourn-{}", std::process::id());
        let made = Confinement::new(&Hierarchies::here(), &state()?, &name, &limits);
        let made = made.map_err(|reason| anyhow!(reason))?;
        for group in made.groups() {
            eprintln!("confined in {}", group.display());
        }
        Ok(Some(made))
    }
}

fn drop_site(site: &Path) -> anyhow::Result<()> {
    let pages = SitePages::of(site)?;
    pages.drop_pages()?;
    let left = pages.measure()?.resident_bytes;
    if left > 0 {
        let (site, of) = (site.display(), pages.bytes());
        eprintln!(
            "{left} of {of} bytes of {site} remain in memory: a process maps them, or the file system is not on a disk"
        );
    }
    Ok(())
}

/// Forwards the signals that the program does not receive from the terminal, too: a server takes a second one as the
/// order to end at once.
fn forward(signals: &Signals, pid: Pid) {
    while let Ok((signal, is_terminal)) = signals.read() {
        if !is_terminal {
            // It may have ended already.
            let _ = kill_process(pid, signal);
        }
    }
}

fn state() -> anyhow::Result<PathBuf> {
    state_folder().map_err(|reason| anyhow!(reason))
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default())
}

/// Parses `0.25`.
fn processors(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "write a number of processors such as 0.25".to_owned())
}

/// Parses `20MiB/s`, or `20MB/s` as disks are sold.
fn rate(text: &str) -> Result<u64, String> {
    const DECIMAL_UNITS: [(&str, u64); 4] =
        [("kB", 1_000), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
    let bytes = text.strip_suffix("/s").ok_or(RATE_HINT)?;
    let decimal = DECIMAL_UNITS.iter().find_map(|(unit, factor)| Some((bytes.strip_suffix(unit)?, factor)));
    let Some((number, factor)) = decimal else {
        return size(bytes).map(|bytes| bytes as u64).map_err(|_| RATE_HINT.to_owned());
    };
    // Decimal rates are often fractions: 17.7MB/s.
    let number = number.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.map(|number| (number * *factor as f64).round() as u64).ok_or_else(|| RATE_HINT.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_binary_or_decimal_units() {
        for (text, expected) in [
            ("20MiB/s", 20 << 20),
            ("512B/s", 512),
            ("20MB/s", 20_000_000),
            ("17.7MB/s", 17_700_000),
            ("5kB/s", 5_000),
        ] {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in ["20MiB", "20MB", "-1MB/s", "MB/s", "NaNMB/s", "20Mbit/s", "17.7MiB/s", ""] {
            assert!(rate(text).unwrap_err().contains("17.7MB/s"), "{text}");
        }
    }
}
