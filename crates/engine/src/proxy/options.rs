//! The options of `proxy`; those that it shares with `serve` are the same groups.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use sojourn_server::ALL;
use sojourn_server::handler::reverse_proxy::UpstreamUrl;

use super::cache::CacheOptions;
use super::fastcgi::FastCgiOptions;
use super::forward::ForwardOptions;
use super::hosts::HostsOptions;
use crate::serve::options::limit::LimitOptions;
use crate::serve::options::listen::ListenOptions;
use crate::serve::options::log::LogOptions;
use crate::serve::options::process::ProcessOptions;
use crate::serve::options::tls::TlsOptions;
use crate::serve::options::upstream::{UpstreamOptions, upstream};

/// Proxy requests to other servers, and cache their responses.
///
/// With --upstream it is a reverse proxy of your servers; with --forward clients name the target.
///
/// Prints `listening on ADDRESS` to stderr when ready. SIGTERM or SIGINT drains: requests in progress finish, a second
/// signal ends the server at once. SIGUSR1 reopens the access log. SIGHUP starts a new process, with the program and the
/// configuration as they are then, and drains the old one.
#[derive(clap::Args)]
#[command(after_help = "Example: sojourn proxy --listen 127.0.0.1:8080 --upstream http://127.0.0.1:9000")]
pub struct Options {
    /// Take options from this TOML file: keys are the long options without dashes; those on the command line win
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the configuration as it comes out, defaults and all, as a file for --config, and what this system offers
    #[arg(long)]
    pub print_config: bool,
    /// How the server is organised
    #[arg(long, default_value = "amped", value_parser = architectures())]
    pub architecture: String,
    /// Loops, threads or processes [default: one per core (ncopy, uring), 64 (mt), 32 (mp), 16 (helper), 5 (standard)]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Pin the server to this core
    #[arg(long, value_name = "CORE")]
    pub pin_core: Option<usize>,
    /// What the proxy calls itself in Via, by which it knows requests that come back to it; unlike every other proxy's
    /// on the way [default: sojourn- and a random number]
    #[arg(long = "via", value_name = "NAME", value_parser = pseudonym)]
    pub pseudonym: Option<String>,
    /// What to print at the end: nothing, or the counters as one JSON object
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
    /// A server that requests are passed on to, http://HOST[:PORT], https://HOST[:PORT] or fcgi://HOST[:PORT] (FastCGI), on
    /// this machine also http://unix:SOCKET or fcgi://unix:SOCKET, and perhaps its share compared with the others'; several
    /// have the same content
    #[arg(long, required_unless_present_any = ["forward", "host"], value_name = "URL[,weight=N]", value_parser = upstream, help_heading = "Upstreams")]
    pub upstream: Vec<UpstreamUrl>,
    #[command(flatten)]
    pub upstreams: UpstreamOptions,
    #[command(flatten)]
    pub fastcgi: FastCgiOptions,
    #[command(flatten)]
    pub hosts: HostsOptions,
    #[command(flatten)]
    pub forward: ForwardOptions,
    #[command(flatten)]
    pub cache: CacheOptions,
    #[command(flatten)]
    pub listening: ListenOptions,
    #[command(flatten)]
    pub tls: TlsOptions,
    #[command(flatten)]
    pub limits: LimitOptions,
    #[command(flatten)]
    pub log: LogOptions,
    #[command(flatten)]
    pub process: ProcessOptions,
}

fn architectures() -> PossibleValuesParser {
    ALL.iter().map(|row| PossibleValue::new(row.name()).help(row.summary())).collect::<Vec<_>>().into()
}

/// A token (RFC 9110, 7.6.3).
fn pseudonym(text: &str) -> Result<String, String> {
    let is_token = !text.is_empty() && text.bytes().all(sojourn_http::token::is_token);
    if is_token { Ok(text.to_owned()) } else { Err("a name has letters, digits and - . _ only".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudonyms_are_tokens() {
        assert!(pseudonym("edge-1").is_ok());
        assert!(pseudonym("").is_err() && pseudonym("a b").is_err() && pseudonym("a,b").is_err());
    }
}
