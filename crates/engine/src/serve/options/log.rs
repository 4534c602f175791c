//! The access log.

use std::path::PathBuf;

/// Whether requests are logged, and how.
#[derive(clap::Args)]
#[command(next_help_heading = "Access log")]
pub struct LogOptions {
    /// Append a line per request to this file; SIGUSR1 has it opened again, for logrotate
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// The lines' format: common, combined, json, or Apache's directives, as in '%h %t "%r" %>s %b %D'
    #[arg(long, default_value = "combined", value_name = "FORMAT")]
    pub access_log_format: String,
}
