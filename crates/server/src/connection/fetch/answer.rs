//! Receiving an upstream's answer: its head, which says what becomes of it, then its body into the flow.

use sojourn_http::Status;
use sojourn_http::upstream::Head;

use super::body::{Body, Progress};
use super::{Fetch, Stage, exchanges};
use crate::connection::{Buffer, Context, Reason, Want};
use crate::counters::Counter;
use crate::handler::reverse_proxy::{End, Exchanges, FlowId, Heard};

/// Interim responses (1xx) before an answer; a server that sends more sends no answer.
const INTERIM_RESPONSES_MAX: u32 = 16;

impl Fetch {
    pub(super) fn receive(&mut self) -> Want {
        self.is_receiving = true;
        // What is here already must not be lost when receiving is recalled.
        Want::Receive(if self.is_sent { std::mem::take(&mut self.input) } else { Buffer::default() })
    }

    pub(super) fn receive_body(&mut self, context: &mut Context<'_>) -> Want {
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

    pub(super) fn received(&mut self, buffer: Buffer, context: &mut Context<'_>) -> Want {
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
                let began = exchanges.flow(id).began;
                let is_again = hear(id, &head, now, exchanges);
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
    pub(super) fn complete(&mut self, context: &mut Context<'_>) -> Want {
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
}

/// Does for the flow what its answer's `head` says; whether that is to ask again.
fn hear(id: FlowId, head: &Head<'_>, now: i64, exchanges: &mut Exchanges) -> bool {
    match exchanges.hear(id, head, now) {
        Heard::Again => return true,
        Heard::Stored(standing) => {
            exchanges.settle(id, standing.is_for_all);
            exchanges.flow(id).standing = Some(standing);
        }
        Heard::Answer(fill) => exchanges.pass_on(id, head, now, fill),
        Heard::Part(part) => {
            exchanges.pass_on(id, head, now, None);
            exchanges.flow(id).keep_part(part);
        }
        Heard::Joined(joined) => {
            exchanges.settle(id, joined.fill.is_some());
            exchanges.flow(id).begin_joined(*joined);
        }
    }
    false
}
