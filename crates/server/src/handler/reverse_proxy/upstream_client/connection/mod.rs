//! A connection to an upstream: sends requests and receives responses.
//!
//! It is driven like a client's connection and fills [flows](crate::handler::reverse_proxy::Flow) one after the other.
//! It does not know the clients: it wakes the flow's readers when something has arrived, and they wake it when there
//! is room again.
//!
//! The upstream may answer before it has read the whole request, and read no more before its answer is read. So between the
//! parts of a request's body that follow its head, and when one is not accepted, the connection looks for what has arrived.

use std::sync::Arc;
use std::time::Duration;

use sojourn_http::Status;
use sojourn_http::upstream::Parser;

use super::tunnel_side::TunnelSide;
use super::{Machine, UpstreamClient};
use crate::applications::ScriptRun;
use crate::connection::{Buffer, Event, Output, Reason, Shared, Wait, Want};
use crate::handler::reverse_proxy::bucket::StoreError;
use crate::handler::reverse_proxy::{Bucket, End, Flow, FlowId, Protocol, Upload};

mod body;
mod cgi;
mod failure;
mod fastcgi;
mod request;
mod response;
mod switch;

use body::Body;
use cgi::ScriptFields;
use failure::fail;
pub use fastcgi::FastCgi;

#[derive(Debug)]
pub struct UpstreamConnection {
    upstream: usize,
    /// The flow it fills; `None` while idle.
    flow: Option<FlowId>,
    stage: Stage,
    parser: Parser,
    protocol: UpstreamProtocol,
    interim_responses: u32,
    /// Received bytes not parsed yet, unless the driver has the buffer.
    input: Buffer,
    is_receiving: bool,
    /// The driver was told to stop receiving and has not confirmed that yet.
    is_cancelling: bool,
    /// The request was sent, including its body, or the upstream takes no more of that.
    is_sent: bool,
    /// A part of the request's body is being sent; the head is sent in a stage of its own.
    is_sending: bool,
    /// What the upstream has not accepted yet of such a part.
    unsent: Option<Output>,
    /// The upstream takes no more of the request's body, of which it has not got everything.
    is_cut: bool,
    /// It has not received any response yet.
    is_unanswered: bool,
    /// The number of responses received before.
    answered: u32,
    /// True if the upstream keeps the connection after the current response.
    keeps: bool,
    /// The bytes of the current response so far.
    response_bytes: usize,
    /// The last response was long, and the next one probably is.
    is_long: bool,
    head_received_at: Duration,
    /// The response is an error of a bucket, whose body no client gets.
    withheld: Option<StoreError>,
}

#[derive(Debug)]
enum UpstreamProtocol {
    /// Requests to a bucket are rewritten and signed.
    Http(Option<Arc<Bucket>>),
    FastCgi(Box<FastCgi>),
    /// The other end is a script's standard input and output.
    Cgi(ScriptFields, ScriptRun),
}

#[derive(Debug)]
enum Stage {
    New,
    /// Connecting; the first part of the request waits to be sent.
    Connecting,
    /// Sending the request's head and what has arrived of its body.
    Sending,
    /// Waiting for the response's head, and passing on the rest of the request's body.
    Head,
    /// Receiving the response's body, unless the flow is full, and passing on the rest of the request's body.
    Body(Body),
    Idle,
    /// After a 101: passes bytes on, until it ends.
    Tunnel(TunnelSide),
}

impl UpstreamConnection {
    /// A connection to `upstream`, to be made for a flow.
    pub fn new(upstream: usize, flow: FlowId, protocol: Protocol) -> UpstreamConnection {
        let protocol = match protocol {
            Protocol::Http => UpstreamProtocol::Http(None),
            Protocol::S3(bucket) => UpstreamProtocol::Http(Some(bucket)),
            Protocol::FastCgi(application) => UpstreamProtocol::FastCgi(Box::new(FastCgi::new(application))),
            Protocol::Cgi(_) => unreachable!("a script is asked for before"),
        };
        UpstreamConnection::by(protocol, upstream, flow)
    }

    /// A connection to a script that was asked for to answer a flow.
    pub fn of_script(upstream: usize, flow: FlowId, run: ScriptRun) -> UpstreamConnection {
        UpstreamConnection::by(UpstreamProtocol::Cgi(ScriptFields::default(), run), upstream, flow)
    }

    fn by(protocol: UpstreamProtocol, upstream: usize, flow: FlowId) -> UpstreamConnection {
        UpstreamConnection {
            upstream,
            flow: Some(flow),
            stage: Stage::New,
            parser: Parser::default(),
            protocol,
            interim_responses: 0,
            input: Buffer::default(),
            is_receiving: false,
            is_cancelling: false,
            is_sent: false,
            is_sending: false,
            unsent: None,
            is_cut: false,
            is_unanswered: true,
            answered: 0,
            keeps: true,
            response_bytes: 0,
            is_long: false,
            head_received_at: Duration::ZERO,
            withheld: None,
        }
    }
}

impl Machine for UpstreamConnection {
    fn handle(
        &mut self,
        event: Event,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        if let Stage::Tunnel(side) = &mut self.stage {
            return side.handle(event, upstream_client, shared);
        }
        if self.is_cancelling && matches!(event, Event::Woken) {
            return Want::Wait;
        }
        let was_receiving = std::mem::replace(&mut self.is_receiving, false);
        self.is_cancelling = false;
        match event {
            Event::Woken => self.on_wake(was_receiving, upstream_client, shared),
            Event::Received(buffer) => self.received(buffer, upstream_client, shared),
            Event::Sent(output) => self.sent(output, upstream_client, shared),
            Event::NothingReceived => self.advance(upstream_client, shared),
            Event::Ended => self.ended(upstream_client, shared),
            Event::Expired => self.expired(upstream_client, shared),
            Event::Failed => self.broken(upstream_client, shared),
            Event::Done(_) | Event::Refused | Event::Delegated | Event::Delivered(..) => {
                unreachable!("it asks for nothing of the disk")
            }
        }
    }

    fn waits_for(&self) -> Wait {
        match &self.stage {
            Stage::New | Stage::Connecting => Wait::UpstreamConnect,
            Stage::Sending => Wait::UpstreamSend,
            _ if self.is_sending => Wait::UpstreamSend,
            // While the client has not sent the whole body, the timeout is the client's.
            Stage::Head if self.is_sent => Wait::UpstreamHead,
            Stage::Head => Wait::Answer,
            Stage::Body(_) if self.is_receiving && self.is_sent => Wait::UpstreamBody,
            // The clients hold it back (backpressure).
            Stage::Body(_) => Wait::Answer,
            Stage::Idle => Wait::UpstreamIdle,
            Stage::Tunnel(side) => side.waits_for(),
        }
    }

    fn finish(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> u64 {
        shared.pool.put_buffer(std::mem::take(&mut self.input));
        self.leave_tunnel(upstream_client);
        if let Some(flow) = self.flow.take() {
            fail(flow, Status::BadGateway, false, upstream_client, shared);
        }
        if let Some(flow) = upstream_client.take_assignment() {
            upstream_client.reassign(flow, shared.served);
        }
        self.note_answer(upstream_client);
        upstream_client.close(self.upstream);
        0
    }
}

impl UpstreamConnection {
    /// Handles a wake-up from another connection, which may be spurious.
    fn on_wake(
        &mut self,
        was_receiving: bool,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        let has_work = match self.stage {
            Stage::New => return self.begin(upstream_client, shared),
            Stage::Connecting | Stage::Sending | Stage::Tunnel(_) => false,
            Stage::Head | Stage::Body(_) if self.is_sending => false,
            Stage::Idle => upstream_client.has_assignment() || upstream_client.is_to_give_way(self.upstream),
            Stage::Head | Stage::Body(_) if self.is_abandoned(upstream_client) => true,
            Stage::Head => self.has_upload(upstream_client),
            Stage::Body(_) if self.flow(upstream_client).is_full() => false,
            Stage::Body(_) => !was_receiving || self.has_upload(upstream_client),
        };
        match (has_work, was_receiving) {
            // An idle connection has lent no bytes with its buffer.
            (true, true) if shared.stops_receiving && matches!(self.stage, Stage::Idle) => {
                self.advance(upstream_client, shared)
            }
            (true, true) => {
                self.is_cancelling = true;
                Want::CancelReceive
            }
            (true, false) => self.advance(upstream_client, shared),
            (false, _) => {
                self.is_receiving = was_receiving;
                Want::Wait
            }
        }
    }

    /// Continues with the next want; the driver must be idle.
    fn advance(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        match self.stage {
            Stage::New => self.begin(upstream_client, shared),
            Stage::Idle => match upstream_client.take_assignment() {
                Some(flow) => {
                    self.flow = Some(flow);
                    self.begin(upstream_client, shared)
                }
                None if upstream_client.is_to_give_way(self.upstream) => Want::Close(Reason::Finished),
                None => self.receive(),
            },
            _ if self.is_abandoned(upstream_client) => Want::Close(Reason::Finished),
            Stage::Connecting | Stage::Sending | Stage::Tunnel(_) => Want::Wait,
            // Until there is room for what the upstream answers, it may accept nothing.
            Stage::Body(_) if upstream_client.is_full(self.flow.expect("there is a request")) => {
                self.hold_back(shared)
            }
            Stage::Head | Stage::Body(_) => self.send_on(upstream_client, shared),
        }
    }

    /// Returns true if there is more of the request's body to send.
    fn has_upload(&self, upstream_client: &mut UpstreamClient) -> bool {
        !self.is_sent && self.flow(upstream_client).upload.as_ref().is_some_and(Upload::can_continue)
    }

    fn note_answer(&mut self, upstream_client: &mut UpstreamClient) {
        if std::mem::take(&mut self.is_unanswered) {
            upstream_client.answered(self.upstream);
        }
    }

    fn flow<'c>(&self, upstream_client: &'c mut UpstreamClient) -> &'c mut Flow {
        upstream_client.flow(self.flow.expect("there is a request"))
    }

    fn is_abandoned(&self, upstream_client: &mut UpstreamClient) -> bool {
        self.flow.is_some_and(|flow| upstream_client.flow(flow).end == Some(End::Abandoned))
    }
}
