//! TLS to an upstream: this side starts the handshake, and the inner connection is told about every failure.
//!
//! A connection that ends without `close_notify` may have been truncated by an attacker, so its end does not complete a
//! body.

use super::super::{Context, Event, Reason, Want};
use super::{Inner, Operation, State, TlsConnection};

impl TlsConnection {
    pub(super) fn is_to_upstream(&self) -> bool {
        matches!(self.state, State::Handshake(Some(_)) | State::Open(Inner::Launched(_)))
    }

    /// Handles a wake-up before the handshake is complete; the first one starts it.
    pub(super) fn begin(&mut self, context: &mut Context<'_>) -> Want {
        if self.operation == Operation::Nothing && self.session.wants_write() {
            return self.flush(context);
        }
        Want::Wait
    }

    /// The failure that `event` means for the inner connection, if it ends the connection.
    pub(super) fn failure(&self, event: &Event) -> Option<Event> {
        match event {
            Event::Ended if self.is_ended => None,
            Event::Ended | Event::Failed => Some(Event::Failed),
            Event::Expired => Some(Event::Expired),
            _ => None,
        }
    }

    pub(super) fn abort(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if let Some(reason) = self.closing {
            return Want::Close(reason);
        }
        let is_over = matches!(event, Event::Failed);
        let want = match &mut self.state {
            State::Handshake(Some(machine)) => machine.handle(event, context),
            State::Open(Inner::Launched(machine)) => machine.handle(event, context),
            _ => Want::Close(Reason::Failed),
        };
        if is_over || self.operation == Operation::Sending {
            // The peer has left, or other output is being sent: no close_notify.
            self.owes_close_notify = false;
        }
        self.fulfil(want, context)
    }
}
