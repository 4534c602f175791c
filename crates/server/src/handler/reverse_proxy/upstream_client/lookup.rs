//! A DNS lookup in the form of a connection, which ends when the result is available.
//!
//! Nothing is sent or received on it. As a connection it gets the event loop's deadline and wake-up.

use std::sync::{Arc, OnceLock};

use super::{Machine, UpstreamClient};
use crate::connection::{Buffer, Event, Reason, Shared, Wait, Want};
use crate::handler::destination::{Addresses, Refusal};

/// A lookup in progress.
#[derive(Debug)]
pub struct Lookup {
    host: Box<str>,
    outcome: Arc<OnceLock<Addresses>>,
    is_waiting: bool,
    is_over: bool,
}

impl Lookup {
    /// Starts to look up `host`; `outcome` is set when the connection ends.
    pub fn new(host: Box<str>, outcome: Arc<OnceLock<Addresses>>) -> Lookup {
        Lookup { host, outcome, is_waiting: false, is_over: false }
    }

    /// Passes the outcome to those who wait for it; without an outcome, the refusal.
    fn end(&mut self, refusal: Refusal, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) {
        if !std::mem::replace(&mut self.is_over, true) {
            upstream_client.resolved(&self.host, self.outcome.get().ok_or(refusal), shared.served);
        }
    }
}

impl Machine for Lookup {
    fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        match event {
            Event::Woken if self.is_waiting => Want::Wait,
            Event::Woken => {
                self.is_waiting = true;
                Want::Receive(Buffer::default())
            }
            Event::Expired => {
                self.end(Refusal::LookupTime, upstream_client, shared);
                Want::Close(Reason::Finished)
            }
            _ => {
                self.end(Refusal::Name, upstream_client, shared);
                Want::Close(Reason::Finished)
            }
        }
    }

    fn waits_for(&self) -> Wait {
        Wait::Lookup
    }

    fn finish(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> u64 {
        self.end(Refusal::Name, upstream_client, shared);
        0
    }
}
