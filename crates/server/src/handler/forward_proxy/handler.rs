//! The forward proxy as a [`Handler`]: applies the rules and opens tunnels; the reverse proxy's handler does the rest.

use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use sojourn_content::HostId;
use sojourn_http::request::{Method, Request};

use crate::connection::{
    BodyStep, BodyWriter, Event, ExchangeEvent, ExchangeId, Handler, MachineId, Outbox, Progress, Response,
    Shared, Step, Wait, Want,
};
use crate::counters::Served;
use crate::handler::destination::{Refusal, Rules, refuse};
use crate::handler::reverse_proxy::{ReverseProxy, TunnelId, TunnelStage, UpstreamClient};

/// Exchange IDs of tunnels start here, those of the reverse proxy's exchanges at 0.
const FIRST_TUNNEL: usize = 1 << (usize::BITS - 1);

#[derive(Debug)]
pub struct ForwardProxy {
    pub(super) rules: Arc<Rules>,
    relay: ReverseProxy,
    /// CONNECT requests that wait for their tunnels.
    opening: Slab<TunnelId>,
}

impl ForwardProxy {
    pub fn new(rules: Arc<Rules>, relay: ReverseProxy) -> ForwardProxy {
        ForwardProxy { rules, relay, opening: Slab::new() }
    }

    pub(super) fn upstream_client(&mut self) -> &mut UpstreamClient {
        self.relay.upstream_client()
    }

    /// Lets the CONNECT request wait for its tunnel.
    pub(super) fn wait(&mut self, tunnel: TunnelId) -> Step {
        Step::Wait(ExchangeId(FIRST_TUNNEL + self.opening.insert(tunnel)))
    }

    pub(super) fn refuse(
        &mut self,
        request: &Request<'_>,
        refusal: Refusal,
        response: &mut Response<'_, '_>,
    ) -> Step {
        refuse(request, refusal, &self.upstream_client().proxy().pseudonym, response)
    }
}

/// The index of a tunnel being opened.
fn opening(exchange: ExchangeId) -> Option<usize> {
    exchange.0.checked_sub(FIRST_TUNNEL)
}

impl Handler for ForwardProxy {
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        self.relay.set_current(response.shared);
        if request.method == Method::Connect {
            return self.connect(request, response);
        }
        match self.rules.origin(request, response.peer()) {
            // It has no upstreams, and so no services.
            Ok(_) => self.relay.accept(HostId(0), request, response),
            Err(refusal) => self.refuse(request, refusal, response),
        }
    }

    fn resume(
        &mut self,
        exchange: ExchangeId,
        event: ExchangeEvent,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        match opening(exchange) {
            Some(index) => {
                self.relay.set_current(response.shared);
                let tunnel = self.opening.remove(index);
                self.connected(request, tunnel, response)
            }
            None => self.relay.resume(exchange, event, request, response),
        }
    }

    fn takes_bodies(&self) -> bool {
        self.relay.takes_bodies()
    }

    fn upload(&mut self, exchange: ExchangeId, part: &[u8], shared: &mut Shared<'_>) {
        if opening(exchange).is_none() {
            self.relay.upload(exchange, part, shared);
        }
    }

    fn end_upload(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) {
        if opening(exchange).is_none() {
            self.relay.end_upload(exchange, shared);
        }
    }

    fn takes_upload(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> bool {
        opening(exchange).is_none() && self.relay.takes_upload(exchange, shared)
    }

    fn progress(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> Progress {
        let Some(index) = opening(exchange) else { return self.relay.progress(exchange, shared) };
        self.relay.set_current(shared);
        let tunnel = self.opening[index];
        match self.upstream_client().tunnel(tunnel).stage() {
            TunnelStage::Opening => Progress::Pending { wants_body: false },
            _ => Progress::Ready,
        }
    }

    fn interim(&mut self, exchange: ExchangeId, heads: &mut Vec<u8>, shared: &mut Shared<'_>) {
        self.relay.interim(exchange, heads, shared);
    }

    fn body(
        &mut self,
        exchange: ExchangeId,
        event: ExchangeEvent,
        body: &mut BodyWriter<'_>,
        shared: &mut Shared<'_>,
    ) -> BodyStep {
        self.relay.body(exchange, event, body, shared)
    }

    fn has_body(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) -> bool {
        self.relay.has_body(exchange, shared)
    }

    fn finish(&mut self, exchange: ExchangeId, shared: &mut Shared<'_>) {
        let Some(index) = opening(exchange) else { return self.relay.finish(exchange, shared) };
        self.relay.set_current(shared);
        let tunnel = self.opening.remove(index);
        self.upstream_client().break_tunnel(tunnel);
        self.upstream_client().release_tunnel(tunnel);
    }

    fn drive(&mut self, machine: MachineId, event: Event, shared: &mut Shared<'_>) -> (Want, Wait) {
        self.relay.drive(machine, event, shared)
    }

    fn end(&mut self, machine: MachineId, shared: &mut Shared<'_>) -> u64 {
        self.relay.end(machine, shared)
    }

    fn tick(&mut self, shared: &mut Shared<'_>) {
        self.relay.tick(shared);
    }

    fn outbox(&mut self) -> Option<&mut Outbox> {
        self.relay.outbox()
    }

    fn is_busy(&self) -> bool {
        self.relay.is_busy()
    }

    fn report(&self, now: Duration, served: &mut Served) {
        self.relay.report(now, served);
    }
}
