//! The options of `serve`: one table for the command line, the help and the configuration file.

use std::path::PathBuf;
use std::time::Duration;

use sojourn_content::{HelperKind, residency};
use sojourn_load::duration::{DurationError, parse};
use sojourn_server::ALL;

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
    pub root: PathBuf,
    /// Take options from this TOML file: keys are the long options without dashes, and root for DIR; those on
    /// the command line win
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve the one connection that is standard input, as under inetd, and end with it
    #[arg(long)]
    pub stdio: bool,
    /// Count on this board, inherited from the server: its descriptor and a place
    #[arg(long, hide = true, value_name = "FD:PLACE", value_parser = counters)]
    pub counters: Option<(i32, usize)>,
    /// Address and port; port 0 takes a free one; under socket activation it is the socket that is passed
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub listen: String,
    /// How the server is organised
    #[arg(long, default_value = "amped", value_parser = architectures())]
    pub architecture: String,
    /// Congestion control of the connections, as in net.ipv4.tcp_available_congestion_control [default: the system's]
    #[arg(long, value_name = "NAME")]
    pub congestion_control: Option<String>,
    /// Accept a connection when its first bytes are there, or after about this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub defer_accept: Option<Duration>,
    /// Helpers that wait for the disk (amped; ncopy, for each copy)
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub helpers: u32,
    /// Helpers are threads, or processes as Flash had them (amped, ncopy)
    #[arg(long, default_value = "threads", value_parser = helper_kinds())]
    pub helper_kind: String,
    /// Processes, threads or loops, where there are several [default: as the architecture's line says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Pin the server to this core
    #[arg(long, value_name = "CORE")]
    pub pin_core: Option<usize>,
    /// Append a line per request to this file
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// The lines' format
    #[arg(long, default_value = "combined", value_parser = ["common", "combined"])]
    pub access_log_format: String,
    /// Address and port of a second listener with GET /metrics
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<String>,
    /// Budget for open files by path
    #[arg(long, default_value = "16MiB", value_name = "SIZE", value_parser = size)]
    pub path_cache: usize,
    /// Budget for response fields
    #[arg(long, default_value = "8MiB", value_name = "SIZE", value_parser = size)]
    pub head_cache: usize,
    /// Budget for bodies, in chunks of 64 KiB [default: 128MiB, mp 4MiB each]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub body_cache: Option<usize>,
    /// Bodies up to this are copied behind their head and sent in one piece
    #[arg(long, default_value = "8KiB", value_name = "SIZE", value_parser = size)]
    pub copy_max: usize,
    /// Bodies up to this are kept in memory and gathered with their head; larger ones are sent from the page cache
    #[arg(long, default_value = "16KiB", value_name = "SIZE", value_parser = size)]
    pub memory_max: usize,
    /// Pad response heads to a multiple of 32 bytes, as Flash did for the copy of what follows
    #[arg(long)]
    pub align_heads: bool,
    /// Look at a file again when it is asked for this long after the last look
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub recheck_after: Duration,
    /// How to find out what is in memory (amped, amped-nowait, ncopy) [default: nowait]
    #[arg(long, value_name = "TEST", value_parser = residencies())]
    pub residency: Option<String>,
    /// Trust what that says about a large document for so long; 0s asks before every send, as Flash did
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = duration)]
    pub residency_trust: Duration,
    /// Connections open at once, more are answered 503 [default: 3/4 of the descriptors allowed]
    #[arg(long, value_name = "N")]
    pub connections_max: Option<usize>,
    /// Connections that may wait for a helper, more are answered 503 (helper)
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub helper_queue_max: usize,
    /// Children alive at once, more connections are answered 503 (fork, inetd, helper+fork, standard)
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub children_max: u32,
    /// How long a connection may be without a request
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub idle_timeout: Duration,
    /// How long a request head may take to arrive
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = duration)]
    pub head_timeout: Duration,
    /// How long a client may take no byte of its response
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub send_timeout: Duration,
    /// How long a client may take to close after its last response
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub end_timeout: Duration,
    /// How long requests in progress may take once a stop was requested
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub drain_timeout: Duration,
    /// Also serve files and directories whose names begin with a dot
    #[arg(long)]
    pub serve_hidden: bool,
    /// What to print at the end: nothing, or the counters as one JSON object
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
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

/// `7:12`, a descriptor and a number.
fn counters(text: &str) -> Result<(i32, usize), String> {
    let pair = text.split_once(':').and_then(|(fd, place)| Some((fd.parse().ok()?, place.parse().ok()?)));
    pair.ok_or_else(|| "expected FD:PLACE".to_owned())
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
