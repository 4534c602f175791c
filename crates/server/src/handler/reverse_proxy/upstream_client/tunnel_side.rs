//! One side of a tunnel: a connection that receives from it and sends to it.
//!
//! A connection does one thing at a time, and neither side may wait for the other to read. So it stops receiving when there is
//! something to send. What is not accepted is given back as soon as something can be received, or once there is room for that.
//! This works through TLS, too.

use super::UpstreamClient;
use super::tunnel::Direction;
use crate::connection::{Buffer, Event, Output, Reason, Shared, Wait, Want};
use crate::counters::Counter;
use crate::handler::reverse_proxy::TunnelId;

/// A receive of at least this size suggests that more arrives at once than a small buffer holds.
const BUSY_BYTES_MIN: usize = 4 * 1024;

/// A connection that receives from its side of a tunnel and sends to it.
#[derive(Debug)]
pub struct TunnelSide {
    tunnel: TunnelId,
    /// The direction for which it receives.
    from: Direction,
    state: State,
    /// The driver was told to stop and has not confirmed that yet.
    is_cancelling: bool,
    is_busy: bool,
    /// What the socket has not accepted yet.
    unsent: Option<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nothing,
    Receiving,
    /// Taking what has arrived, before it sends more.
    Looking,
    Sending {
        /// It is interrupted by what arrives, because there is room for that.
        yields: bool,
    },
    /// Passing on the end of the other direction.
    Shutting,
    Closing,
}

impl TunnelSide {
    pub fn new(tunnel: TunnelId, from: Direction) -> TunnelSide {
        TunnelSide { tunnel, from, state: State::Nothing, is_cancelling: false, is_busy: false, unsent: None }
    }

    /// Takes part in the tunnel from now on; the driver must be idle.
    pub fn begin(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        self.join(upstream_client);
        self.advance(upstream_client, shared)
    }

    /// The current connection takes part in the tunnel.
    pub fn join(&mut self, upstream_client: &mut UpstreamClient) {
        upstream_client.receive_for(self.tunnel, self.from);
        upstream_client.send_for(self.tunnel, self.to());
    }

    fn to(&self) -> Direction {
        self.from.opposite()
    }

    pub fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        let did = std::mem::replace(&mut self.state, State::Nothing);
        let mut may_look = false;
        match event {
            Event::Woken if did != State::Nothing => return self.on_wake(did, upstream_client, shared),
            Event::Received(buffer) => {
                self.is_busy = buffer.unread().len() >= BUSY_BYTES_MIN;
                upstream_client.push(self.tunnel, self.from, buffer.unread(), shared);
                shared.pool.put_buffer(buffer);
            }
            Event::Ended => upstream_client.end_direction(self.tunnel, self.from),
            Event::Sent(output) if !output.is_sent() => {
                self.unsent = Some(output);
                may_look = true;
            }
            Event::Sent(output) => {
                output.recycle(shared.pool);
                if did == State::Shutting {
                    upstream_client.shut_direction(self.tunnel, self.to());
                }
                may_look = true;
            }
            Event::Expired if matches!(did, State::Sending { .. } | State::Shutting) => {
                shared.served.count(Counter::LimitTunnelIdle);
                upstream_client.break_tunnel(self.tunnel);
                return self.close(Reason::TimedOut);
            }
            Event::Expired if upstream_client.ends_idle(self.tunnel) => {
                shared.served.count(Counter::LimitTunnelIdle);
                return self.close(Reason::TimedOut);
            }
            Event::Failed => {
                upstream_client.break_tunnel(self.tunnel);
                return self.close(Reason::Failed);
            }
            _ => {}
        }
        self.is_cancelling = false;
        if may_look && self.has_output(upstream_client) && self.can_receive(upstream_client) {
            self.state = State::Looking;
            return Want::Look(self.buffer(shared));
        }
        self.advance(upstream_client, shared)
    }

    /// Handles a wake-up while the driver is at work, which it may be without reason.
    fn on_wake(&mut self, did: State, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        self.state = did;
        let is_over = upstream_client.tunnel(self.tunnel).is_over();
        let has_work = match did {
            State::Receiving => is_over || self.has_output(upstream_client),
            State::Sending { yields } => is_over || !yields && self.can_receive(upstream_client),
            State::Shutting => is_over,
            State::Nothing | State::Looking | State::Closing => false,
        };
        if !has_work || self.is_cancelling {
            return Want::Wait;
        }
        if did == State::Receiving && shared.stops_receiving && !is_over {
            // Its buffer is empty.
            return self.advance(upstream_client, shared);
        }
        self.is_cancelling = true;
        Want::CancelReceive
    }

    /// Sends what there is, otherwise receives if there is room; the driver must be idle.
    fn advance(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        self.state = State::Nothing;
        let (tunnel, to) = (self.tunnel, self.to());
        if upstream_client.tunnel(tunnel).is_over() {
            return self.close(Reason::Finished);
        }
        if upstream_client.tunnel(tunnel).has_bytes(to) || self.unsent.is_some() {
            let yields = self.can_receive(upstream_client);
            self.state = State::Sending { yields };
            let output = self.unsent.take().unwrap_or_else(|| Output::from(upstream_client.take(tunnel, to)));
            return Want::Send(Output { yields, ..output });
        }
        if self.has_output(upstream_client) {
            self.state = State::Shutting;
            return Want::Send(Output { is_last: true, ..Output::default() });
        }
        if !self.can_receive(upstream_client) {
            return Want::Wait;
        }
        self.state = State::Receiving;
        Want::Receive(self.buffer(shared))
    }

    /// A waiting tunnel holds no buffers.
    fn buffer(&self, shared: &mut Shared<'_>) -> Buffer {
        if !self.is_busy {
            return Buffer::default();
        }
        let mut buffer = shared.pool.take_buffer();
        buffer.reserve_for_body();
        buffer
    }

    fn can_receive(&self, upstream_client: &mut UpstreamClient) -> bool {
        upstream_client.tunnel(self.tunnel).can_receive(self.from)
    }

    /// Returns true if there are bytes to send, or the end.
    fn has_output(&self, upstream_client: &mut UpstreamClient) -> bool {
        let (tunnel, to) = (upstream_client.tunnel(self.tunnel), self.to());
        self.unsent.is_some() || tunnel.has_bytes(to) || tunnel.is_drained(to) && !tunnel.is_shut(to)
    }

    fn close(&mut self, reason: Reason) -> Want {
        self.state = State::Closing;
        Want::Close(reason)
    }

    pub fn waits_for(&self) -> Wait {
        // While it waits for room, the other side has the tunnel's timeout.
        if self.state == State::Nothing { Wait::Answer } else { Wait::Tunnel }
    }

    /// Called before it is dropped. Returns the bytes for this side.
    pub fn finish(&mut self, upstream_client: &mut UpstreamClient) -> u64 {
        let bytes = upstream_client.tunnel(self.tunnel).moved_bytes(self.to());
        upstream_client.break_tunnel(self.tunnel);
        upstream_client.release_tunnel(self.tunnel);
        bytes
    }
}
