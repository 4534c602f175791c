//! The interface of handlers: a connection passes request heads, bodies and events to a [`Handler`], which returns
//! response heads and bodies.
//!
//! The connection does framing, keep-alive, pipelining, limits and the access log, and knows no handler; a handler does
//! not know which version of HTTP is used. A handler keeps its own state of a request under an [`ExchangeId`]. A
//! request that cannot be answered at once stays in the connection's input buffer until the handler can continue. So an
//! immediate response needs no state, and waiting needs no copy of the request.
//!
//! A handler may make connections of its own, for example to upstreams. It keeps their protocol state under a
//! [`MachineId`], and asks the event loop for them through an [`Outbox`].

use std::fmt::Debug;
use std::time::Duration;

use sojourn_http::request::Request;

use super::{
    BodyStep, BodyWriter, Event, ExchangeEvent, ExchangeId, MachineId, Outbox, Progress, Response, Shared,
    Step, Wait, Want,
};
use crate::counters::Served;

/// Answers the requests of one event loop or worker thread. Only [`begin`](Handler::begin) is required; the other
/// methods are for handlers that wait, stream bodies, take request bodies or make connections.
pub trait Handler: Debug + Send {
    /// Answers `request`, or says what must happen first.
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step;

    /// Continues a request after the event it waited for. Its exchange ID is free again.
    fn resume(
        &mut self,
        exchange: ExchangeId,
        event: ExchangeEvent,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let _ = (exchange, event);
        self.begin(request, response)
    }

    /// Returns true if the handler reads request bodies. Otherwise they are discarded, up to a limit, before
    /// [`begin`](Handler::begin).
    fn takes_bodies(&self) -> bool {
        false
    }

    /// Receives the next part of the request's body.
    fn upload(&mut self, _exchange: ExchangeId, _bytes: &[u8], _shared: &mut Shared<'_>) {}

    /// The request's body is complete.
    fn end_upload(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) {}

    /// Returns true if more of the request's body may be passed on. The connection is woken when that becomes true.
    fn takes_upload(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) -> bool {
        false
    }

    /// The state of a waiting exchange; called when its connection was woken or has passed on a part of the request's
    /// body.
    fn progress(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) -> Progress {
        Progress::Ready
    }

    /// Appends the heads of interim responses (1xx) for a waiting exchange.
    fn interim(&mut self, _exchange: ExchangeId, _heads: &mut Vec<u8>, _shared: &mut Shared<'_>) {}

    /// Returns the next step of the response's body.
    fn body(
        &mut self,
        _exchange: ExchangeId,
        _event: ExchangeEvent,
        _body: &mut BodyWriter<'_>,
        _shared: &mut Shared<'_>,
    ) -> BodyStep {
        BodyStep::End
    }

    /// Returns false if [`body`](Handler::body) would only wait: the connection goes on receiving the request's body.
    fn has_body(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) -> bool {
        true
    }

    /// Ends an exchange: its body was sent, or its client has left.
    fn finish(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) {}

    /// Passes an event to one of its own connections. Returns the next want, and what that waits for.
    fn drive(&mut self, _machine: MachineId, _event: Event, _shared: &mut Shared<'_>) -> (Want, Wait) {
        unreachable!("a handler without connections has no machines")
    }

    /// Called before one of its connections is dropped. Returns the number of bytes sent to the client, for the log of
    /// an upgraded connection.
    fn end(&mut self, _machine: MachineId, _shared: &mut Shared<'_>) -> u64 {
        0
    }

    /// Connections to make and wake; `None` for handlers that make none.
    fn outbox(&mut self) -> Option<&mut Outbox> {
        None
    }

    /// Returns true if the handler has work in progress besides clients' requests.
    fn is_busy(&self) -> bool {
        false
    }

    /// Called regularly, to time out whatever has waited too long.
    fn tick(&mut self, _shared: &mut Shared<'_>) {}

    /// Adds the handler's own counters to the table.
    fn report(&self, _now: Duration, _served: &mut Served) {}
}
