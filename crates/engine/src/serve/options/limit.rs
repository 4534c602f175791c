//! Limits on clients: how many, and how long they may take.

use std::time::Duration;

use sojourn_server::{DRAIN_UNLIMITED, Limits, UpstreamLimits};

use super::values::{duration, size};

/// Limits, each named as it is in the guide.
#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// Connections open at once, more are answered 503 [default: 3/4 of the descriptors allowed]
    #[arg(long, value_name = "N")]
    pub connections_max: Option<usize>,
    /// Connections open at once from one address (IPv6: one /64 network), more are answered 503 [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_per_address: Option<u32>,
    /// Requests answered on one connection, which then ends [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub requests_per_connection_max: Option<u32>,
    /// Connections that may wait for a helper, more are answered 503 (helper)
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub helper_queue_max: usize,
    /// Children alive at once, more connections are answered 503 (fork, inetd, helper+fork, standard)
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub children_max: u32,
    /// Idle timeout: time a connection may be without a request
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub idle_timeout: Duration,
    /// Timeout for a request to arrive, its body included
    #[arg(long, default_value = "15s", value_name = "TIME", value_parser = duration)]
    pub head_timeout: Duration,
    /// In each such period a client has to take its response at --send-rate-min
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    pub send_timeout: Duration,
    /// Bytes per second that a client has to take over each of these periods; with 0 any byte will do
    #[arg(long, default_value = "500", value_name = "SIZE", value_parser = size)]
    pub send_rate_min: usize,
    /// Timeout for a client to close after its last response
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    pub end_timeout: Duration,
    /// Graceful shutdown: time for requests in progress once a stop was requested
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub drain_timeout: Duration,
    /// Time for requests in progress once a successor serves [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub upgrade_drain_timeout: Option<Duration>,
    /// Graceful shutdown: time a connection may be without a request once a stop was requested
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = duration)]
    pub drain_idle_timeout: Duration,
}

impl LimitOptions {
    /// The limits, with so many connections.
    pub fn limits(&self, connections_max: usize) -> Limits {
        Limits {
            connections_max,
            connections_per_address: self.connections_per_address,
            requests_per_connection: self.requests_per_connection_max,
            idle: self.idle_timeout,
            head: self.head_timeout,
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
