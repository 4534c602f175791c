//! The protocol of a connection that a proxy makes, to an upstream for instance.

use std::fmt::Debug;

use super::UpstreamClient;
use crate::connection::{Event, Shared, Wait, Want};
use crate::counters::Counter;

/// Drives one such connection; it does no I/O.
pub trait Machine: Debug + Send {
    /// Takes an event and returns the next want.
    fn handle(&mut self, event: Event, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>)
    -> Want;

    fn waits_for(&self) -> Wait;

    /// Counts the bytes sent on it.
    fn sent(&self) -> Counter {
        Counter::UpstreamSentBytes
    }

    /// Returns false if a client made the connection, which then became this machine's.
    fn is_launched(&self) -> bool {
        true
    }

    /// The connection is over. Returns the bytes that a tunnel has given its client.
    fn finish(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> u64;
}
