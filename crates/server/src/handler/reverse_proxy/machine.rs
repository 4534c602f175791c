//! The protocol on a connection that a proxy makes, such as one to an upstream.

use std::fmt::Debug;

use super::UpstreamClient;
use crate::connection::{Event, Shared, Wait, Want};
use crate::counters::Counter;

/// The state machine of such a connection; it does no I/O.
pub trait Machine: Debug + Send {
    /// Handles an event and returns the next want.
    fn handle(&mut self, event: Event, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>)
    -> Want;

    fn waits_for(&self) -> Wait;

    /// The counter of bytes sent on it.
    fn sent(&self) -> Counter {
        Counter::UpstreamSentBytes
    }

    /// Returns false if a client made the connection, which this machine then took over.
    fn is_launched(&self) -> bool {
        true
    }

    /// Called when the connection ends. Returns the bytes that a tunnel has sent to its client.
    fn finish(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> u64;
}
