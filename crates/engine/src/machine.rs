//! `sojourn-engine machine`: a description of the machine as one JSON object; every result holds the same.

use std::io;
use std::process::ExitCode;

use clap::Args;
use sojourn_measure::machine::Machine;

use crate::json;

/// Describe the machine: processor, caches, kernel and its settings.
#[derive(Args)]
pub struct Options {
    /// The only format.
    #[arg(long, value_parser = ["json"], default_value = "json")]
    format: String,
}

pub fn run(_: &Options) -> anyhow::Result<ExitCode> {
    json::write_line(&mut io::stdout(), &Machine::describe())?;
    Ok(ExitCode::SUCCESS)
}
