//! The other side of a proxy: a connection to an upstream, which sends requests and receives answers.
//!
//! It is driven like a client's connection and fills [flows](crate::handler::reverse_proxy::Flow) one after the other. It never hears of
//! clients: who follows the flow is woken when there is news, and wakes this connection when there is room again.

use std::time::Duration;

use sojourn_http::Status;
use sojourn_http::upstream::Parser;

use super::{Buffer, Context, Event, Reason, Wait, Want};
use crate::handler::reverse_proxy::{End, Exchanges, Flow, FlowId, Upload};

mod answer;
mod body;
mod failure;
mod request;

use body::Body;
use failure::fail;

/// A connection to an upstream.
#[derive(Debug)]
pub struct Fetch {
    upstream: usize,
    /// What it fills; `None` while it has nothing to do.
    flow: Option<FlowId>,
    stage: Stage,
    parser: Parser,
    interim_responses: u32,
    /// Received and not yet understood, unless the driver has it.
    input: Buffer,
    /// The driver receives.
    is_receiving: bool,
    /// The driver has been told to stop that, and has yet to say that it has.
    is_recalled: bool,
    /// The request is sent, its body included.
    is_sent: bool,
    /// Requests answered on this connection before.
    answered: u32,
    /// Whether the upstream keeps the connection after the answer at hand.
    keeps: bool,
    /// When the head of the answer came.
    head_came: Duration,
}

#[derive(Debug)]
enum Stage {
    /// Nothing has been done.
    New,
    /// Connecting, the first of the request waiting to be sent.
    Connecting,
    /// Sending the request or a part of its body.
    Sending,
    /// Waiting for the head of the answer, and perhaps for more of the request's body.
    Head,
    /// Receiving the body of the answer, unless the flow is full.
    Body(Body),
    /// Nothing to do.
    Idle,
}

impl Fetch {
    /// A connection to `upstream` that is yet to be made, for a flow.
    pub fn new(upstream: usize, flow: FlowId) -> Fetch {
        Fetch {
            upstream,
            flow: Some(flow),
            stage: Stage::New,
            parser: Parser::default(),
            interim_responses: 0,
            input: Buffer::default(),
            is_receiving: false,
            is_recalled: false,
            is_sent: false,
            answered: 0,
            keeps: true,
            head_came: Duration::ZERO,
        }
    }

    /// Takes an event, says what is wanted next.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if self.is_recalled && matches!(event, Event::Woken) {
            return Want::Wait;
        }
        let was_receiving = std::mem::replace(&mut self.is_receiving, false);
        self.is_recalled = false;
        match event {
            Event::Woken => self.woken(was_receiving, context),
            Event::Received(buffer) => self.received(buffer, context),
            Event::Sent(output) => {
                context.pool.put(output.bytes);
                self.sent(context)
            }
            Event::Nothing => self.go_on(context),
            Event::Ended => self.ended(context),
            Event::Expired => self.expired(context),
            Event::Failed => self.broken(context),
            Event::Done(_) | Event::Refused | Event::Delegated | Event::Delivered(..) => {
                unreachable!("it asks for nothing of the disk")
            }
        }
    }

    /// What it waits for while its want cannot be done.
    pub fn waits_for(&self) -> Wait {
        match self.stage {
            Stage::New | Stage::Connecting => Wait::UpstreamConnect,
            Stage::Sending => Wait::UpstreamSend,
            // While the client has yet to send the rest, patience is with the client.
            Stage::Head if self.is_sent => Wait::UpstreamHead,
            Stage::Head => Wait::Answer,
            Stage::Body(_) if self.is_receiving => Wait::UpstreamBody,
            // The clients hold it back.
            Stage::Body(_) => Wait::Answer,
            Stage::Idle => Wait::UpstreamIdle,
        }
    }

    /// It is about to be forgotten.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        context.pool.put_buffer(std::mem::take(&mut self.input));
        if let Some(flow) = self.flow.take() {
            fail(flow, Status::BadGateway, false, context);
        }
        if let Some(flow) = exchanges(context).take_assignment() {
            fail(flow, Status::BadGateway, true, context);
        }
        exchanges(context).close(self.upstream);
    }

    /// Somebody has something for it, or had.
    fn woken(&mut self, was_receiving: bool, context: &mut Context<'_>) -> Want {
        let has_work = match self.stage {
            Stage::New => return self.begin(context),
            Stage::Connecting | Stage::Sending => false,
            Stage::Idle => exchanges(context).has_assignment(),
            Stage::Head | Stage::Body(_) if self.is_abandoned(context) => true,
            Stage::Head => !self.is_sent && self.flow(context).upload.as_ref().is_some_and(Upload::has_news),
            Stage::Body(_) => !was_receiving && !self.flow(context).is_full(),
        };
        match (has_work, was_receiving) {
            (true, true) => {
                self.is_recalled = true;
                Want::Recall
            }
            (true, false) => self.go_on(context),
            (false, _) => {
                self.is_receiving = was_receiving;
                Want::Wait
            }
        }
    }

    /// Goes on with what is to be done, the driver doing nothing.
    fn go_on(&mut self, context: &mut Context<'_>) -> Want {
        match self.stage {
            Stage::New => self.begin(context),
            Stage::Idle => match exchanges(context).take_assignment() {
                Some(flow) => {
                    self.flow = Some(flow);
                    self.begin(context)
                }
                None => self.receive(),
            },
            _ if self.is_abandoned(context) => Want::Close(Reason::Finished),
            Stage::Connecting | Stage::Sending => Want::Wait,
            Stage::Head => self.send_on(context),
            Stage::Body(_) => self.receive_body(context),
        }
    }

    fn flow<'c>(&self, context: &'c mut Context<'_>) -> &'c mut Flow {
        exchanges(context).flow(self.flow.expect("there is a request"))
    }

    fn is_abandoned(&self, context: &mut Context<'_>) -> bool {
        self.flow.is_some_and(|flow| exchanges(context).flow(flow).end == Some(End::Abandoned))
    }
}

fn exchanges<'c>(context: &'c mut Context<'_>) -> &'c mut Exchanges {
    context.exchanges.as_mut().expect("who has upstreams has exchanges")
}
