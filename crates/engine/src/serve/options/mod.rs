//! The options of `serve`: one table for the command line, the help and the configuration file, in groups.
//!
//! A group is a file here with what belongs together; a new option goes into the group that it is about.

use std::path::PathBuf;

mod cache;
pub mod content;
pub mod content_values;
pub mod limit;
pub mod listen;
pub mod log;
mod organisation;
pub mod process;
pub mod route;
pub mod routes;
pub mod tls;
pub mod upstream;
pub mod values;

use cache::CacheOptions;
use content::{ContentOptions, HostOptions};
use limit::LimitOptions;
use listen::ListenOptions;
use log::LogOptions;
use organisation::OrganisationOptions;
use process::ProcessOptions;
use routes::RouteOptions;
use tls::TlsOptions;
use upstream::UpstreamOptions;

/// Serve the files below a directory.
///
/// Prints `listening on ADDRESS` to stderr when ready. SIGTERM or SIGINT drains: requests in progress finish, a second
/// signal ends the server at once. SIGUSR1 reopens the access log. SIGHUP starts a new process, with the program and the
/// configuration as they are then, and drains the old one.
#[derive(clap::Args)]
#[command(
    after_help = "Example: sojourn serve public --listen 127.0.0.1:8080 --architecture amped --helpers 4"
)]
pub struct Options {
    /// The directory
    #[arg(value_name = "DIR")]
    pub root: PathBuf,
    /// Take options from this TOML file: keys are the long options without dashes, and root for DIR; those on
    /// the command line win
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the configuration as it comes out, defaults and all, as a file for --config, and what this system offers
    #[arg(long)]
    pub print_config: bool,
    /// Serve the one connection that is standard input, as under inetd, and end with it
    #[arg(long)]
    pub stdio: bool,
    /// Serve the one connection that is standard input, as --stdio does, over TLS
    #[arg(long, conflicts_with = "stdio")]
    pub stdio_tls: bool,
    /// Count on this scoreboard, inherited from the server: its descriptor and a place
    #[arg(long, hide = true, value_name = "FD:PLACE", value_parser = values::counters)]
    pub counters: Option<(i32, usize)>,
    /// Keys of session tickets, inherited from the server: their descriptor
    #[arg(long, hide = true, value_name = "FD")]
    pub tickets: Option<i32>,
    /// What to print at the end: nothing, or the counters as one JSON object
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
    #[command(flatten)]
    pub listening: ListenOptions,
    #[command(flatten)]
    pub tls: TlsOptions,
    #[command(flatten)]
    pub content: ContentOptions,
    #[command(flatten)]
    pub hosts: HostsOptions,
    #[command(flatten)]
    pub routes: RouteOptions,
    #[command(flatten)]
    pub upstreams: UpstreamOptions,
    #[command(flatten)]
    pub organisation: OrganisationOptions,
    #[command(flatten)]
    pub caching: CacheOptions,
    #[command(flatten)]
    pub limits: LimitOptions,
    #[command(flatten)]
    pub log: LogOptions,
    #[command(flatten)]
    pub process: ProcessOptions,
}

/// Several hosts.
#[derive(clap::Args)]
#[command(next_help_heading = "Hosts")]
pub struct HostsOptions {
    /// Serve these names from a directory of their own; in a file also as tables, [[host]] with names, root and
    /// whatever is to be different there; repeatable
    #[arg(long, value_name = "NAME,NAME=DIR", value_parser = content_values::host)]
    pub host: Vec<HostOptions>,
    /// A name under which DIR is served; repeatable
    #[arg(long, value_name = "NAME", value_parser = content_values::host_name)]
    pub name: Vec<String>,
    /// What becomes of requests for other names: DIR answers, or they are refused with 421
    #[arg(long, default_value = "serve", value_name = "WHAT", value_parser = ["serve", "refuse"])]
    pub unknown_host: String,
}
