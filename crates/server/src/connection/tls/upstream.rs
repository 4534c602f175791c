//! What is different about an upstream: this side begins, and whatever goes wrong, what fetches is told.
//!
//! A connection that ends without a goodbye could have been cut off by anybody, so its end is nothing that a body could
//! end with.

use super::super::{Context, Event, Reason, Want};
use super::{Doing, Inside, State, TlsConnection};

impl TlsConnection {
    /// Whether the other side is an upstream.
    pub(super) fn is_to_upstream(&self) -> bool {
        matches!(self.state, State::Handshake(Some(_)) | State::Open(Inside::Launched(_)))
    }

    /// Somebody wakes it before the handshake is complete: the first time, so that it begins.
    pub(super) fn begin(&mut self, context: &mut Context<'_>) -> Want {
        if self.doing == Doing::Nothing && self.session.wants_write() {
            return self.flush(context);
        }
        Want::Wait
    }

    /// What fetches is to know of `event` if that is the end of the connection.
    pub(super) fn failure(&self, event: &Event) -> Option<Event> {
        match event {
            Event::Ended if self.is_ended => None,
            Event::Ended | Event::Failed => Some(Event::Failed),
            Event::Expired => Some(Event::Expired),
            _ => None,
        }
    }

    /// The connection is of no more use.
    pub(super) fn break_off(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if let Some(reason) = self.closing {
            return Want::Close(reason);
        }
        let is_over = matches!(event, Event::Failed);
        let want = match &mut self.state {
            State::Handshake(Some(machine)) => machine.handle(event, context),
            State::Open(Inside::Launched(machine)) => machine.handle(event, context),
            _ => Want::Close(Reason::Failed),
        };
        if is_over || self.doing == Doing::Sending {
            // There is nobody to hear a goodbye, or something else on its way.
            self.owes_goodbye = false;
        }
        self.pursue(want, context)
    }
}
