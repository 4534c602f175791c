//! The options of `proxy`; groups shared with `serve` are defined there.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use sojourn_server::ALL;
use sojourn_server::handler::reverse_proxy::UpstreamUrl;

use super::cache::CacheOptions;
use super::fastcgi::FastCgiOptions;
use super::forward::ForwardOptions;
use super::hosts::HostsOptions;
use crate::serve::options::limit::LimitOptions;
use crate::serve::options::listen::{ListenOptions, TlsOptions};
use crate::serve::options::process::{LogOptions, ProcessOptions};
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
    /// Read options from this TOML file: keys are the long options without dashes; the command line takes precedence
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the effective configuration, including defaults, as a file for --config, with remarks on what this system
    /// supports
    #[arg(long)]
    pub print_config: bool,
    /// The server architecture
    #[arg(long, default_value = "amped", value_parser = architectures())]
    pub architecture: String,
    /// Loops, threads or processes [default: one per core (ncopy, uring), 64 (mt), 32 (mp), 16 (helper), 5 (standard)]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Pin the server to this core
    #[arg(long, value_name = "CORE")]
    pub pin_core: Option<usize>,
    /// The proxy's name in Via, by which it detects forwarding loops; must be unique among the proxies on a path
    /// [default: sojourn- and a random number]
    #[arg(long = "via", value_name = "NAME", value_parser = pseudonym)]
    pub pseudonym: Option<String>,
    /// Print nothing at the end, or the counters as one JSON object
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
    /// An upstream server: http://HOST[:PORT], https://HOST[:PORT] or fcgi://HOST[:PORT] (FastCGI); on this machine
    /// also http://unix:SOCKET or fcgi://unix:SOCKET; optionally with a weight; repeatable for several servers with the
    /// same content
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

/// Parses a token (RFC 9110, 7.6.3).
fn pseudonym(text: &str) -> Result<String, String> {
    let is_token = !text.is_empty() && text.bytes().all(sojourn_http::token::is_token);
    if is_token {
        Ok(text.to_owned())
    } else {
        Err("a name consists of letters, digits and - . _".to_owned())
    }
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
