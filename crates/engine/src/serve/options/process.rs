//! The server's process: its user, its sandbox, and its access log.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use anyhow::anyhow;
use sojourn_server::{AccessLog, LinePipe, LogFormat, Scoreboard};

/// The user the server runs as.
#[derive(clap::Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessOptions {
    /// Switch to this user permanently once sockets are bound and files are open; requires a start as root
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub user: Option<String>,
    /// Confine the server once it has started, with Landlock, seccomp and without root's privileges: as far as this
    /// kernel can (on), only completely (required), or not at all (off)
    #[arg(long, default_value = "on", value_name = "WHEN", value_parser = ["on", "required", "off"])]
    pub sandbox: String,
}

/// The access log's file and format.
#[derive(clap::Args)]
#[command(next_help_heading = "Access log")]
pub struct LogOptions {
    /// Append a line per request to this file; SIGUSR1 reopens it, for logrotate
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// The format of log lines: common, combined, combined-cache, squid, json, or Apache directives such as '%h %t "%r"
    /// %>s %b %D'
    #[arg(long, default_value = "combined", value_name = "FORMAT")]
    pub access_log_format: String,
}

impl LogOptions {
    /// Opens the log, if there is one; reopening is requested on `scoreboard`.
    pub fn open(&self, scoreboard: &Scoreboard) -> anyhow::Result<Option<AccessLog>> {
        let Some(path) = &self.access_log else { return Ok(None) };
        let format = LogFormat::parse(&self.access_log_format)?;
        let log = AccessLog::open(path, format, scoreboard).map_err(|error| {
            anyhow!("cannot write the access log {}: {error}\nhint: choose a file in a directory that you may write to", path.display())
        })?;
        Ok(Some(log))
    }

    /// The log whose lines go to the server through an inherited pipe. The file is not opened: that may take as long as
    /// its file system likes.
    pub fn through(&self, pipe: RawFd) -> anyhow::Result<AccessLog> {
        let format = LogFormat::parse(&self.access_log_format)?;
        // SAFETY: the server that executed this program passed on the descriptor.
        let pipe = LinePipe::inherited(unsafe { OwnedFd::from_raw_fd(pipe) });
        Ok(AccessLog::of_pipe(pipe, format))
    }
}
