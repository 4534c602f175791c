//! The access log.

use std::path::PathBuf;

use anyhow::anyhow;
use sojourn_server::{AccessLog, LogFormat, Scoreboard};

/// The access log's file and format.
#[derive(clap::Args)]
#[command(next_help_heading = "Access log")]
pub struct LogOptions {
    /// Append a line per request to this file; SIGUSR1 has it opened again, for logrotate
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// The lines' format: common, combined, combined-cache, squid, json, or Apache's directives, as in
    /// '%h %t "%r" %>s %b %D'
    #[arg(long, default_value = "combined", value_name = "FORMAT")]
    pub access_log_format: String,
}

impl LogOptions {
    /// The log, if there is to be one; it is opened again when that is asked for on `scoreboard`.
    pub fn open(&self, scoreboard: &Scoreboard) -> anyhow::Result<Option<AccessLog>> {
        let Some(path) = &self.access_log else { return Ok(None) };
        let format = LogFormat::parse(&self.access_log_format)?;
        let log = AccessLog::open(path, format, scoreboard).map_err(|error| {
            anyhow!("cannot write the access log {}: {error}\nhint: choose a file in a directory you may write to", path.display())
        })?;
        Ok(Some(log))
    }
}
