//! The server as a process.

/// The user the server runs as.
#[derive(clap::Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessOptions {
    /// Switch to this user permanently once sockets are bound and files are open; requires a start as root
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub user: Option<String>,
    /// Once started, the server opens no files but those that it needs, makes no system calls but a server's, and gives up
    /// root's privileges but those of reading and writing files: as far as the kernel can (on), or not at all without
    /// (required)
    #[arg(long, default_value = "on", value_name = "WHEN", value_parser = ["on", "required", "off"])]
    pub sandbox: String,
}
