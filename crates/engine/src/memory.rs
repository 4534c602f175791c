//! `sojourn-engine memory`: measures memory bandwidth and prints one JSON object. `sojourn memory` chooses the grid and
//! draws the results.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use sojourn_load::duration;
use sojourn_measure::caches::{self, Cache};
use sojourn_measure::machine::Machine;
use sojourn_measure::memory::{self, HugePages, Kernel, Memory, Sweep};
use sojourn_measure::{Nanos, Reading, affinity};

use crate::json;
use crate::load::generator::interrupt_flag;

/// Measure memory bandwidth over working sets and strides by extended copy transfer.
#[derive(Args)]
pub struct Options {
    /// The operation on each word.
    #[arg(long, value_delimiter = ',', value_parser = kernel, default_value = "load-sum")]
    kernels: Vec<Kernel>,
    /// Bytes that each core walks.
    #[arg(long, value_delimiter = ',', required = true)]
    working_sets: Vec<usize>,
    /// Strides: words of 8 bytes from one access to the next.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    strides: Vec<usize>,
    /// The numbers of cores working at the same time, in ascending order from --core on.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    cores: Vec<usize>,
    /// The first core [default: the last usable one].
    #[arg(long)]
    core: Option<usize>,
    /// Whether to use huge pages.
    #[arg(long, value_delimiter = ',', value_parser = huge_pages, default_value = "off")]
    huge_pages: Vec<HugePages>,
    /// Also chase pointers, for the latency of a load.
    #[arg(long)]
    latency: bool,
    /// The number of measurements per point.
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// The duration of a measurement.
    #[arg(long, default_value = "10ms", value_parser = duration::parse)]
    measure: Nanos,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The only format.
    #[arg(long, value_parser = ["json"], default_value = "json")]
    format: String,
    /// Print progress on stderr, a JSON object per line.
    #[arg(long)]
    progress: bool,
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let order = order_of_cores(options.core)?;
    let sweep = Sweep {
        kernels: options.kernels.clone(),
        working_sets: options.working_sets.clone(),
        strides: options.strides.clone(),
        teams: teams(&order, &options.cores)?,
        huge_pages: options.huge_pages.clone(),
        latency: options.latency,
        repetitions: options.repetitions,
        about: options.measure.into(),
        seed: options.seed,
    };
    let interrupted = interrupt_flag()?;
    let mut said = 0;
    let memory = memory::run(&sweep, |progress| {
        let hundredths = 100 * progress.done / progress.total;
        if options.progress && hundredths > said {
            said = hundredths;
            eprintln!("{{\"progress\":{}}}", progress.done as f64 / progress.total as f64);
        }
        !interrupted.load(Ordering::Relaxed)
    })?;
    let complete = memory.complete;
    let result = MemoryRecord {
        tool: "memory",
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::describe(),
        seed: options.seed,
        word_bytes: memory::WORD_BYTES,
        caches: caches::of_core(order[0]),
        memory,
    };
    json::write_line(&mut io::stdout(), &result)?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The one object that is printed.
#[derive(Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct MemoryRecord {
    tool: &'static str,
    version: &'static str,
    machine: Machine,
    seed: u64,
    word_bytes: usize,
    caches: Reading<Vec<Cache>>,
    #[serde(flatten)]
    memory: Memory,
}

/// The cores in the order in which they are added, last one first, because the kernel uses that least.
fn order_of_cores(first: Option<usize>) -> anyhow::Result<Vec<usize>> {
    let mut cores = affinity::allowed_cores()?;
    cores.reverse();
    if let Some(first) = first {
        let place = cores.iter().position(|&core| core == first);
        let place = place.with_context(|| format!("core {first} is not among {cores:?}"))?;
        cores.rotate_left(place);
    }
    Ok(cores)
}

fn teams(order: &[usize], counts: &[usize]) -> anyhow::Result<Vec<Vec<usize>>> {
    let team = |&count: &usize| {
        let members = order.get(..count).filter(|members| !members.is_empty());
        let usable = order.len();
        members
            .map(<[usize]>::to_vec)
            .with_context(|| format!("{count} cores are more than the {usable} available"))
    };
    counts.iter().map(team).collect()
}

fn kernel(text: &str) -> Result<Kernel, String> {
    let names = Kernel::ALL.map(Kernel::name).join(", ");
    let found = Kernel::ALL.into_iter().find(|kernel| kernel.name() == text);
    found.ok_or_else(|| format!("unknown kernel: use {names}"))
}

fn huge_pages(text: &str) -> Result<HugePages, String> {
    match text {
        "off" => Ok(HugePages::Off),
        "on" => Ok(HugePages::On),
        _ => Err("use on or off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn teams_grow_along_the_order() {
        assert_eq!(teams(&[3, 2, 1], &[1, 3]).unwrap(), [vec![3], vec![3, 2, 1]]);
        assert!(teams(&[3], &[2]).unwrap_err().to_string().contains("2 cores are more than the 1 available"));
        assert!(teams(&[3], &[0]).is_err());
    }

    #[test]
    fn names_are_those_of_the_table() {
        assert_eq!(kernel("copy-block"), Ok(Kernel::CopyBlock));
        assert!(kernel("memcpy").unwrap_err().contains("load-sum"));
    }
}
