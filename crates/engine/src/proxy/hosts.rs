//! Several virtual hosts behind one proxy, each with its own upstreams.

use std::ops::Range;

use anyhow::{anyhow, ensure};
use clap::Parser;
use sojourn_server::handler::reverse_proxy::UpstreamUrl;
use sojourn_server::{Host, Hosts, Pages, UnknownHosts};

use crate::serve::config::{first_line, words_of_table};
use crate::serve::options::content_values::host_name;
use crate::serve::options::upstream::upstream;

/// Virtual hosts and their upstreams.
#[derive(clap::Args)]
#[command(next_help_heading = "Hosts")]
pub struct HostsOptions {
    /// Forward requests for these host names to their own upstream; in a configuration file also as [[host]] tables
    /// with names and upstream (one or several); repeatable
    #[arg(long, value_name = "NAME,NAME=URL", value_parser = host, conflicts_with = "forward")]
    pub host: Vec<HostUpstreams>,
    /// Requests for other names: use --upstream, or refuse with 421, which is also the behaviour without --upstream
    #[arg(long, default_value = "serve", value_name = "WHAT", value_parser = ["serve", "refuse"])]
    pub unknown_host: String,
}

/// A host with upstreams of its own: `NAME,NAME=URL`, or a table as in the configuration file.
#[derive(Parser, Clone, Debug)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct HostUpstreams {
    /// Its names
    #[arg(long, value_name = "NAME", value_parser = host_name, required = true)]
    pub names: Vec<String>,
    /// Servers of its content
    #[arg(long, value_name = "URL", value_parser = upstream, required = true)]
    pub upstream: Vec<UpstreamUrl>,
}

impl HostsOptions {
    /// The host table, and the range of upstreams of each host. The first entry is for all other names and uses
    /// `general`.
    pub fn table(&self, general: &[UpstreamUrl]) -> anyhow::Result<(Hosts, Vec<Range<usize>>)> {
        let refuses = self.unknown_host == "refuse";
        ensure!(
            !(refuses && self.host.is_empty()),
            "every host would be refused\nhint: add hosts with --host, or leave out --unknown-host"
        );
        ensure!(
            !refuses || general.is_empty(),
            "--upstream would get no requests\nhint: leave out --upstream or --unknown-host refuse"
        );
        let others = if general.is_empty() && !self.host.is_empty() {
            UnknownHosts::Refused
        } else {
            UnknownHosts::First
        };
        let (mut hosts, mut ranges) = (Vec::new(), Vec::new());
        let mut add = |names: &[String], upstreams: usize| {
            hosts.push(Host { names: names.to_vec(), pages: Pages::default() });
            let start = ranges.last().map_or(0, |range: &Range<usize>| range.end);
            ranges.push(start..start + upstreams);
        };
        add(&[], general.len());
        for HostUpstreams { names, upstream } in &self.host {
            add(names, upstream.len());
        }
        let hosts = Hosts::new(hosts, others)
            .map_err(|error| anyhow!("{error}\nhint: use each name once in --host"))?;
        Ok((hosts, ranges))
    }
}

fn host(text: &str) -> Result<HostUpstreams, String> {
    if text.starts_with('{') {
        let words = words_of_table(text, &<HostUpstreams as clap::CommandFactory>::command())?;
        return HostUpstreams::try_parse_from(words).map_err(|error| first_line(&error));
    }
    let (names, url) =
        text.split_once('=').ok_or("expected NAME=URL, as in www.example.org=http://127.0.0.1:9000")?;
    let names = names.split(',').map(host_name).collect::<Result<_, _>>()?;
    let upstream = upstream(url).map_err(|error| error.to_string())?;
    Ok(HostUpstreams { names, upstream: vec![upstream] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let short = host("a.example,*.b.example=http://127.0.0.1:9000,weight=2").unwrap();
        assert_eq!((short.names.len(), short.upstream[0].weight), (2, 2));
        let long = host("{ names = [\"a\"], upstream = [\"http://h\", \"https://i\"] }").unwrap();
        let table = HostsOptions { host: vec![short, long], unknown_host: "serve".to_owned() };
        let (names, ranges) = table.table(&[]).unwrap();
        assert_eq!(ranges, [0..0, 0..1, 1..3]);
        let find = |name: &str| names.find(Some(name.as_bytes())).map(|id| id.0);
        assert_eq!((find("x.b.example:80"), find("A"), find("c")), (Some(1), Some(2), None));
        for (bad, said) in [
            ("a.example", "expected NAME=URL"),
            ("a:80=http://h", "not a host name"),
            ("a=h", "write an upstream as"),
            ("{ upstream = [\"http://h\"] }", "--names"),
            ("{ names = [\"a\"] }", "--upstream"),
            ("{ names = [\"a\"], upstream = \"http://h\", root = \"x\" }", "root"),
        ] {
            let error = host(bad).unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{bad}: {error}");
        }
    }
}
