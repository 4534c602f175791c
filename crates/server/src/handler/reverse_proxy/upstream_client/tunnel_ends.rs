//! The ends of a tunnel that have no other task: the connection to an origin, and a client's connection after its answer.
//!
//! What they do while the tunnel is open is in [`TunnelSide`].

use sojourn_http::Status;

use super::tunnel::{Direction, Stage};
use super::tunnel_side::TunnelSide;
use super::{Machine, UpstreamClient};
use crate::connection::{Event, Output, Reason, Shared, Wait, Want};
use crate::counters::Counter;
use crate::handler::reverse_proxy::TunnelId;

/// The connection to the origin of a CONNECT.
#[derive(Debug)]
pub struct OriginEnd {
    tunnel: TunnelId,
    side: TunnelSide,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    New,
    Connecting,
    /// The tunnel was abandoned; the driver has not confirmed that yet.
    Cancelling,
    Connected,
}

impl OriginEnd {
    pub fn new(tunnel: TunnelId) -> OriginEnd {
        OriginEnd { tunnel, side: TunnelSide::new(tunnel, Direction::ToClient), step: Step::New }
    }
}

impl Machine for OriginEnd {
    fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        if self.step == Step::Connected {
            return self.side.handle(event, upstream_client, shared);
        }
        let is_awaited = upstream_client.tunnel(self.tunnel).stage() == Stage::Opening;
        match (event, self.step) {
            (Event::Woken, Step::New) if is_awaited => {
                self.step = Step::Connecting;
                self.side.join(upstream_client);
                Want::Send(Output { awaits_connection: true, ..Output::default() })
            }
            (Event::Woken, Step::Connecting) if !is_awaited => {
                self.step = Step::Cancelling;
                Want::CancelReceive
            }
            (Event::Woken, Step::Connecting | Step::Cancelling) => Want::Wait,
            (Event::Sent(_), _) if upstream_client.reach_tunnel(self.tunnel, shared.served) => {
                self.step = Step::Connected;
                self.side.begin(upstream_client, shared)
            }
            (Event::Failed, Step::New | Step::Connecting) => {
                upstream_client.fail_tunnel(self.tunnel, Status::BadGateway);
                Want::Close(Reason::Failed)
            }
            (Event::Expired, Step::Connecting) => {
                upstream_client.fail_tunnel(self.tunnel, Status::GatewayTimeout);
                Want::Close(Reason::TimedOut)
            }
            _ => Want::Close(Reason::Finished),
        }
    }

    fn waits_for(&self) -> Wait {
        if self.step == Step::Connected { self.side.waits_for() } else { Wait::UpstreamConnect }
    }

    fn finish(&mut self, upstream_client: &mut UpstreamClient, _shared: &mut Shared<'_>) -> u64 {
        if self.step == Step::Connected {
            self.side.finish(upstream_client);
        } else {
            upstream_client.release_tunnel(self.tunnel);
        }
        0
    }
}

/// A client's connection that has become a tunnel's.
#[derive(Debug)]
pub struct TunnelClient {
    side: TunnelSide,
    is_begun: bool,
}

impl TunnelClient {
    /// For a client that has not been answered yet.
    pub fn new(tunnel: TunnelId) -> TunnelClient {
        TunnelClient { side: TunnelSide::new(tunnel, Direction::ToOrigin), is_begun: false }
    }
}

impl Machine for TunnelClient {
    /// Handles an event; the first one comes when the client has been answered.
    fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.side.join(upstream_client);
        }
        self.side.handle(event, upstream_client, shared)
    }

    fn sent(&self) -> Counter {
        Counter::SentBytes
    }

    fn is_launched(&self) -> bool {
        false
    }

    fn waits_for(&self) -> Wait {
        self.side.waits_for()
    }

    fn finish(&mut self, upstream_client: &mut UpstreamClient, _shared: &mut Shared<'_>) -> u64 {
        self.side.finish(upstream_client)
    }
}
