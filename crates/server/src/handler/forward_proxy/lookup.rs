//! A connection that stands for a name lookup: it ends when the result is there.
//!
//! Nothing is sent or received on it. As a connection it has an event loop's deadline and waker like everything else.

use std::sync::{Arc, OnceLock};

use super::{Addresses, Refusal};
use crate::connection::{Buffer, Event, Reason, Shared, Wait, Want};
use crate::handler::reverse_proxy::{Exchanges, Machine};

/// A name that is being looked up.
#[derive(Debug)]
pub struct Lookup {
    host: Box<str>,
    outcome: Arc<OnceLock<Addresses>>,
    is_waiting: bool,
    is_over: bool,
}

impl Lookup {
    /// Looks `host` up; the `outcome` is set when the connection ends.
    pub fn new(host: Box<str>, outcome: Arc<OnceLock<Addresses>>) -> Lookup {
        Lookup { host, outcome, is_waiting: false, is_over: false }
    }

    /// Gives the outcome to the waiters, or the refusal if there is none.
    fn end(&mut self, refusal: Refusal, exchanges: &mut Exchanges, shared: &mut Shared<'_>) {
        if !std::mem::replace(&mut self.is_over, true) {
            exchanges.found(&self.host, self.outcome.get().ok_or(refusal), shared.served);
        }
    }
}

impl Machine for Lookup {
    fn handle(&mut self, event: Event, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        match event {
            Event::Woken if self.is_waiting => Want::Wait,
            Event::Woken => {
                self.is_waiting = true;
                Want::Receive(Buffer::default())
            }
            Event::Expired => {
                self.end(Refusal::LookupTime, exchanges, shared);
                Want::Close(Reason::Finished)
            }
            _ => {
                self.end(Refusal::Name, exchanges, shared);
                Want::Close(Reason::Finished)
            }
        }
    }

    fn waits_for(&self) -> Wait {
        Wait::Lookup
    }

    fn finish(&mut self, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> u64 {
        self.end(Refusal::Name, exchanges, shared);
        0
    }
}
