//! The connections that a proxy makes itself: to upstreams, to the resolver, for tunnels.

use super::Exchanges;
use super::upstream_connection::UpstreamConnection;
use crate::connection::{Event, Shared, Wait, Want};
use crate::counters::Counter;
use crate::handler::forward_proxy::{Lookup, TunnelClient, TunnelEnd};

/// The protocol of a connection that the proxy made.
#[derive(Debug)]
pub enum Machine {
    Upstream(Box<UpstreamConnection>),
    Lookup(Lookup),
    Tunnel(TunnelEnd),
    /// A client's connection that has become a tunnel's.
    Client(TunnelClient),
}

impl Machine {
    /// Takes an event, says what is wanted next.
    pub fn handle(&mut self, event: Event, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        match self {
            Machine::Upstream(connection) => connection.handle(event, exchanges, shared),
            Machine::Lookup(lookup) => lookup.handle(event, exchanges, shared),
            Machine::Tunnel(end) => end.handle(event, exchanges, shared),
            Machine::Client(client) => client.handle(event, exchanges, shared),
        }
    }

    pub fn waits_for(&self) -> Wait {
        match self {
            Machine::Upstream(connection) => connection.waits_for(),
            Machine::Lookup(lookup) => lookup.waits_for(),
            Machine::Tunnel(end) => end.waits_for(),
            Machine::Client(client) => client.waits_for(),
        }
    }

    /// Counts the bytes sent on it.
    pub fn sent(&self) -> Counter {
        match self {
            Machine::Tunnel(end) => end.sent(),
            Machine::Client(_) => Counter::SentBytes,
            Machine::Upstream(_) | Machine::Lookup(_) => Counter::UpstreamSentBytes,
        }
    }

    /// It is about to be forgotten. Returns the bytes that a tunnel has given its client.
    pub fn finish(&mut self, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> u64 {
        match self {
            Machine::Client(client) => return client.finish(exchanges),
            Machine::Upstream(connection) => connection.finish(exchanges, shared),
            Machine::Lookup(lookup) => lookup.finish(exchanges, shared),
            Machine::Tunnel(end) => end.finish(exchanges),
        }
        exchanges.outbox.forget();
        0
    }
}
