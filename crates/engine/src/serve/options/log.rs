//! The access log.

use std::path::PathBuf;

/// Whether requests are logged, and how.
#[derive(clap::Args)]
#[command(next_help_heading = "Access log")]
pub struct LogOptions {
    /// Append a line per request to this file
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// The lines' format
    #[arg(long, default_value = "combined", value_parser = ["common", "combined"])]
    pub access_log_format: String,
}
