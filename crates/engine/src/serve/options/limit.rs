//! Limits on clients: how many there may be, and their timeouts.

use std::time::Duration;

use sojourn_measure::limits::memory_bytes;
use sojourn_server::{Architecture, DRAIN_UNLIMITED, Limits, UpstreamLimits};

use super::values::{duration, size};

/// Limits, with the names used in the documentation.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// The most open connections; more are answered 503 [default: 3/4 of the descriptors allowed]
    #[arg(long, value_name = "N")]
    pub connections_max: Option<usize>,
    /// The most open connections from one address (IPv6: one /64 network); more are answered 503 [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_per_address: Option<u32>,
    /// How long connections may wait to be accepted by an event loop. If they wait longer for a while, fewer may wait than
    /// --backlog says; 0s: always as many
    #[arg(long, default_value = "250ms", value_name = "TIME", value_parser = duration)]
    pub accept_wait_max: Duration,
    /// Memory limit of each server process. Above 85 % of it, or of a limited address space, new connections are
    /// answered 503 and idle ones are closed [default: what the machine or the control group has, divided among the
    /// processes]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<usize>,
    /// Close a connection after this many requests [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub requests_per_connection_max: Option<u32>,
    /// The most connections waiting for a helper; more are answered 503 (helper)
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub helper_queue_max: usize,
    /// The most child processes; more connections are answered 503 (fork, inetd, helper+fork, standard)
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub children_max: u32,
    /// Keep-alive timeout: how long a connection may be without a request
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub idle_timeout: Duration,
    /// Timeout for receiving a request, including its body [default: 15s; 5s where a process or thread waits for it
    /// (fork, inetd, helper, mp, mt)]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub head_timeout: Option<Duration>,
    /// In each period of this length a client must read its response at --send-rate-min
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub send_timeout: Duration,
    /// Minimum rate in bytes per second over each --send-timeout period; with 0 any byte is enough
    #[arg(long, default_value = "500", value_name = "SIZE", value_parser = size)]
    pub send_rate_min: usize,
    /// Timeout for a client to close after its last response
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub end_timeout: Duration,
    /// Graceful shutdown: how long requests in progress may take after a stop
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub drain_timeout: Duration,
    /// How long requests in progress may take after a binary upgrade [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub upgrade_drain_timeout: Option<Duration>,
    /// Graceful shutdown: how long a connection may be without a request after a stop
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = duration)]
    pub drain_idle_timeout: Duration,
}

impl LimitOptions {
    /// The limits of each of `processes` processes under `architecture`, with this many connections.
    pub fn limits(
        &self,
        architecture: &dyn Architecture,
        connections_max: usize,
        processes: usize,
    ) -> Limits {
        let share = memory_bytes() / processes.max(1) as u64;
        Limits {
            connections_max,
            accept_wait: self.accept_wait_max,
            memory_limit: self.memory_limit.map_or(share, |bytes| bytes as u64),
            connections_per_address: self.connections_per_address,
            requests_per_connection: self.requests_per_connection_max,
            idle: self.idle_timeout,
            head: self.head_timeout.unwrap_or_else(|| architecture.defaults().head),
            send: self.send_timeout,
            send_rate_min: self.send_rate_min as u64,
            end: self.end_timeout,
            drain: self.drain_timeout,
            drain_upgrade: self.upgrade_drain_timeout.unwrap_or(DRAIN_UNLIMITED),
            drain_idle: self.drain_idle_timeout,
            helper_queue_max: self.helper_queue_max,
            children_max: self.children_max as usize,
            upstream: UpstreamLimits::default(),
        }
    }
}
