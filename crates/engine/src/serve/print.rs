//! `--print-config` of `serve` and `proxy`: the effective configuration as a file that gives the same server, with
//! remarks on what this system supports.

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use sojourn_server::{Architecture, Site, architecture, kernel_tls_available, sandbox};
use toml::Value;

use super::config::effective;

/// `words` is the command line including its configuration file; `chosen` are values that the command chose itself.
pub fn print(
    architecture: &dyn Architecture,
    chosen: &[(&'static str, Value)],
    site: &Site,
    command: &clap::Command,
    words: &[OsString],
) -> anyhow::Result<()> {
    let mut chosen = chosen.to_vec();
    chosen.push(("connections-max", Value::from(site.limits.connections_max as i64)));
    chosen.push(("head-timeout", Value::from(in_seconds(site.limits.head))));
    chosen.push(("memory-limit", Value::from(site.limits.memory_limit.min(i64::MAX as u64) as i64)));
    if architecture.defaults().workers.is_some() {
        chosen.push(("workers", Value::from(site.workers as i64)));
    }
    let text = effective(command, words, &chosen).context("the configuration is not UTF-8")?;
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    for (what, found) in found() {
        writeln!(
            out,
            "# {what}: {}",
            found.map_or_else(|error| format!("no ({error})"), |()| "yes".to_owned())
        )?;
    }
    Ok(())
}

fn in_seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

/// The tested features and their results.
fn found() -> Vec<(&'static str, Result<(), String>)> {
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let uring = architecture::by_name("uring").map_or(Ok(()), Architecture::available);
    let cached = openat2(CWD, ".", OFlags::PATH, Mode::empty(), ResolveFlags::CACHED).map(drop);
    let mut found = vec![
        ("io_uring", uring.map_err(|error| first_line(error.to_string()))),
        ("openat2", cached.map_err(|error| error.to_string())),
        ("kTLS", kernel_tls_available().map_err(|error| error.to_string())),
    ];
    found.extend(sandbox::offered());
    found
}
