//! The end of a connection to an upstream that was not to be: who is to blame, and whether another may do what it was to do.

use sojourn_http::Status;

use super::{Fetch, Stage, exchanges};
use crate::connection::{Context, Reason, Want};
use crate::handler::reverse_proxy::FlowId;

impl Fetch {
    /// The upstream will send no more.
    pub(super) fn ended(&mut self, context: &mut Context<'_>) -> Want {
        match &self.stage {
            Stage::Body(body) if body.ends_with_connection() => {
                self.keeps = false;
                self.complete(context)
            }
            _ => self.broken(context),
        }
    }

    /// The connection is of no more use.
    pub(super) fn broken(&mut self, context: &mut Context<'_>) -> Want {
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
    pub(super) fn end_idle(&mut self, context: &mut Context<'_>) -> Want {
        if let Some(flow) = exchanges(context).take_assignment() {
            fail(flow, Status::BadGateway, true, context);
        }
        Want::Close(Reason::Finished)
    }

    pub(super) fn expired(&mut self, context: &mut Context<'_>) -> Want {
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
    pub(super) fn give_up(&mut self, status: Status, context: &mut Context<'_>) -> Want {
        if !self.is_abandoned(context) {
            exchanges(context).fail_at(self.upstream);
        }
        if let Some(flow) = self.flow.take() {
            fail(flow, status, false, context);
        }
        Want::Close(Reason::Failed)
    }
}

pub(super) fn fail(flow: FlowId, status: Status, is_worth_repeating: bool, context: &mut Context<'_>) {
    let exchanges = context.exchanges.as_mut().expect("who has upstreams has exchanges");
    exchanges.fail(flow, status, is_worth_repeating, context.served);
}
