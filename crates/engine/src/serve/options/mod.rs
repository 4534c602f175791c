//! The options of `serve`: one table for the command line, the help and the configuration file, in groups.
//!
//! A group is a file here with what belongs together; a new option goes into the group that it is about.

use std::path::PathBuf;

pub mod bucket;
mod cache;
pub mod content;
pub mod content_values;
pub mod limit;
pub mod listen;
mod organisation;
pub mod origin;
pub mod process;
pub mod route;
pub mod routes;
pub mod upstream;
pub mod values;

use cache::CacheOptions;
use content::{ContentOptions, HostOptions};
use limit::LimitOptions;
use listen::{ListenOptions, TlsOptions};
use organisation::OrganisationOptions;
use origin::OriginOptions;
use process::{LogOptions, ProcessOptions};
use routes::RouteOptions;
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
    /// The directory, or a remote origin: s3://BUCKET[/PREFIX], nfs://HOST/PATH, http://HOST[:PORT][/PATH] or https
    #[arg(value_name = "DIR")]
    pub root: PathBuf,
    /// Read options from this TOML file: keys are the long options without dashes, and root for DIR; the command line
    /// takes precedence
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the effective configuration, including defaults, as a file for --config, with remarks on what this system
    /// supports
    #[arg(long)]
    pub print_config: bool,
    /// Serve the single connection on standard input, as under inetd, and exit when it ends
    #[arg(long)]
    pub stdio: bool,
    /// Serve the single connection on standard input over TLS
    #[arg(long, conflicts_with = "stdio")]
    pub stdio_tls: bool,
    /// Publish counters on this scoreboard inherited from the server: its descriptor and a slot
    #[arg(long, hide = true, value_name = "FD:PLACE", value_parser = values::counters)]
    pub counters: Option<(i32, usize)>,
    /// Session ticket keys inherited from the server: their descriptor
    #[arg(long, hide = true, value_name = "FD")]
    pub tickets: Option<i32>,
    /// Send log lines to the server through this pipe instead of writing the access log: its descriptor
    #[arg(long, hide = true, value_name = "FD")]
    pub log_pipe: Option<i32>,
    /// Print nothing at the end, or the counters as one JSON object
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
    pub origin: OriginOptions,
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

/// Virtual hosts.
#[derive(clap::Args)]
#[command(next_help_heading = "Hosts")]
pub struct HostsOptions {
    /// Serve these host names from their own directory or remote origin; in a configuration file also as [[host]] tables with names,
    /// root and any options that differ; repeatable
    #[arg(long, value_name = "NAME,NAME=DIR", value_parser = content::host)]
    pub host: Vec<HostOptions>,
    /// A host name under which DIR is served; repeatable
    #[arg(long, value_name = "NAME", value_parser = content_values::host_name)]
    pub name: Vec<String>,
    /// Requests for other names: serve DIR, or refuse with 421
    #[arg(long, default_value = "serve", value_name = "WHAT", value_parser = ["serve", "refuse"])]
    pub unknown_host: String,
}
