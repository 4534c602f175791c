//! A request to switch to another protocol (RFC 9110, 7.8), such as WebSocket: passes the cache by; after an upstream's 101 the
//! client's connection is one side of a tunnel.

use sojourn_http::Status;
use sojourn_http::request::Request;
use sojourn_http_cache::Forwarded;

use super::{Answer, ClientContext, ReverseProxy, TunnelClient, TunnelId, TunnelStage};
use crate::access_log::Outcome;
use crate::connection::{Response, Step};
use crate::handler::destination::refuse;

impl ReverseProxy {
    /// Sends `request`, which asks to switch to another protocol, to an upstream.
    pub(super) fn begin_upgrade(
        &mut self,
        request: &Request<'_>,
        client_context: ClientContext,
        response: &mut Response<'_, '_>,
    ) -> Step {
        if response.has_earlier_output() {
            return Step::Flush;
        }
        response.note_outcome(Outcome::Miss);
        if let Err(refusal) = self.upstream_client.may_open_tunnel(client_context.peer) {
            return refuse(request, refusal, &self.upstream_client.proxy().pseudonym, response);
        }
        let why = self.upstream_client.proxy().cache.as_ref().map(|_| Forwarded::Bypass);
        self.begin_flow(request, client_context, (None, None), why, response)
    }

    /// The upstream has switched: so does the client's connection.
    pub(super) fn switch(
        &mut self,
        request: &Request<'_>,
        tunnel: TunnelId,
        answer: &Answer,
        response: &mut Response<'_, '_>,
    ) -> Step {
        if self.upstream_client.tunnel(tunnel).stage() != TunnelStage::Open {
            // The upstream's connection has failed since.
            self.upstream_client.release_tunnel(tunnel);
            return response.page(request, Status::BadGateway);
        }
        response.note_outcome(Outcome::Tunnel);
        let client = self.upstream_client.add(Box::new(TunnelClient::new(tunnel)));
        let reason = answer.reason.as_deref().unwrap_or_default();
        response.switch(request, answer.status, reason, &answer.fields, client)
    }
}
