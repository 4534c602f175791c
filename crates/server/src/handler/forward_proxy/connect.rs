//! CONNECT: a request that becomes a tunnel to the origin it names.

use sojourn_http::Status;
use sojourn_http::request::{Body, Request};
use sojourn_http_cache::fields::Section;
use sojourn_http_cache::forward::is_loop;

use super::ForwardProxy;
use crate::access_log::Outcome;
use crate::connection::{Response, Source, Step};
use crate::handler::reverse_proxy::{End, TunnelClient, TunnelId, TunnelStage};

impl ForwardProxy {
    /// Opens the tunnel for `request`.
    pub(super) fn connect(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step {
        if request.body != Body::Length(0) {
            // What precedes a tunnel has no framing.
            return response.page(request, Status::BadRequest);
        }
        let origin = match self.rules.tunnel_origin(request, response.peer()) {
            Ok(origin) => origin,
            Err(refusal) => return self.refuse(request, refusal, response),
        };
        if is_loop(Section(request.fields), &self.upstream_client().proxy().pseudonym) {
            return response.page(request, Status::LoopDetected);
        }
        if response.has_earlier_output() {
            return Step::Flush;
        }
        match self.upstream_client().open_tunnel(origin, response.peer(), response.shared.served) {
            Ok(tunnel) => self.wait(tunnel),
            Err(refusal) => self.refuse(request, refusal, response),
        }
    }

    /// The tunnel for `request` is open, or cannot be opened.
    pub(super) fn connected(
        &mut self,
        request: &Request<'_>,
        tunnel: TunnelId,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let stage = self.upstream_client().tunnel(tunnel).stage();
        if stage != TunnelStage::Open {
            self.upstream_client().break_tunnel(tunnel);
            self.upstream_client().release_tunnel(tunnel);
            return match stage {
                TunnelStage::Closed(End::Refused(refusal)) => self.refuse(request, refusal, response),
                TunnelStage::Closed(End::Failed(status)) => response.page(request, status),
                // The origin closed the connection at once.
                _ => response.page(request, Status::BadGateway),
            };
        }
        response.note_outcome(Outcome::Tunnel);
        response.note_source(Source::Host);
        let client = self.upstream_client().add(Box::new(TunnelClient::new(tunnel)));
        response.switch(request, 200, b"Connection established", b"", client)
    }
}
