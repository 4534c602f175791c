//! The reverse proxy as a [`Handler`] for one event loop.
//!
//! A request that cannot be answered immediately is an [`Exchange`], which waits in a [`Stage`].

use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use sojourn_http::Status;
use sojourn_http::chunked::{LAST_CHUNK, append_chunk};
use sojourn_http::request::Request;

use super::exchange::{Exchange, Stage};
use super::{End, Services, UpstreamClient};
use crate::connection::{
    BodyStep, BodyWriter, Event, ExchangeEvent, ExchangeId, Handler, MachineId, Outbox, Piece, Progress,
    Response, Shared, Step, Wait, Want,
};
use crate::counters::Served;
use crate::handler::stream::Next;

#[derive(Debug)]
pub struct ReverseProxy {
    pub(super) upstream_client: UpstreamClient,
    pub(super) services: Arc<dyn Services>,
    pub(super) requests: Slab<Exchange>,
}

impl ReverseProxy {
    pub fn new(upstream_client: UpstreamClient, services: Arc<dyn Services>) -> ReverseProxy {
        ReverseProxy { upstream_client, services, requests: Slab::new() }
    }

    pub(in crate::handler) fn upstream_client(&mut self) -> &mut UpstreamClient {
        &mut self.upstream_client
    }

    pub(in crate::handler) fn set_current(&mut self, shared: &Shared<'_>) {
        self.upstream_client.set_current(shared.token, shared.clock.now);
    }

    /// Serves the queue for upstream connections: one may have become free, or a request may have timed out.
    fn serve_queue(&mut self, shared: &mut Shared<'_>) {
        if self.upstream_client.can_serve_queue() {
            self.upstream_client.serve_queue(shared.served);
        }
    }

    /// Writes the bytes that have arrived in a flow.
    fn flow_body(&mut self, id: usize, body: &mut BodyWriter<'_>, shared: &mut Shared<'_>) -> BodyStep {
        let Stage::Relaying(relay) = &self.requests[id].stage else { unreachable!("a response is relayed") };
        let upstream_client = &mut self.upstream_client;
        while body.has_room() {
            upstream_client.pull(relay.flow);
            let flow = upstream_client.flow(relay.flow);
            let was_full = flow.is_full();
            let Some(part) = flow.take(relay.reader) else { break };
            let has_room_again = was_full && !flow.is_full();
            if has_room_again {
                upstream_client.wake_fetch(relay.flow);
            }
            if part.as_ref().len() as u64 > shared.send_path.copied_bytes_max {
                let piece = Some(part.into_piece());
                return BodyStep::Send { piece, is_last: false, remaining: None };
            }
            body.append(part.as_ref());
            part.recycle(shared.pool);
        }
        let flow = upstream_client.flow(relay.flow);
        match flow.end {
            // There is more than one send takes.
            _ if flow.has_part(relay.reader) => BodyStep::Wait,
            Some(End::Complete) => BodyStep::End,
            Some(_) => BodyStep::Broken,
            None => BodyStep::Wait,
        }
    }
}

impl Handler for ReverseProxy {
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        self.set_current(response.shared);
        match self.services.service_of(request) {
            Some(service) if !response.is_misdirected(request) => self.accept(service, request, response),
            _ => response.page(request, Status::MisdirectedRequest),
        }
    }

    fn resume(
        &mut self,
        exchange: ExchangeId,
        _event: ExchangeEvent,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        self.set_current(response.shared);
        let mut exchange = self.requests.remove(exchange.0);
        response.note_outcome(exchange.outcome);
        match std::mem::take(&mut exchange.stage) {
            Stage::Lookup => {
                let client_context = self.client_context(request, response);
                self.relay(request, client_context, exchange, response)
            }
            Stage::Following(following) => self.follow(request, following, exchange, response),
            Stage::Relaying(relay) => self.begin_relayed(request, relay, response),
            Stage::Sending(_) => unreachable!("what is being sent is not resumed"),
        }
    }

    fn takes_bodies(&self) -> bool {
        true
    }

    fn upload(&mut self, exchange: ExchangeId, part: &[u8], shared: &mut Shared<'_>) {
        self.set_current(shared);
        let Stage::Relaying(relay) = &self.requests[exchange.0].stage else { return };
        let Some(upload) = &mut self.upstream_client.flow(relay.flow).upload else { return };
        if upload.is_gathered {
            return self.upstream_client.gather(relay.flow, part, shared.served);
        }
        if relay.is_chunked {
            append_chunk(&mut upload.bytes, part);
        } else {
            upload.bytes.extend_from_slice(part);
        }
        self.upstream_client.wake_fetch(relay.flow);
    }

    fn end_upload(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) {
        self.set_current(shared);
        let Stage::Relaying(relay) = &self.requests[exchange.0].stage else { return };
        let Some(upload) = &mut self.upstream_client.flow(relay.flow).upload else { return };
        if upload.is_gathered {
            return self.upstream_client.send_gathered(relay.flow, shared.served);
        }
        if relay.is_chunked {
            upload.bytes.extend_from_slice(LAST_CHUNK);
        }
        upload.is_complete = true;
        self.upstream_client.wake_fetch(relay.flow);
    }

    fn takes_upload(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> bool {
        self.set_current(shared);
        let Stage::Relaying(relay) = &self.requests[exchange.0].stage else { return false };
        // Without an upload, what arrives is discarded.
        self.upstream_client.flow(relay.flow).upload.as_ref().is_none_or(|upload| !upload.is_full())
    }

    fn progress(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> Progress {
        self.set_current(shared);
        let Exchange { stage, lookup, .. } = &self.requests[exchange.0];
        let mut pending = Progress::Pending { wants_body: false };
        let is_ready = match stage {
            Stage::Lookup => {
                let waker = self.upstream_client.waker();
                !lookup.as_ref().is_some_and(|lookup| lookup.waits(&waker))
            }
            Stage::Following(following) => {
                let stage = following.busy_object.stage(&self.upstream_client.waker());
                !matches!(stage, sojourn_cache_store::Stage::Waiting)
            }
            Stage::Relaying(relay) => {
                let flow = self.upstream_client.flow(relay.flow);
                if let Some(upload) = &flow.upload {
                    pending = Progress::Pending { wants_body: upload.is_asked_for };
                }
                if relay.takes_interim && flow.has_interim(relay.reader) {
                    return Progress::Interim;
                }
                flow.can_continue()
            }
            Stage::Sending(_) => unreachable!("what is being sent does not wait"),
        };
        if is_ready { Progress::Ready } else { pending }
    }

    fn interim(&mut self, exchange: ExchangeId, heads: &mut Vec<u8>, shared: &mut Shared<'_>) {
        self.set_current(shared);
        if let Stage::Relaying(relay) = &self.requests[exchange.0].stage {
            heads.append(&mut self.upstream_client.flow(relay.flow).interim);
        }
    }

    fn body(
        &mut self,
        exchange: ExchangeId,
        _event: ExchangeEvent,
        body: &mut BodyWriter<'_>,
        shared: &mut Shared<'_>,
    ) -> BodyStep {
        self.set_current(shared);
        let Stage::Sending(stream) = &mut self.requests[exchange.0].stage else {
            return self.flow_body(exchange.0, body, shared);
        };
        match stream.next(body) {
            Next::Stored(extent) => stream.send(Piece::Stored(extent)),
            Next::File(_) | Next::End => BodyStep::Send { piece: None, is_last: true, remaining: None },
        }
    }

    fn has_body(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> bool {
        self.set_current(shared);
        let Stage::Relaying(relay) = &self.requests[exchange.0].stage else { return true };
        let flow = self.upstream_client.flow(relay.flow);
        flow.has_part(relay.reader) || flow.end.is_some()
    }

    fn finish(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) {
        self.set_current(shared);
        match self.requests.remove(exchange.0).stage {
            Stage::Relaying(relay) => self.upstream_client.leave(relay.flow, relay.reader),
            Stage::Lookup | Stage::Following(_) | Stage::Sending(_) => {}
        }
    }

    fn drive(&mut self, machine: MachineId, event: Event, shared: &mut Shared<'_>) -> (Want, Wait) {
        self.set_current(shared);
        let outcome = self.upstream_client.drive(machine, event, shared);
        self.serve_queue(shared);
        outcome
    }

    fn end(&mut self, machine: MachineId, shared: &mut Shared<'_>) -> u64 {
        self.set_current(shared);
        let passed_bytes = self.upstream_client.end(machine, shared);
        self.serve_queue(shared);
        passed_bytes
    }

    fn tick(&mut self, shared: &mut Shared<'_>) {
        self.set_current(shared);
        // Somebody may have waited long enough, or an upstream may be tried again.
        if self.upstream_client.has_queue() {
            self.upstream_client.expire_queue(shared.served);
            self.upstream_client.serve_queue(shared.served);
        }
        self.upstream_client.wake_those_to_give_way();
    }

    fn outbox(&mut self) -> Option<&mut Outbox> {
        Some(&mut self.upstream_client.outbox)
    }

    fn is_busy(&self) -> bool {
        self.upstream_client.is_busy()
    }

    fn report(&self, now: Duration, served: &mut Served) {
        self.upstream_client.report(now, served);
    }
}
