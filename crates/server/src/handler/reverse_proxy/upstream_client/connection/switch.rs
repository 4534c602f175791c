//! After a 101 that was asked for, a connection to an upstream no longer speaks HTTP: it is one side of a tunnel.
//!
//! It stays in use, and keeps its flow, which counts for the client's share of connections.

use sojourn_http::Status;
use sojourn_http::request::Version;
use sojourn_http::upstream::Head;

use super::{Stage, UpstreamClient, UpstreamConnection};
use crate::connection::{Reason, Shared, Want};
use crate::counters::Counter;
use crate::handler::destination::Refusal;
use crate::handler::reverse_proxy::upstream_client::tunnel::Direction;
use crate::handler::reverse_proxy::upstream_client::tunnel_side::TunnelSide;
use crate::handler::reverse_proxy::{End, FlowId, TunnelId};

/// Why there is no tunnel.
pub(super) enum NoTunnel {
    /// The upstream has switched to what was not asked for.
    Unasked,
    /// The client has opened too many meanwhile.
    Refused(Refusal),
}

/// Opens the tunnel for the flow, to which the upstream has switched.
pub(super) fn open_tunnel(
    id: FlowId,
    head: &Head<'_>,
    upstream_client: &mut UpstreamClient,
    shared: &mut Shared<'_>,
) -> Result<TunnelId, NoTunnel> {
    let flow = upstream_client.flow(id);
    let (began, client) = (flow.began, flow.client.ok_or(NoTunnel::Unasked)?);
    if head.version != Version::Http11 || !upstream_client.begin_switch(id, head) {
        return Err(NoTunnel::Unasked);
    }
    let waited = shared.clock.now.saturating_sub(began);
    shared.served.add(Counter::UpstreamHeadWait, waited.as_nanos() as u64);
    upstream_client.may_open_tunnel(client.address).map_err(NoTunnel::Refused)?;
    let tunnel = upstream_client.open_upgraded(client.address, shared.served);
    upstream_client.flow(id).tunnel = Some(tunnel);
    Ok(tunnel)
}

impl UpstreamConnection {
    /// Becomes a side of the tunnel; what has arrived behind the 101 is its first bytes.
    pub(super) fn switch(
        &mut self,
        tunnel: Result<TunnelId, NoTunnel>,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        let id = self.flow.expect("there is a request");
        let tunnel = match tunnel {
            Ok(tunnel) => tunnel,
            Err(NoTunnel::Refused(refusal)) => {
                upstream_client.flow(id).answer = None;
                upstream_client.finish(id, End::Refused(refusal));
                self.flow = None;
                return Want::Close(Reason::Finished);
            }
            Err(NoTunnel::Unasked) => return self.fail_upstream(Status::BadGateway, upstream_client, shared),
        };
        upstream_client.succeed_at(self.upstream);
        self.note_answer(upstream_client);
        let early = std::mem::take(&mut self.input);
        if !early.unread().is_empty() {
            upstream_client.push(tunnel, Direction::ToClient, early.unread(), shared);
        }
        shared.pool.put_buffer(early);
        upstream_client.wake_readers(id);
        let mut side = TunnelSide::new(tunnel, Direction::ToClient);
        let want = side.begin(upstream_client, shared);
        self.stage = Stage::Tunnel(side);
        want
    }

    /// Ends the tunnel, if there is one, and its flow.
    pub(super) fn leave_tunnel(&mut self, upstream_client: &mut UpstreamClient) {
        if let Stage::Tunnel(side) = &mut self.stage {
            side.finish(upstream_client);
            if let Some(flow) = self.flow.take() {
                upstream_client.finish(flow, End::Complete);
            }
        }
    }
}
