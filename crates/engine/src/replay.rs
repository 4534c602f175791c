//! `sojourn-engine replay`.

use std::process::ExitCode;

/// Options of `replay`.
#[derive(clap::Args)]
pub struct Options {}

pub fn run(_options: Options) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
