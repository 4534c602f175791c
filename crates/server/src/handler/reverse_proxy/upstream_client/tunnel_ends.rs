//! A tunnel's connections: on each of its two sockets one that receives and one that sends.
//!
//! The client's connection becomes a receiver, as does the connection to the origin. Their senders are launched beside
//! them on the same sockets. The shared state is in [`Tunnel`](super::tunnel::Tunnel).

use sojourn_http::Status;

use super::tunnel::{Direction, Stage, TunnelId};
use super::{Machine, UpstreamClient};
use crate::connection::{Buffer, Event, Output, Reason, Shared, Wait, Want};
use crate::counters::Counter;

/// A receive of at least this size suggests that more arrives at once than a small buffer holds.
const BUSY_BYTES_MIN: usize = 4 * 1024;

/// A connection made for a tunnel.
#[derive(Debug)]
pub enum TunnelEnd {
    OriginEnd(OriginEnd),
    Sender(Sender),
}

/// The origin's side: connects, then receives.
#[derive(Debug)]
pub struct OriginEnd {
    receiver: Receiver,
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

/// Receives for one direction of a tunnel.
#[derive(Debug)]
pub struct Receiver {
    tunnel: TunnelId,
    direction: Direction,
    is_receiving: bool,
    /// The driver was told to stop receiving and has not confirmed that yet.
    is_cancelling: bool,
    is_busy: bool,
}

/// Sends in one direction of a tunnel.
#[derive(Debug)]
pub struct Sender {
    tunnel: TunnelId,
    direction: Direction,
    state: SenderState,
    is_cancelling: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SenderState {
    Nothing,
    Sending,
    Shutting,
}

impl TunnelEnd {
    /// The end that connects to the origin and receives from it.
    pub fn origin(tunnel: TunnelId) -> TunnelEnd {
        TunnelEnd::OriginEnd(OriginEnd {
            receiver: Receiver::new(tunnel, Direction::ToClient),
            step: Step::New,
        })
    }

    pub fn sender(tunnel: TunnelId, direction: Direction) -> TunnelEnd {
        TunnelEnd::Sender(Sender { tunnel, direction, state: SenderState::Nothing, is_cancelling: false })
    }
}

impl Machine for TunnelEnd {
    fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        match self {
            TunnelEnd::OriginEnd(end) => end.handle(event, upstream_client, shared),
            TunnelEnd::Sender(sender) => sender.handle(event, upstream_client, shared),
        }
    }

    fn waits_for(&self) -> Wait {
        match self {
            TunnelEnd::OriginEnd(end) if end.step == Step::Connected => end.receiver.waits_for(),
            TunnelEnd::OriginEnd(_) => Wait::UpstreamConnect,
            TunnelEnd::Sender(sender) if sender.state == SenderState::Nothing => Wait::Answer,
            TunnelEnd::Sender(_) => Wait::Tunnel,
        }
    }

    fn sent(&self) -> Counter {
        match self {
            TunnelEnd::Sender(Sender { direction: Direction::ToClient, .. }) => Counter::SentBytes,
            _ => Counter::UpstreamSentBytes,
        }
    }

    fn finish(&mut self, upstream_client: &mut UpstreamClient, _shared: &mut Shared<'_>) -> u64 {
        match self {
            TunnelEnd::OriginEnd(end) if end.step == Step::Connected => end.receiver.finish(upstream_client),
            TunnelEnd::OriginEnd(end) => upstream_client.release_tunnel(end.receiver.tunnel),
            TunnelEnd::Sender(sender) => sender.finish(upstream_client),
        }
        0
    }
}

impl OriginEnd {
    fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        let tunnel = self.receiver.tunnel;
        if self.step == Step::Connected {
            return self.receiver.handle(event, upstream_client, shared);
        }
        let is_wanted = upstream_client.tunnel(tunnel).stage() == Stage::Opening;
        match (event, self.step) {
            (Event::Woken, Step::New) if is_wanted => {
                self.step = Step::Connecting;
                upstream_client.receive_for(tunnel, Direction::ToClient);
                Want::Send(Output { awaits_connection: true, ..Output::default() })
            }
            (Event::Woken, Step::Connecting) if !is_wanted => {
                self.step = Step::Cancelling;
                Want::CancelReceive
            }
            (Event::Woken, Step::Connecting | Step::Cancelling) => Want::Wait,
            (Event::Sent(_), _) if confirm_tunnel(tunnel, upstream_client, shared) => {
                self.step = Step::Connected;
                self.receiver.advance(upstream_client, shared)
            }
            (Event::Failed, Step::New | Step::Connecting) => {
                upstream_client.fail_tunnel(tunnel, Status::BadGateway);
                Want::Close(Reason::Failed)
            }
            (Event::Expired, Step::Connecting) => {
                upstream_client.fail_tunnel(tunnel, Status::GatewayTimeout);
                Want::Close(Reason::TimedOut)
            }
            _ => Want::Close(Reason::Finished),
        }
    }
}

/// A client's connection that has become a tunnel's: what the client sends goes into the tunnel.
#[derive(Debug)]
pub struct TunnelClient {
    receiver: Receiver,
    is_begun: bool,
}

impl TunnelClient {
    /// For a client that has not been answered yet.
    pub fn new(tunnel: TunnelId) -> TunnelClient {
        TunnelClient { receiver: Receiver::new(tunnel, Direction::ToOrigin), is_begun: false }
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
            upstream_client.receive_for(self.receiver.tunnel, Direction::ToOrigin);
            upstream_client.launch_sender(self.receiver.tunnel, Direction::ToClient);
        }
        self.receiver.handle(event, upstream_client, shared)
    }

    fn sent(&self) -> Counter {
        Counter::SentBytes
    }

    fn is_launched(&self) -> bool {
        false
    }

    fn waits_for(&self) -> Wait {
        self.receiver.waits_for()
    }

    fn finish(&mut self, upstream_client: &mut UpstreamClient, _shared: &mut Shared<'_>) -> u64 {
        let bytes = upstream_client.tunnel(self.receiver.tunnel).moved_bytes(Direction::ToClient);
        self.receiver.finish(upstream_client);
        bytes
    }
}

impl Receiver {
    pub fn new(tunnel: TunnelId, direction: Direction) -> Receiver {
        Receiver { tunnel, direction, is_receiving: false, is_cancelling: false, is_busy: false }
    }

    pub fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        if self.is_cancelling && matches!(event, Event::Woken) {
            return Want::Wait;
        }
        let was_receiving = std::mem::replace(&mut self.is_receiving, false);
        self.is_cancelling = false;
        let tunnel = self.tunnel;
        match event {
            Event::Woken if was_receiving => {
                if upstream_client.tunnel(tunnel).is_over() {
                    self.is_cancelling = true;
                    return Want::CancelReceive;
                }
                self.is_receiving = true;
                return Want::Wait;
            }
            Event::Received(buffer) => {
                self.is_busy = buffer.unread().len() >= BUSY_BYTES_MIN;
                upstream_client.push(tunnel, self.direction, buffer.unread(), shared.served);
                shared.pool.put_buffer(buffer);
            }
            Event::Ended => upstream_client.end_direction(tunnel, self.direction),
            Event::Expired if upstream_client.ends_idle(tunnel) => {
                shared.served.count(Counter::LimitTunnelIdle);
                return Want::Close(Reason::TimedOut);
            }
            Event::Failed => {
                upstream_client.break_tunnel(tunnel);
                return Want::Close(Reason::Failed);
            }
            _ => {}
        }
        self.advance(upstream_client, shared)
    }

    /// Receives if there is room; the driver must be idle.
    pub fn advance(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        let tunnel = upstream_client.tunnel(self.tunnel);
        if tunnel.is_over() {
            return Want::Close(Reason::Finished);
        }
        if !tunnel.can_receive(self.direction) {
            return Want::Wait;
        }
        self.is_receiving = true;
        if !self.is_busy {
            // A waiting tunnel holds no buffers.
            return Want::Receive(Buffer::default());
        }
        let mut buffer = shared.pool.take_buffer();
        buffer.reserve_for_body();
        Want::Receive(buffer)
    }

    pub fn waits_for(&self) -> Wait {
        // While it does not receive, the senders have the tunnel's timeout.
        if self.is_receiving { Wait::Tunnel } else { Wait::Answer }
    }

    /// Called before it is dropped.
    pub fn finish(&mut self, upstream_client: &mut UpstreamClient) {
        upstream_client.break_tunnel(self.tunnel);
        upstream_client.release_tunnel(self.tunnel);
    }
}

impl Sender {
    fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        if self.is_cancelling && matches!(event, Event::Woken) {
            return Want::Wait;
        }
        let did = std::mem::replace(&mut self.state, SenderState::Nothing);
        self.is_cancelling = false;
        let tunnel = self.tunnel;
        match event {
            Event::Woken if did != SenderState::Nothing => {
                self.state = did;
                self.is_cancelling = upstream_client.tunnel(tunnel).is_over();
                if self.is_cancelling { Want::CancelReceive } else { Want::Wait }
            }
            Event::Sent(output) => {
                shared.pool.put(output.bytes);
                if did == SenderState::Shutting {
                    upstream_client.shut_direction(tunnel, self.direction);
                    return Want::Close(Reason::Finished);
                }
                self.advance(upstream_client, shared)
            }
            Event::Expired if !upstream_client.tunnel(tunnel).is_over() => {
                shared.served.count(Counter::LimitTunnelIdle);
                upstream_client.break_tunnel(tunnel);
                Want::Close(Reason::TimedOut)
            }
            Event::Failed => {
                upstream_client.break_tunnel(tunnel);
                Want::Close(Reason::Failed)
            }
            _ => self.advance(upstream_client, shared),
        }
    }

    fn advance(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        upstream_client.send_for(self.tunnel, self.direction);
        let tunnel = upstream_client.tunnel(self.tunnel);
        if tunnel.is_over() {
            return Want::Close(Reason::Finished);
        }
        if tunnel.is_drained(self.direction) {
            self.state = SenderState::Shutting;
            return Want::Send(Output { is_last: true, ..Output::default() });
        }
        if !tunnel.has_bytes(self.direction) {
            return Want::Wait;
        }
        self.state = SenderState::Sending;
        let bytes = upstream_client.take(self.tunnel, self.direction, shared.pool.take());
        Want::Send(Output { bytes, ..Output::default() })
    }

    fn finish(&mut self, upstream_client: &mut UpstreamClient) {
        if !upstream_client.tunnel(self.tunnel).is_shut(self.direction) {
            upstream_client.break_tunnel(self.tunnel);
        }
        upstream_client.release_tunnel(self.tunnel);
    }
}

/// The origin is connected; returns true if the tunnel is still wanted.
fn confirm_tunnel(tunnel: TunnelId, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> bool {
    upstream_client.reach_tunnel(tunnel, shared.served)
}
