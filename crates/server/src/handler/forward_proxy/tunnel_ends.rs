//! The connections of a tunnel: on each socket one that receives and one that sends.
//!
//! The client's receiver is what its connection has become; the origin's is what has connected to it. Their senders are
//! launched beside them, on the same sockets. What passes between them is in [`tunnels`](super::tunnels).

use sojourn_http::Status;

use super::tunnels::{Stage, TunnelId, Way};
use crate::connection::{Buffer, Event, Output, Reason, Shared, Wait, Want};
use crate::counters::Counter;
use crate::handler::reverse_proxy::{Exchanges, Machine};

/// A receive of as many bytes says that more come at once than a small buffer holds.
const BUSY_BYTES_MIN: usize = 4 * 1024;

/// A connection made for a tunnel.
#[derive(Debug)]
pub enum TunnelEnd {
    Far(Far),
    Sender(Sender),
}

/// The origin's side: connects, then receives.
#[derive(Debug)]
pub struct Far {
    receiver: Receiver,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    New,
    Connecting,
    /// The tunnel is given up; the driver has not confirmed that yet.
    Recalled,
    Connected,
}

/// Receives for one direction of a tunnel.
#[derive(Debug)]
pub struct Receiver {
    tunnel: TunnelId,
    way: Way,
    is_receiving: bool,
    /// The driver has been told to stop that, and has yet to say that it has.
    is_recalled: bool,
    is_busy: bool,
}

/// Sends in one direction of a tunnel.
#[derive(Debug)]
pub struct Sender {
    tunnel: TunnelId,
    way: Way,
    doing: Doing,
    is_recalled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Sending,
    /// Saying that this was all.
    Shutting,
}

impl TunnelEnd {
    /// Connects to the origin.
    pub fn far(tunnel: TunnelId) -> TunnelEnd {
        TunnelEnd::Far(Far { receiver: Receiver::new(tunnel, Way::Back), step: Step::New })
    }

    /// Sends in direction `way`.
    pub fn sender(tunnel: TunnelId, way: Way) -> TunnelEnd {
        TunnelEnd::Sender(Sender { tunnel, way, doing: Doing::Nothing, is_recalled: false })
    }
}

impl Machine for TunnelEnd {
    fn handle(&mut self, event: Event, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        match self {
            TunnelEnd::Far(far) => far.handle(event, exchanges, shared),
            TunnelEnd::Sender(sender) => sender.handle(event, exchanges, shared),
        }
    }

    fn waits_for(&self) -> Wait {
        match self {
            TunnelEnd::Far(far) if far.step == Step::Connected => far.receiver.waits_for(),
            TunnelEnd::Far(_) => Wait::UpstreamConnect,
            TunnelEnd::Sender(sender) if sender.doing == Doing::Nothing => Wait::Answer,
            TunnelEnd::Sender(_) => Wait::Tunnel,
        }
    }

    fn sent(&self) -> Counter {
        match self {
            TunnelEnd::Sender(Sender { way: Way::Back, .. }) => Counter::SentBytes,
            _ => Counter::UpstreamSentBytes,
        }
    }

    fn finish(&mut self, exchanges: &mut Exchanges, _shared: &mut Shared<'_>) -> u64 {
        match self {
            TunnelEnd::Far(far) if far.step == Step::Connected => far.receiver.finish(exchanges),
            TunnelEnd::Far(far) => exchanges.release_tunnel(far.receiver.tunnel),
            TunnelEnd::Sender(sender) => sender.finish(exchanges),
        }
        0
    }
}

impl Far {
    fn handle(&mut self, event: Event, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        let tunnel = self.receiver.tunnel;
        if self.step == Step::Connected {
            return self.receiver.handle(event, exchanges, shared);
        }
        let is_wanted = exchanges.tunnel(tunnel).stage() == Stage::Opening;
        match (event, self.step) {
            (Event::Woken, Step::New) if is_wanted => {
                self.step = Step::Connecting;
                exchanges.receive_for(tunnel, Way::Back);
                Want::Send(Output { awaits_connection: true, ..Output::default() })
            }
            (Event::Woken, Step::Connecting) if !is_wanted => {
                self.step = Step::Recalled;
                Want::Recall
            }
            (Event::Woken, Step::Connecting | Step::Recalled) => Want::Wait,
            (Event::Sent(_), _) if reach(tunnel, exchanges, shared) => {
                self.step = Step::Connected;
                self.receiver.go_on(exchanges, shared)
            }
            (Event::Failed, Step::New | Step::Connecting) => {
                exchanges.fail_tunnel(tunnel, Status::BadGateway);
                Want::Close(Reason::Failed)
            }
            (Event::Expired, Step::Connecting) => {
                exchanges.fail_tunnel(tunnel, Status::GatewayTimeout);
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
    /// The client of `tunnel` has not been answered yet.
    pub fn new(tunnel: TunnelId) -> TunnelClient {
        TunnelClient { receiver: Receiver::new(tunnel, Way::Out), is_begun: false }
    }
}

impl Machine for TunnelClient {
    /// The first event comes once the client is told.
    fn handle(&mut self, event: Event, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        if !std::mem::replace(&mut self.is_begun, true) {
            exchanges.receive_for(self.receiver.tunnel, Way::Out);
            exchanges.launch_sender(self.receiver.tunnel, Way::Back);
        }
        self.receiver.handle(event, exchanges, shared)
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

    fn finish(&mut self, exchanges: &mut Exchanges, _shared: &mut Shared<'_>) -> u64 {
        let bytes = exchanges.tunnel(self.receiver.tunnel).moved_bytes(Way::Back);
        self.receiver.finish(exchanges);
        bytes
    }
}

impl Receiver {
    pub fn new(tunnel: TunnelId, way: Way) -> Receiver {
        Receiver { tunnel, way, is_receiving: false, is_recalled: false, is_busy: false }
    }

    /// Takes an event, says what is wanted next.
    pub fn handle(&mut self, event: Event, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        if self.is_recalled && matches!(event, Event::Woken) {
            return Want::Wait;
        }
        let was_receiving = std::mem::replace(&mut self.is_receiving, false);
        self.is_recalled = false;
        let tunnel = self.tunnel;
        match event {
            Event::Woken if was_receiving => {
                if exchanges.tunnel(tunnel).is_over() {
                    self.is_recalled = true;
                    return Want::Recall;
                }
                self.is_receiving = true;
                return Want::Wait;
            }
            Event::Received(buffer) => {
                self.is_busy = buffer.unread().len() >= BUSY_BYTES_MIN;
                exchanges.push(tunnel, self.way, buffer.unread(), shared.served);
                shared.pool.put_buffer(buffer);
            }
            Event::Ended => exchanges.end_way(tunnel, self.way),
            Event::Expired if exchanges.ends_idle(tunnel) => {
                shared.served.count(Counter::LimitTunnelIdle);
                return Want::Close(Reason::TimedOut);
            }
            Event::Failed => {
                exchanges.break_tunnel(tunnel);
                return Want::Close(Reason::Failed);
            }
            _ => {}
        }
        self.go_on(exchanges, shared)
    }

    /// Receives, if there is room; the driver does nothing for it.
    pub fn go_on(&mut self, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        let tunnel = exchanges.tunnel(self.tunnel);
        if tunnel.is_over() {
            return Want::Close(Reason::Finished);
        }
        if !tunnel.takes(self.way) {
            return Want::Wait;
        }
        self.is_receiving = true;
        if !self.is_busy {
            // A tunnel that waits holds no memory.
            return Want::Receive(Buffer::default());
        }
        let mut buffer = shared.pool.take_buffer();
        buffer.expect_much();
        Want::Receive(buffer)
    }

    pub fn waits_for(&self) -> Wait {
        // While it does not receive, those who send have to be patient.
        if self.is_receiving { Wait::Tunnel } else { Wait::Answer }
    }

    /// It is about to be forgotten.
    pub fn finish(&mut self, exchanges: &mut Exchanges) {
        exchanges.break_tunnel(self.tunnel);
        exchanges.release_tunnel(self.tunnel);
    }
}

impl Sender {
    fn handle(&mut self, event: Event, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        if self.is_recalled && matches!(event, Event::Woken) {
            return Want::Wait;
        }
        let did = std::mem::replace(&mut self.doing, Doing::Nothing);
        self.is_recalled = false;
        let tunnel = self.tunnel;
        match event {
            Event::Woken if did != Doing::Nothing => {
                self.doing = did;
                self.is_recalled = exchanges.tunnel(tunnel).is_over();
                if self.is_recalled { Want::Recall } else { Want::Wait }
            }
            Event::Sent(output) => {
                shared.pool.put(output.bytes);
                if did == Doing::Shutting {
                    exchanges.shut_way(tunnel, self.way);
                    return Want::Close(Reason::Finished);
                }
                self.go_on(exchanges, shared)
            }
            Event::Expired if !exchanges.tunnel(tunnel).is_over() => {
                shared.served.count(Counter::LimitTunnelIdle);
                exchanges.break_tunnel(tunnel);
                Want::Close(Reason::TimedOut)
            }
            Event::Failed => {
                exchanges.break_tunnel(tunnel);
                Want::Close(Reason::Failed)
            }
            _ => self.go_on(exchanges, shared),
        }
    }

    fn go_on(&mut self, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        exchanges.send_for(self.tunnel, self.way);
        let tunnel = exchanges.tunnel(self.tunnel);
        if tunnel.is_over() {
            return Want::Close(Reason::Finished);
        }
        if tunnel.is_drained(self.way) {
            self.doing = Doing::Shutting;
            return Want::Send(Output { is_last: true, ..Output::default() });
        }
        if !tunnel.has_bytes(self.way) {
            return Want::Wait;
        }
        self.doing = Doing::Sending;
        let bytes = exchanges.take(self.tunnel, self.way, shared.pool.take());
        Want::Send(Output { bytes, ..Output::default() })
    }

    fn finish(&mut self, exchanges: &mut Exchanges) {
        if !exchanges.tunnel(self.tunnel).is_shut(self.way) {
            exchanges.break_tunnel(self.tunnel);
        }
        exchanges.release_tunnel(self.tunnel);
    }
}

/// The origin is connected; returns true if the tunnel is still wanted.
fn reach(tunnel: TunnelId, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> bool {
    exchanges.reach_tunnel(tunnel, shared.served)
}
