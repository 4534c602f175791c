//! Options of the server's process.

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
