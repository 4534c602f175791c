//! The other side of a proxy: a connection to an upstream, which sends requests and receives answers.
//!
//! It is driven like a client's connection and fills [flows](crate::proxy::Flow) one after the other. It never hears of
//! clients: who follows the flow is woken when there is news, and wakes this connection when there is room again.

use std::time::Duration;

use sojourn_http::Status;
use sojourn_http::upstream::Parser;

use super::{Buffer, Context, Event, Output, Reason, Wait, Want};
use crate::counters::Counter;
use crate::proxy::{End, Exchanges, Flow, FlowId, Heard, Upload};

mod body;

use body::{Body, Progress};

/// Interim responses (1xx) before an answer; a server that sends more sends no answer.
const INTERIM_RESPONSES_MAX: u32 = 16;

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

    /// Begins with the flow at hand.
    fn begin(&mut self, context: &mut Context<'_>) -> Want {
        let id = self.flow.expect("it has something to do");
        exchanges(context).fill(id);
        if self.is_abandoned(context) {
            return Want::Close(Reason::Finished);
        }
        self.is_sent = false;
        self.interim_responses = 0;
        let mut bytes = context.pool.take();
        let flow = exchanges(context).flow(id);
        bytes.extend_from_slice(&flow.request);
        if let Some(upload) = &mut flow.upload {
            bytes.append(&mut upload.bytes);
        }
        let has_upload = flow.upload.is_some();
        self.is_sent = flow.upload.as_ref().is_none_or(|upload| upload.is_complete);
        self.stage = if matches!(self.stage, Stage::New) { Stage::Connecting } else { Stage::Sending };
        if has_upload {
            // There is room for more.
            exchanges(context).wake_followers(id);
        }
        Want::Send(plain(bytes))
    }

    /// A part of the request is sent.
    fn sent(&mut self, context: &mut Context<'_>) -> Want {
        if matches!(self.stage, Stage::New) {
            let waited = context.clock.now.saturating_sub(self.flow(context).began);
            context.served.add(Counter::UpstreamConnectWait, waited.as_nanos() as u64);
        }
        self.stage = Stage::Head;
        self.go_on(context)
    }

    /// Sends what there is of the request's body; otherwise waits for the answer, which may come early.
    fn send_on(&mut self, context: &mut Context<'_>) -> Want {
        let id = self.flow.expect("there is a request");
        let Some(upload) = exchanges(context).flow(id).upload.as_mut().filter(|_| !self.is_sent) else {
            return self.receive();
        };
        self.is_sent = upload.is_complete;
        let bytes = std::mem::take(&mut upload.bytes);
        if bytes.is_empty() {
            return self.receive();
        }
        self.stage = Stage::Sending;
        exchanges(context).wake_followers(id);
        Want::Send(plain(bytes))
    }

    fn receive(&mut self) -> Want {
        self.is_receiving = true;
        // What is here already must not be lost when receiving is recalled.
        Want::Receive(if self.is_sent { std::mem::take(&mut self.input) } else { Buffer::default() })
    }

    fn receive_body(&mut self, context: &mut Context<'_>) -> Want {
        let id = self.flow.expect("there is a request");
        if exchanges(context).is_full(id) {
            return Want::Wait;
        }
        let mut buffer = std::mem::take(&mut self.input);
        if !buffer.is_allocated() {
            buffer = context.pool.take_buffer();
        }
        buffer.expect_much();
        self.is_receiving = true;
        Want::Receive(buffer)
    }

    fn received(&mut self, buffer: Buffer, context: &mut Context<'_>) -> Want {
        if self.input.unread().is_empty() {
            context.pool.put_buffer(std::mem::replace(&mut self.input, buffer));
        } else {
            self.input.append(&buffer);
            context.pool.put_buffer(buffer);
        }
        match self.stage {
            Stage::Head => self.read_head(context),
            Stage::Body(_) => self.read_body(context),
            // Nothing was asked for: what this would answer must never be guessed.
            Stage::New | Stage::Connecting | Stage::Sending | Stage::Idle => self.end_idle(context),
        }
    }

    fn read_head(&mut self, context: &mut Context<'_>) -> Want {
        let id = self.flow.expect("there is a request");
        loop {
            let asked = self.flow(context).asked;
            let head = match self.parser.parse(self.input.unread(), asked) {
                Ok(Some(head)) => head,
                Ok(None) => return self.receive(),
                Err(_) => return self.give_up(Status::BadGateway, context),
            };
            let head_len = head.head_len;
            if !(100..200).contains(&head.status) {
                let body = Body::new(head.body);
                self.keeps = head.keep_alive && self.is_sent;
                let now = context.clock.second.seconds() as i64;
                let exchanges = exchanges(context);
                exchanges.succeed_at(self.upstream);
                let heard = exchanges.hear(id, &head, now);
                let is_again = matches!(heard, Heard::Again);
                let began = exchanges.flow(id).began;
                match heard {
                    Heard::Again => {}
                    Heard::Stored(standing) => {
                        exchanges.settle(id, standing.is_for_all);
                        exchanges.flow(id).standing = Some(standing);
                    }
                    Heard::Answer(fill) => exchanges.pass_on(id, &head, now, fill),
                    Heard::Part(part) => {
                        exchanges.pass_on(id, &head, now, None);
                        exchanges.flow(id).keep_part(part);
                    }
                    Heard::Joined(joined) => {
                        exchanges.settle(id, joined.fill.is_some());
                        exchanges.flow(id).begin_joined(*joined);
                    }
                }
                self.head_came = context.clock.now;
                let waited = self.head_came.saturating_sub(began);
                context.served.add(Counter::UpstreamHeadWait, waited.as_nanos() as u64);
                self.input.consume(head_len);
                if is_again {
                    return self.ask_again(context);
                }
                self.stage = Stage::Body(body);
                return self.read_body(context);
            }
            self.interim_responses += 1;
            // 101 was never asked for.
            if head.status == 101 || self.interim_responses > INTERIM_RESPONSES_MAX {
                return self.give_up(Status::BadGateway, context);
            }
            if head.status == 100
                && let Some(upload) = &mut exchanges(context).flow(id).upload
            {
                upload.is_asked_for = true;
                exchanges(context).wake_followers(id);
            }
            self.input.consume(head_len);
        }
    }

    fn read_body(&mut self, context: &mut Context<'_>) -> Want {
        let id = self.flow.expect("there is a request");
        let Stage::Body(body) = &mut self.stage else { unreachable!("a body is being read") };
        let progress = body.read(&mut self.input, |part| exchanges(context).flow(id).append(part));
        exchanges(context).limit_shared(id);
        exchanges(context).wake_followers(id);
        match progress {
            Progress::More if self.is_abandoned(context) => Want::Close(Reason::Finished),
            Progress::More => self.receive_body(context),
            Progress::Malformed => self.give_up(Status::BadGateway, context),
            Progress::Complete => self.complete(context),
        }
    }

    /// The answer is complete.
    fn complete(&mut self, context: &mut Context<'_>) -> Want {
        let took = context.clock.now.saturating_sub(self.head_came);
        context.served.add(Counter::UpstreamBodyWait, took.as_nanos() as u64);
        let flow = self.flow.take().expect("there was a request");
        exchanges(context).finish(flow, End::Complete);
        self.rest(context)
    }

    /// What came was about nothing that is stored: the flow begins again, here or elsewhere.
    fn ask_again(&mut self, context: &mut Context<'_>) -> Want {
        let flow = self.flow.take().expect("there was a request");
        let want = self.rest(context);
        let exchanges = context.exchanges.as_mut().expect("who has upstreams has exchanges");
        exchanges.begin_again(flow, context.served);
        want
    }

    /// Nothing is left to do.
    fn rest(&mut self, context: &mut Context<'_>) -> Want {
        self.answered += 1;
        // What comes unasked, or a request that the upstream has not taken whole, leaves the next answer in doubt.
        let may_stay = self.keeps && self.input.unread().is_empty() && !context.is_draining;
        self.stage = Stage::Idle;
        context.pool.put_buffer(std::mem::take(&mut self.input));
        if may_stay && exchanges(context).keep(self.upstream) {
            self.receive()
        } else {
            Want::Close(Reason::Finished)
        }
    }

    /// The upstream will send no more.
    fn ended(&mut self, context: &mut Context<'_>) -> Want {
        match &self.stage {
            Stage::Body(body) if body.ends_with_connection() => {
                self.keeps = false;
                self.complete(context)
            }
            _ => self.broken(context),
        }
    }

    /// The connection is of no more use.
    fn broken(&mut self, context: &mut Context<'_>) -> Want {
        match self.stage {
            Stage::Idle => self.end_idle(context),
            // A connection that was idle may have been closed by the upstream meanwhile, which says nothing about it.
            Stage::Sending | Stage::Head if self.answered > 0 && !self.parser.is_partial() => {
                let flow = self.flow.take().expect("there is a request");
                fail(flow, Status::BadGateway, true, context);
                Want::Close(Reason::Failed)
            }
            Stage::New | Stage::Connecting => {
                exchanges(context).fail_at(self.upstream);
                let flow = self.flow.take().expect("there is a request");
                fail(flow, Status::BadGateway, true, context);
                Want::Close(Reason::Failed)
            }
            _ => self.give_up(Status::BadGateway, context),
        }
    }

    /// The upstream has closed an idle connection, or has something to say on it. What it was to do, another does.
    fn end_idle(&mut self, context: &mut Context<'_>) -> Want {
        if let Some(flow) = exchanges(context).take_assignment() {
            fail(flow, Status::BadGateway, true, context);
        }
        Want::Close(Reason::Finished)
    }

    fn expired(&mut self, context: &mut Context<'_>) -> Want {
        match self.stage {
            Stage::Idle => self.end_idle(context),
            Stage::New | Stage::Connecting => {
                exchanges(context).fail_at(self.upstream);
                let flow = self.flow.take().expect("there is a request");
                fail(flow, Status::GatewayTimeout, true, context);
                Want::Close(Reason::TimedOut)
            }
            _ => {
                self.give_up(Status::GatewayTimeout, context);
                Want::Close(Reason::TimedOut)
            }
        }
    }

    /// The exchange has failed, and the upstream is to blame.
    fn give_up(&mut self, status: Status, context: &mut Context<'_>) -> Want {
        if !self.is_abandoned(context) {
            exchanges(context).fail_at(self.upstream);
        }
        if let Some(flow) = self.flow.take() {
            fail(flow, status, false, context);
        }
        Want::Close(Reason::Failed)
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

fn fail(flow: FlowId, status: Status, is_worth_repeating: bool, context: &mut Context<'_>) {
    let exchanges = context.exchanges.as_mut().expect("who has upstreams has exchanges");
    exchanges.fail(flow, status, is_worth_repeating, context.served);
}

fn plain(bytes: Vec<u8>) -> Output {
    Output { bytes, ..Output::default() }
}
