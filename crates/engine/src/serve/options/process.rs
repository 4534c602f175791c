//! The server as a process.

/// The user the server runs as.
#[derive(clap::Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessOptions {
    /// Switch to this user permanently once sockets are bound and files are open; requires a start as root
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub user: Option<String>,
}
