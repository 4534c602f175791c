//! CONNECT: a request that becomes a tunnel to the origin that it names.

use sojourn_http::Status;
use sojourn_http::request::{Body, Request};
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::is_loop;

use super::TunnelClient;
use crate::access_log::Outcome;
use crate::connection::{Response, Source, Step};
use crate::handler::reverse_proxy::{End, Exchange, ExchangeStage, Machine, ReverseProxy, Stage, TunnelId};

impl ReverseProxy {
    /// Opens the tunnel that `request` asks for.
    pub(in crate::handler) fn connect(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        if request.body != Body::Length(0) {
            // What a tunnel begins with has no framing.
            return response.page(request, Status::BadRequest);
        }
        let proxy = self.exchanges.proxy();
        let Some(forward) = &proxy.forward else { return response.page(request, Status::NotImplemented) };
        let origin = match forward.tunnel_origin(request, response.peer(), response.is_secure()) {
            Ok(origin) => origin,
            Err(refusal) => return self.refuse(request, refusal, response),
        };
        if is_loop(Section(request.fields), &proxy.pseudonym) {
            return response.page(request, Status::LoopDetected);
        }
        if response.is_behind_others() {
            return Step::Flush;
        }
        match self.exchanges.open_tunnel(origin, response.peer(), response.shared.served) {
            Ok(id) => {
                let exchange = Exchange { stage: ExchangeStage::Opening(id), ..Exchange::default() };
                self.wait(exchange, response)
            }
            Err(refusal) => self.refuse(request, refusal, response),
        }
    }

    /// The tunnel that `request` asked for is there, or cannot be.
    pub(in crate::handler) fn connected(
        &mut self,
        request: &Request<'_>,
        id: TunnelId,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let stage = self.exchanges.tunnel(id).stage();
        if stage != Stage::Open {
            self.exchanges.break_tunnel(id);
            self.exchanges.release_tunnel(id);
            return match stage {
                Stage::Closed(End::Refused(refusal)) => self.refuse(request, refusal, response),
                Stage::Closed(End::Failed(status)) => response.page(request, status),
                // The origin was there for a moment.
                _ => response.page(request, Status::BadGateway),
            };
        }
        response.note_outcome(Outcome::Tunnel);
        response.note_source(Source::Host);
        let client = self.exchanges.add(Machine::Client(TunnelClient::new(id)));
        response.switch(request, 200, "Connection established", client)
    }
}
