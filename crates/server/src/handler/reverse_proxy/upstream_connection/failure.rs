//! The failure of an upstream connection: its cause, and whether the request may be retried.

use sojourn_http::Status;

use super::{Exchanges, Speech, Stage, UpstreamConnection};
use crate::connection::{Reason, Shared, Want};
use crate::handler::reverse_proxy::FlowId;

impl UpstreamConnection {
    /// The upstream will send no more.
    pub(super) fn ended(&mut self, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        match (&self.stage, &self.speech) {
            (Stage::Head, Speech::Cgi(_, scripts)) if self.input.unread().is_empty() => {
                // Killed, if it had all the time that scripts have.
                let ran = shared.clock.now.saturating_sub(self.flow(exchanges).began);
                let is_late = ran >= scripts.timeout();
                let status = if is_late { Status::GatewayTimeout } else { Status::BadGateway };
                self.give_up(status, exchanges, shared)
            }
            (Stage::Body(body), _) if body.ends_with_connection() => {
                self.keeps = false;
                self.complete(exchanges, shared)
            }
            _ => self.broken(exchanges, shared),
        }
    }

    /// The connection is of no more use.
    pub(super) fn broken(&mut self, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        match self.stage {
            Stage::Idle => self.end_idle(exchanges, shared),
            // A script need not read its input.
            Stage::Sending if matches!(self.speech, Speech::Cgi(..)) => {
                (self.is_sent, self.stage) = (true, Stage::Head);
                self.receive()
            }
            // A connection that was idle may have been closed by the upstream meanwhile, which says nothing about it.
            Stage::Sending | Stage::Head if self.answered > 0 && !self.parser.is_partial() => {
                let flow = self.flow.take().expect("there is a request");
                fail(flow, Status::BadGateway, true, exchanges, shared);
                Want::Close(Reason::Failed)
            }
            Stage::New | Stage::Connecting => {
                exchanges.fail_at(self.upstream);
                let flow = self.flow.take().expect("there is a request");
                fail(flow, Status::BadGateway, true, exchanges, shared);
                Want::Close(Reason::Failed)
            }
            _ => self.give_up(Status::BadGateway, exchanges, shared),
        }
    }

    /// The upstream has closed an idle connection, or has something to say on it. What it was to do, another does.
    pub(super) fn end_idle(&mut self, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        if let Some(flow) = exchanges.take_assignment() {
            fail(flow, Status::BadGateway, true, exchanges, shared);
        }
        Want::Close(Reason::Finished)
    }

    pub(super) fn expired(&mut self, exchanges: &mut Exchanges, shared: &mut Shared<'_>) -> Want {
        match self.stage {
            Stage::Idle => self.end_idle(exchanges, shared),
            Stage::New | Stage::Connecting => {
                exchanges.fail_at(self.upstream);
                let flow = self.flow.take().expect("there is a request");
                fail(flow, Status::GatewayTimeout, true, exchanges, shared);
                Want::Close(Reason::TimedOut)
            }
            _ => {
                self.give_up(Status::GatewayTimeout, exchanges, shared);
                Want::Close(Reason::TimedOut)
            }
        }
    }

    /// The exchange has failed, and the upstream is to blame.
    pub(super) fn give_up(
        &mut self,
        status: Status,
        exchanges: &mut Exchanges,
        shared: &mut Shared<'_>,
    ) -> Want {
        if !self.is_abandoned(exchanges) {
            exchanges.fail_at(self.upstream);
        }
        if let Some(flow) = self.flow.take() {
            fail(flow, status, false, exchanges, shared);
        }
        Want::Close(Reason::Failed)
    }
}

pub(super) fn fail(
    flow: FlowId,
    status: Status,
    is_worth_repeating: bool,
    exchanges: &mut Exchanges,
    shared: &mut Shared<'_>,
) {
    exchanges.fail(flow, status, is_worth_repeating, shared.served);
}
