//! `sojourn-engine serve`: options to a site, signals to a stop, counters to JSON.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use rustix::net::sockopt::set_tcp_congestion;
use signal_hook::consts::{SIGINT, SIGTERM};
use sojourn_content::{Budgets, Directory, HelperKind, Residency, residency};
use sojourn_load::duration::{DurationError, parse};
use sojourn_measure::affinity::pin_to;
use sojourn_measure::limits::raise_descriptors;
use sojourn_server::connection::SendPath;
use sojourn_server::{ALL, AccessLog, Architecture, Limits, LogFormat, Site, Stop, admin, architecture};

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Descriptors that are neither connections nor documents: listeners, events, logs, helpers' own.
const DESCRIPTORS_RESERVED: u64 = 64;

/// What we ask for: the kernel's own default maximum.
const DESCRIPTORS_WANTED: u64 = 1 << 20;

/// Serve the files below a directory.
///
/// Prints `listening on ADDRESS` to stderr when ready. SIGTERM or SIGINT ends it: requests in
/// progress finish first, a second signal ends it at once.
///
/// Example: sojourn serve public --listen 127.0.0.1:8080 --architecture amped --helpers 4
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Options {
    /// The directory
    #[arg(value_name = "DIR")]
    root: PathBuf,
    /// Address and port; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR")]
    listen: String,
    /// How the server is organised
    #[arg(long, default_value = "amped", value_parser = architectures())]
    architecture: String,
    /// Congestion control of the connections, as in net.ipv4.tcp_available_congestion_control [default: the system's]
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Helpers that wait for the disk (amped)
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    helpers: u32,
    /// Helpers are threads, or processes as Flash had them (amped)
    #[arg(long, default_value = "threads", value_parser = helper_kinds())]
    helper_kind: String,
    /// Processes, threads or loops, where there are several [default: as the architecture's line says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Pin the server to this core
    #[arg(long, value_name = "CORE")]
    pin_core: Option<usize>,
    /// Append a line per request to this file
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// The lines' format
    #[arg(long, default_value = "combined", value_parser = ["common", "combined"])]
    access_log_format: String,
    /// Address and port of a second listener with GET /metrics
    #[arg(long, value_name = "ADDR")]
    admin_listen: Option<String>,
    /// Budget for open files by path
    #[arg(long, default_value = "16MiB", value_name = "SIZE", value_parser = size)]
    path_cache: usize,
    /// Budget for response fields
    #[arg(long, default_value = "8MiB", value_name = "SIZE", value_parser = size)]
    head_cache: usize,
    /// Budget for bodies, in chunks of 64 KiB [default: 128MiB, mp 4MiB each]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    body_cache: Option<usize>,
    /// Bodies up to this are copied behind their head and sent in one piece
    #[arg(long, default_value = "8KiB", value_name = "SIZE", value_parser = size)]
    copy_max: usize,
    /// Bodies up to this are kept in memory and gathered with their head; larger ones are sent from the page cache
    #[arg(long, default_value = "16KiB", value_name = "SIZE", value_parser = size)]
    memory_max: usize,
    /// Pad response heads to a multiple of 32 bytes, as Flash did for the copy of what follows
    #[arg(long)]
    align_heads: bool,
    /// Look at a file again when it is asked for this long after the last look
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    recheck_after: Duration,
    /// How to find out what is in memory (amped) [default: nowait]
    #[arg(long, value_name = "TEST", value_parser = residencies())]
    residency: Option<String>,
    /// Trust what that says about a large document for so long; 0s asks before every send, as Flash did (amped)
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = duration)]
    residency_trust: Duration,
    /// Connections open at once, more are answered 503 [default: 3/4 of the descriptors allowed]
    #[arg(long, value_name = "N")]
    connections_max: Option<usize>,
    /// How long a connection may be without a request
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    idle_timeout: Duration,
    /// How long a request head may take to arrive
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = duration)]
    head_timeout: Duration,
    /// How long a client may take no byte of its response
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    send_timeout: Duration,
    /// How long a client may take to close after its last response
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    end_timeout: Duration,
    /// How long requests in progress may take once a stop was requested
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    drain_timeout: Duration,
    /// Also serve files and directories whose names begin with a dot
    #[arg(long)]
    serve_hidden: bool,
    /// What to print at the end: nothing, or the counters as one JSON object
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
}

pub fn run(options: Options) -> anyhow::Result<ExitCode> {
    if let Some(core) = options.pin_core {
        // Before any thread starts: they inherit it.
        pin(core)?;
    }
    let origin = Directory::new(&options.root, options.serve_hidden)
        .map_err(|error| bad_root(&options.root, &error))?;
    let listener = listen(&options.listen)?;
    if let Some(name) = &options.congestion_control {
        // Accepted connections inherit it.
        set_tcp_congestion(&listener, name).map_err(|error| {
            anyhow!("cannot use congestion control {name}: {error}\nhint: try cubic or reno, which every kernel has")
        })?;
    }
    let address = listener.local_addr()?;
    let architecture = architecture::by_name(&options.architecture).context("no such architecture")?;
    architecture.available()?;
    let defaults = architecture.defaults();
    let mut site = Site::new(Arc::new(origin));
    site.helpers = options.helpers as usize;
    site.helper_kind = HelperKind::ALL
        .iter()
        .copied()
        .find(|kind| kind.name() == options.helper_kind)
        .context("no such helpers")?;
    site.workers = options.workers.map_or(defaults.workers, |workers| workers as usize);
    (site.budgets, site.limits) = options.limits(defaults.budgets, raise_descriptors(DESCRIPTORS_WANTED));
    site.send_path = SendPath {
        copied_bytes_max: options.copy_max as u64,
        memory_bytes_max: options.memory_max as u64,
        aligns_heads: options.align_heads,
    };
    site.residency = options.residency_test()?;
    site.residency_trust = options.residency_trust;
    site.log = options.open_log()?;
    let admin = options.admin_listen.as_deref().map(listen).transpose()?;
    let stop = Stop::on_signals(&[SIGTERM, SIGINT])?;
    let served = serve(architecture, &site, listener, address, admin, stop)?;
    if options.format == "json" {
        serde_json::to_writer(io::stdout(), &served)?;
        io::Write::write_all(&mut io::stdout(), b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(
    architecture: &dyn Architecture,
    site: &Site,
    listener: TcpListener,
    address: SocketAddr,
    admin: Option<TcpListener>,
    stop: &Stop,
) -> anyhow::Result<sojourn_server::Served> {
    std::thread::scope(|scope| {
        if let Some(admin) = &admin {
            eprintln!("metrics on http://{}/metrics", admin.local_addr()?);
            scope.spawn(move || admin::serve(site, admin, stop));
        }
        eprintln!("listening on {address}");
        let served = architecture.serve(site, listener, stop);
        // Also when it failed: the admin thread waits for it.
        stop.request();
        served.with_context(|| format!("the {} server failed", architecture.name()))
    })
}

impl Options {
    /// Budgets and limits that fit into so many descriptors: connections come first, documents get the rest.
    fn limits(&self, defaults: Budgets, descriptors: u64) -> (Budgets, Limits) {
        let usable = descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(2) as usize;
        let connections_max = self.connections_max.unwrap_or(usable / 4 * 3).clamp(1, usable - 1);
        let documents_max = defaults.documents_max.min(usable - connections_max);
        let budgets = Budgets {
            path_bytes: self.path_cache,
            head_bytes: self.head_cache,
            body_bytes: self.body_cache.unwrap_or(defaults.body_bytes),
            documents_max,
            recheck_after: self.recheck_after,
        };
        let limits = Limits {
            connections_max,
            idle: self.idle_timeout,
            head: self.head_timeout,
            send: self.send_timeout,
            end: self.end_timeout,
            drain: self.drain_timeout,
            ..Limits::default()
        };
        (budgets, limits)
    }

    /// The test asked for, or the default. One that cannot tell is refused if it was asked for; as the default
    /// it is no worse than none, so then the server says so and goes on.
    fn residency_test(&self) -> anyhow::Result<&'static dyn Residency> {
        let test = match &self.residency {
            Some(name) => residency::by_name(name).context("no such residency test")?,
            None => residency::ALL[0],
        };
        match residency::probe(test, &self.root) {
            Err(error) if self.residency.is_some() => bail!("{error}\nhint: {}", error.hint()),
            Err(error) => eprintln!("warning: {error}: what is not cached is sent by way of a helper"),
            Ok(()) => {}
        }
        Ok(test)
    }

    fn open_log(&self) -> anyhow::Result<Option<AccessLog>> {
        let Some(path) = &self.access_log else { return Ok(None) };
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
            anyhow!("cannot write the access log {}: {error}\nhint: choose a file in a directory you may write to", path.display())
        })?;
        let format = if self.access_log_format == "common" { LogFormat::Common } else { LogFormat::Combined };
        Ok(Some(AccessLog::new(file, format)))
    }
}

fn listen(address: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "another program listens there: stop it, or take a free port with port 0",
            ErrorKind::PermissionDenied => "ports below 1024 need a privilege: take a higher one",
            ErrorKind::AddrNotAvailable => {
                "no interface of this machine has that address; 127.0.0.1 always works"
            }
            _ => "an address looks like 127.0.0.1:8080 or [::1]:8080",
        };
        anyhow!("cannot listen on {address}: {error}\nhint: {hint}")
    })?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn bad_root(root: &Path, error: &io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::NotFound => "check the path, or create the directory",
        ErrorKind::NotADirectory => "give the directory that holds the file",
        ErrorKind::PermissionDenied => "the user who runs the server must be allowed to read and enter it",
        _ => "check the path and the file system",
    };
    anyhow!("cannot serve {}: {error}\nhint: {hint}", root.display())
}

fn pin(core: usize) -> anyhow::Result<()> {
    pin_to(core).map_err(|error| {
        anyhow!("cannot pin to core {core}: {error}\nhint: choose one of those, or leave --pin-core out")
    })
}

fn architectures() -> clap::builder::PossibleValuesParser {
    ALL.iter()
        .map(|row| clap::builder::PossibleValue::new(row.name()).help(row.summary()))
        .collect::<Vec<_>>()
        .into()
}

fn helper_kinds() -> clap::builder::PossibleValuesParser {
    HelperKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().into()
}

fn residencies() -> clap::builder::PossibleValuesParser {
    residency::ALL
        .iter()
        .map(|row| clap::builder::PossibleValue::new(row.name()).help(row.summary()))
        .collect::<Vec<_>>()
        .into()
}

/// `64KiB`, `128MiB`, `1GiB`, or plain bytes.
fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        unit => return Err(format!("unknown unit {unit:?}: use B, KiB, MiB or GiB")),
    };
    let number: usize = digits.parse().map_err(|_| "a size looks like 128MiB".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// `60s`, `500ms`, `2m`, as for load.
fn duration(text: &str) -> Result<Duration, DurationError> {
    parse(text).map(|time| Duration::from_nanos(time.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("64KiB"), Ok(65536));
        assert_eq!(size("7"), Ok(7));
        assert!(size("7kb").is_err() && size("KiB").is_err() && size("99999999999GiB").is_err());
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("7").is_err() && duration("-1s").is_err());
    }
}
