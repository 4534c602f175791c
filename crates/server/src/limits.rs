//! The limits of a server and their defaults: connections, requests, processes, and every timeout of clients and upstreams.
//!
//! This module holds only numbers. The drivers' timers turn the timeouts into deadlines; what exceeds a limit is
//! refused and counted there. There is no rate limit on requests: connection limits, requests per connection and the
//! minimum send rate bound what one client can use.

use std::time::Duration;

use crate::watermark::Watermark;

/// Practically unlimited: clients are still bound by their other timeouts.
pub const DRAIN_UNLIMITED: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long connections may wait to be accepted.
pub const ACCEPT_WAIT_MAX: Duration = Duration::from_millis(250);

/// Watermarks of open connections, in percent of [`Limits::connections_max`].
const CONNECTIONS_HIGH_PERCENT: usize = 90;
const CONNECTIONS_LOW_PERCENT: usize = 80;

/// Where connections are that few, all may be used.
const CONNECTIONS_FEW: usize = 32;

/// Connection limits and the timeouts of clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most open connections; more are answered 503.
    pub connections_max: usize,
    /// The most open connections from one address (IPv6: one /64 network); more are answered 503.
    pub connections_per_address: Option<u32>,
    /// How long connections may wait to be accepted by an event loop; the queue is shortened while they wait longer, unless
    /// this is zero.
    pub accept_wait: Duration,
    /// Bytes of memory that each process may use; load is shed before.
    pub memory_limit: u64,
    /// After this many requests a connection is closed.
    pub requests_per_connection: Option<u32>,
    /// Keep-alive timeout: how long a connection may be without a request.
    pub idle: Duration,
    /// How long a request may take from its first to its last byte.
    pub head: Duration,
    /// In each period of this length a client must read the response at the rate below.
    pub send: Duration,
    /// Minimum rate in bytes per second over each period; with 0, any byte is enough.
    pub send_rate_min: u64,
    /// How long a client may take to close after the last response.
    pub end: Duration,
    /// Graceful shutdown: how long requests may take to finish after a stop.
    pub drain: Duration,
    /// The same after a binary upgrade, once the successor serves.
    pub drain_upgrade: Duration,
    /// Keep-alive timeout while draining.
    pub drain_idle: Duration,
    /// The most jobs or connections waiting for a helper; more are answered 503.
    pub helper_queue_max: usize,
    /// The most child processes that serve one connection each; more connections are answered 503.
    pub children_max: usize,
    pub upstream: UpstreamLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 200_000,
            connections_per_address: None,
            accept_wait: ACCEPT_WAIT_MAX,
            memory_limit: u64::MAX,
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
    /// From which number of open connections on idle ones are closed, to leave places for new clients.
    pub(crate) fn connections_watermark(&self) -> Watermark {
        let max = self.connections_max;
        let percent = |share| max / 100 * share + max % 100 * share / 100;
        if max <= CONNECTIONS_FEW {
            return Watermark::new(usize::MAX, usize::MAX);
        }
        Watermark::new(percent(CONNECTIONS_LOW_PERCENT), percent(CONNECTIONS_HIGH_PERCENT))
    }

    /// The bytes that a client must read per sending period, if bodies make up this fraction of them.
    pub fn sent_bytes_min(&self, body_fraction: f64) -> u64 {
        let bytes = self.send.as_secs_f64() * self.send_rate_min as f64;
        ((bytes / body_fraction) as u64).max(1)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct UpstreamLimits {
    /// How long connecting and sending the first part of a request may take.
    pub connect: Duration,
    /// How long an upstream may accept no further part of a request.
    pub send: Duration,
    /// How long the response's head may take after the request was sent.
    pub head: Duration,
    /// How long an upstream may pause within a response's body.
    pub body: Duration,
    /// How long an idle connection is kept in the pool.
    pub idle: Duration,
    /// The most connections per upstream and loop.
    pub connections_max: usize,
    /// How long a request may wait for a connection.
    pub queue: Duration,
    /// The most idle connections kept per upstream and loop.
    pub idle_max: usize,
    /// After so many failures in a row an upstream counts as down.
    pub failures_max: u32,
    pub down: Duration,
    /// Request bodies are buffered completely before a connection is taken.
    pub buffers_requests: bool,
    /// The most bytes of a request body that are buffered: of all if that is so, and of chunked ones for an application,
    /// which needs the length first.
    pub gathered_bytes_max: usize,
    /// The most bytes of all request bodies that are buffered, per loop.
    pub gathered_total_max: usize,
    /// How long a DNS lookup may take.
    pub lookup: Duration,
    /// How long a tunnel may be idle.
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
            // Shorter than most servers' timeouts (5 to 75 s): if the upstream closed first, a request could hit a
            // closing connection.
            idle: Duration::from_secs(4),
            connections_max: 1024,
            queue: Duration::from_secs(5),
            idle_max: 64,
            failures_max: 3,
            down: Duration::from_secs(10),
            buffers_requests: false,
            gathered_bytes_max: 1 << 20,
            gathered_total_max: 64 << 20,
            lookup: Duration::from_secs(5),
            tunnel: Duration::from_secs(300),
            tunnels_per_client: 256,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_connections_are_many_unless_there_are_few() {
        let high = |max, level| {
            let limits = Limits { connections_max: max, ..Limits::default() };
            limits.connections_watermark().update(level)
        };
        assert!(!high(1000, 899) && high(1000, 900));
        assert!(!high(33, 28) && high(33, 29));
        assert!(!high(32, 32) && !high(1, 1) && !high(usize::MAX, 1 << 40));
    }
}
