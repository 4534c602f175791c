//! The options of `stream`; groups shared with `serve` are defined there.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use sojourn_rtsp_server::{Settings, Users};
use sojourn_server::{AccessLog, LogFormat, Scoreboard};

use crate::load::generator::bit_rate;
use crate::serve::options::process::ProcessOptions;
use crate::serve::options::values::{BODIES_SHARE, budget, duration, size};
use crate::text_file;

/// Stream the films below a directory by RTSP: RTP by UDP or within the connection.
///
/// MP4 and QuickTime files of H.264, H.265 and AAC are sent as they are, at playing speed, with seeking. Prints
/// `listening on ADDRESS` to stderr when ready. SIGTERM or SIGINT ends the server and its sessions. SIGUSR1 reopens the
/// access log. SIGHUP or SIGUSR2 starts a new process; the old one ends with its last session.
#[derive(clap::Args)]
#[command(after_help = "\
Example: a server, and a player
  sojourn stream films --listen 127.0.0.1:8554 --bandwidth 800Mbit/s
  ffplay rtsp://127.0.0.1:8554/film.mp4")]
pub struct Options {
    /// The directory
    #[arg(value_name = "DIR")]
    pub root: PathBuf,
    /// Address and port for RTSP; repeatable; port 0 chooses a free one
    #[arg(long, default_value = "127.0.0.1:8554", value_name = "ADDR")]
    pub listen: Vec<String>,
    /// UDP port of RTP, an even one; RTCP uses the next [default: a free pair]
    #[arg(long, value_name = "PORT", value_parser = even_port)]
    pub rtp_port: Option<u16>,
    /// Address and port of the admin listener with GET /metrics
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<String>,
    /// Admit only users in this file, with lines as written by htdigest: user:realm:hash, where the hash of
    /// user:realm:password is MD5 or SHA-256 [default: everybody]
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// Bandwidth limit of all sessions: 800Mbit/s. A session that needs more than is left is refused with 453, so that
    /// running ones are not disturbed [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    pub bandwidth: Option<u64>,
    /// Read from disk this long before data is due; 0s reads when it is due
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = duration)]
    pub look_ahead: Duration,
    /// Threads for the disk
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub helpers: u32,
    /// Memory for parts of films, in chunks of 8 to 64 KiB [default: 128MiB, at most an eighth of the available
    /// memory]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub body_cache: Option<usize>,
    /// Append a line per session to this file; SIGUSR1 reopens it, for logrotate
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Pin the server to this core
    #[arg(long, value_name = "CORE")]
    pub pin_core: Option<usize>,
    /// Print nothing at the end, or the counters as one JSON object
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    pub format: String,
    #[command(flatten)]
    pub limits: LimitOptions,
    #[command(flatten)]
    pub process: ProcessOptions,
}

/// Limits, with the names used in the documentation.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// The most open RTSP connections; more are answered 503 [default: 3/4 of the descriptors allowed]
    #[arg(long, value_name = "N")]
    pub connections_max: Option<usize>,
    /// The most open RTSP connections from one address (IPv6: one /64 network) [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_per_address: Option<u32>,
    /// The most RTSP connections without a session; above it, the oldest connection of the address with the most is
    /// closed
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = at_least_one)]
    pub sessionless_connections_max: usize,
    /// The most sessions that play or have played; more are answered 503
    #[arg(long, default_value_t = 16 * 1024, value_name = "N")]
    pub sessions_max: usize,
    /// The same per address (IPv6: one /64 network) [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub sessions_per_address: Option<u32>,
    /// The most sessions that have never played; above it, the oldest of the address with the most is ended
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = at_least_one)]
    pub setups_max: usize,
    /// The most films whose index is kept in memory
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = at_least_one)]
    pub films_max: usize,
    /// End a session when its client has sent neither a request nor a report for this long
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub session_timeout: Duration,
    /// Timeout of a session from its first SETUP to its first PLAY
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = duration)]
    pub setup_timeout: Duration,
    /// Timeout for receiving a request
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = duration)]
    pub head_timeout: Duration,
    /// Timeout for opening a film; then its request is answered 503
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = duration)]
    pub open_timeout: Duration,
    /// While data comes from the disk later than this after it was due, on average, new sessions are answered 503
    #[arg(long, default_value = "250ms", value_name = "TIME", value_parser = duration)]
    pub read_delay_max: Duration,
    /// Timeout of a connection with neither a session nor a request
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration)]
    pub idle_timeout: Duration,
    /// Timeout for a client that reads nothing of the data queued on its connection
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration)]
    pub send_timeout: Duration,
}

impl Options {
    /// The settings, with this many descriptors for connections and films.
    pub fn settings(&self, descriptors: usize) -> Settings {
        let limits = &self.limits;
        Settings {
            bandwidth_bits_per_second: self.bandwidth,
            connections_max: limits.connections_max.unwrap_or(descriptors / 4 * 3).clamp(1, descriptors),
            connections_per_address: limits.connections_per_address,
            sessionless_connections_max: limits.sessionless_connections_max,
            sessions_max: limits.sessions_max,
            sessions_per_address: limits.sessions_per_address,
            setups_max: limits.setups_max,
            films_max: limits.films_max.min(descriptors / 4).max(1),
            session_timeout: limits.session_timeout,
            setup_timeout: limits.setup_timeout,
            head_timeout: limits.head_timeout,
            open_timeout: limits.open_timeout,
            read_delay_max: limits.read_delay_max,
            idle_timeout: limits.idle_timeout,
            send_timeout: limits.send_timeout,
            body_cache_bytes: self
                .body_cache
                .unwrap_or_else(|| budget(Settings::default().body_cache_bytes, BODIES_SHARE)),
            helpers: self.helpers as usize,
            look_ahead: self.look_ahead,
            rtp_port: self.rtp_port,
        }
    }

    /// The users; `None` without authentication.
    pub fn users(&self) -> anyhow::Result<Option<Users>> {
        let Some(path) = &self.users else { return Ok(None) };
        let text = text_file::read(path).map_err(|error| {
            anyhow!(
                "cannot read the users in {}: {error}\nhint: make it with htdigest -c FILE films NAME",
                path.display()
            )
        })?;
        let users = Users::parse(&text).map_err(|error| {
            anyhow!("{} is not a users file: {error}\nhint: write it with htdigest", path.display())
        })?;
        Ok(Some(users))
    }

    /// Opens the access log, if there is one.
    pub fn log(&self, scoreboard: &Scoreboard) -> anyhow::Result<Option<AccessLog>> {
        let Some(path) = &self.access_log else { return Ok(None) };
        let log = AccessLog::open(path, LogFormat::parse("combined")?, scoreboard).map_err(|error| {
            anyhow!(
                "cannot write the access log {}: {error}\nhint: choose a file in a directory that you may write to",
                path.display()
            )
        })?;
        Ok(Some(log))
    }
}

fn even_port(text: &str) -> Result<u16, String> {
    let port: u16 = text.parse().map_err(|_| "a port is a number up to 65534".to_owned())?;
    if port == 0 || port % 2 == 1 { Err("RTP has an even port (RFC 3550, 11)".to_owned()) } else { Ok(port) }
}

fn bandwidth(text: &str) -> Result<u64, String> {
    let in_bits = || bit_rate(&format!("{text}bit/s"));
    bit_rate(text).or_else(|error| in_bits().map_err(|_| error)).map(|bits_per_second| bits_per_second as u64)
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "use a number of at least 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_rates() {
        assert_eq!(even_port("6970"), Ok(6970));
        assert!(even_port("6971").is_err() && even_port("0").is_err() && even_port("70000").is_err());
        assert_eq!(bandwidth("800Mbit/s"), Ok(800_000_000));
        assert_eq!(bandwidth("1.5G"), Ok(1_500_000_000));
        assert!(bandwidth("much").is_err());
    }
}
