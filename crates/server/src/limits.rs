//! The limits of a server and their defaults: connections, requests, processes, and every timeout of clients and upstreams.
//!
//! Here are numbers only. The driver's timers turn the timeouts into deadlines. Whatever exceeds a limit is
//! refused and counted there. There is no rate limit on requests: connection limits, the requests per connection and the
//! least rate at which a response must be read bound what one client may hold.

use std::time::Duration;

/// As good as no limit: clients are bound by their other timeouts.
pub const DRAIN_UNLIMITED: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Limits on connections, and the timeouts of clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections open at once; more are answered 503.
    pub connections_max: usize,
    /// Connections open at once from one address (IPv6: one /64 network); more are answered 503.
    pub connections_per_address: Option<u32>,
    /// Requests answered on one connection, which then ends.
    pub requests_per_connection: Option<u32>,
    /// How long a connection may be without a request.
    pub idle: Duration,
    /// How long a request may take from its first byte to its last.
    pub head: Duration,
    /// In each such period a client has to take a response at least at the rate below.
    pub send: Duration,
    /// Bytes per second over each of these periods; with 0 any byte will do.
    pub send_rate_min: u64,
    /// How long a client may take to close after its last response.
    pub end: Duration,
    /// How long requests may take to finish once a stop was requested.
    pub drain: Duration,
    /// The same once a successor serves.
    pub drain_upgrade: Duration,
    /// How long a connection may then be without a request.
    pub drain_idle: Duration,
    /// Jobs or connections that may wait for a helper; more are answered 503.
    pub helper_queue_max: usize,
    /// Processes alive at once that serve one connection each; more connections are answered 503.
    pub children_max: usize,
    pub upstream: UpstreamLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 200_000,
            connections_per_address: None,
            requests_per_connection: None,
            idle: Duration::from_secs(60),
            head: Duration::from_secs(15),
            send: Duration::from_secs(60),
            send_rate_min: 500,
            end: Duration::from_secs(2),
            drain: Duration::from_secs(10),
            drain_upgrade: DRAIN_UNLIMITED,
            drain_idle: Duration::from_millis(500),
            helper_queue_max: 4096,
            children_max: 1024,
            upstream: UpstreamLimits::default(),
        }
    }
}

impl Limits {
    /// The bytes that a client must take in each sending period if bodies are this fraction of them.
    pub fn sent_bytes_min(&self, body_fraction: f64) -> u64 {
        let bytes = self.send.as_secs_f64() * self.send_rate_min as f64;
        ((bytes / body_fraction) as u64).max(1)
    }
}

/// Limits on connections to upstreams, and their timeouts.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamLimits {
    /// How long accepting a connection and taking the first of a request may take.
    pub connect: Duration,
    /// How long an upstream may take nothing of the rest of a request.
    pub send: Duration,
    /// How long the head of an answer may take, from the end of the request.
    pub head: Duration,
    /// How long an upstream may pause in the middle of an answer.
    pub body: Duration,
    /// How long a connection is kept for the next request.
    pub idle: Duration,
    /// Connections to each upstream, of each loop.
    pub connections_max: usize,
    /// How long a request may wait for one of them.
    pub queue: Duration,
    /// Those of them that are kept while there is nothing to do.
    pub idle_max: usize,
    /// Failures in a row that put an upstream out of use.
    pub failures_max: u32,
    pub down: Duration,
    /// Bytes of a chunked request body that are gathered for an application, which is told its length first.
    pub gathered_bytes_max: usize,
    /// How long looking a name up may take.
    pub lookup: Duration,
    /// How long nothing may pass a tunnel.
    pub tunnel: Duration,
    pub tunnels_per_client: usize,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        UpstreamLimits {
            connect: Duration::from_secs(5),
            send: Duration::from_secs(30),
            head: Duration::from_secs(60),
            body: Duration::from_secs(60),
            // Shorter than servers keep theirs, most of which close after 5 to 75 s: the side that closes
            // first meets no request.
            idle: Duration::from_secs(4),
            connections_max: 1024,
            queue: Duration::from_secs(5),
            idle_max: 64,
            failures_max: 3,
            down: Duration::from_secs(10),
            gathered_bytes_max: 1 << 20,
            lookup: Duration::from_secs(5),
            tunnel: Duration::from_secs(300),
            tunnels_per_client: 256,
        }
    }
}
