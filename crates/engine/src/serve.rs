//! `sojourn-engine serve`.

use std::process::ExitCode;

/// Options of `serve`.
#[derive(clap::Args)]
pub struct Options {}

pub fn run(_options: Options) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
