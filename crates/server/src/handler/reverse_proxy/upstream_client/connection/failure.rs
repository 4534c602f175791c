//! The failure of an upstream connection: its cause, and whether the request may be retried.

use sojourn_http::Status;

use super::{Stage, UpstreamClient, UpstreamConnection, UpstreamProtocol};
use crate::applications::ScriptFailure;
use crate::connection::{Reason, Shared, Want};
use crate::handler::reverse_proxy::FlowId;

impl UpstreamConnection {
    /// The upstream has shut down its sending side.
    pub(super) fn ended(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        match (&self.stage, &self.protocol) {
            (Stage::Head, UpstreamProtocol::Cgi(_, run)) if self.input.unread().is_empty() => {
                let status = run.failure().map_or(Status::BadGateway, status_of);
                self.fail_upstream(status, upstream_client, shared)
            }
            (Stage::Body(body), protocol) if body.ends_with_connection() => {
                let failure = match protocol {
                    UpstreamProtocol::Cgi(_, run) => run.failure(),
                    UpstreamProtocol::Http(_) | UpstreamProtocol::FastCgi(_) => None,
                };
                if let Some(failure) = failure {
                    return self.fail_upstream(status_of(failure), upstream_client, shared);
                }
                self.keeps = false;
                self.complete(upstream_client, shared)
            }
            _ => self.broken(upstream_client, shared),
        }
    }

    /// The connection failed.
    pub(super) fn broken(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        match self.stage {
            Stage::Idle => self.end_idle(upstream_client, shared),
            // Who answers need not read the whole request, and a script not its input.
            Stage::Head | Stage::Body(_) if self.is_sending => self.cut_upload(upstream_client, shared),
            Stage::Sending | Stage::Head if !self.has_begun_to_answer() => {
                // The upstream may have closed an idle connection, which is not a failure. On a new one it is: the process
                // that accepted it has died. Another one may answer, but the request may also be what kills them.
                let is_new = self.answered == 0;
                if is_new && !self.is_abandoned(upstream_client) {
                    upstream_client.fail_at(self.upstream);
                }
                let flow = self.flow.take().expect("there is a request");
                let was_lost = &mut upstream_client.flow(flow).was_lost;
                let is_worth_repeating = !is_new || !std::mem::replace(was_lost, true);
                fail(flow, Status::BadGateway, is_worth_repeating, upstream_client, shared);
                Want::Close(Reason::Failed)
            }
            Stage::New | Stage::Connecting => {
                upstream_client.fail_at(self.upstream);
                let flow = self.flow.take().expect("there is a request");
                fail(flow, Status::BadGateway, true, upstream_client, shared);
                Want::Close(Reason::Failed)
            }
            _ => self.fail_upstream(Status::BadGateway, upstream_client, shared),
        }
    }

    /// Returns true if any part of an answer to the current request has arrived. A script's request counts as answered from
    /// its start, because its process was for this request alone.
    fn has_begun_to_answer(&self) -> bool {
        let has_received = match &self.protocol {
            UpstreamProtocol::Http(_) => self.parser.is_partial() || self.interim_responses > 0,
            UpstreamProtocol::FastCgi(fastcgi) => fastcgi.has_received,
            UpstreamProtocol::Cgi(..) => true,
        };
        has_received || !self.input.unread().is_empty()
    }

    /// The upstream has closed an idle connection, or sent something on it. An assigned flow moves to another
    /// connection.
    pub(super) fn end_idle(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        if let Some(flow) = upstream_client.take_assignment() {
            upstream_client.reassign(flow, shared.served);
        }
        Want::Close(Reason::Finished)
    }

    pub(super) fn expired(&mut self, upstream_client: &mut UpstreamClient, shared: &mut Shared<'_>) -> Want {
        match self.stage {
            Stage::Idle => self.end_idle(upstream_client, shared),
            Stage::New | Stage::Connecting => {
                upstream_client.fail_at(self.upstream);
                let flow = self.flow.take().expect("there is a request");
                fail(flow, Status::GatewayTimeout, true, upstream_client, shared);
                Want::Close(Reason::TimedOut)
            }
            _ => {
                self.fail_upstream(Status::GatewayTimeout, upstream_client, shared);
                Want::Close(Reason::TimedOut)
            }
        }
    }

    /// The exchange has failed, and the upstream is to blame.
    pub(super) fn fail_upstream(
        &mut self,
        status: Status,
        upstream_client: &mut UpstreamClient,
        shared: &mut Shared<'_>,
    ) -> Want {
        if !self.is_abandoned(upstream_client) {
            upstream_client.fail_at(self.upstream);
        }
        if let Some(flow) = self.flow.take() {
            fail(flow, status, false, upstream_client, shared);
        }
        Want::Close(Reason::Failed)
    }
}

fn status_of(failure: ScriptFailure) -> Status {
    match failure {
        ScriptFailure::TimedOut => Status::GatewayTimeout,
        ScriptFailure::Died => Status::BadGateway,
    }
}

pub(super) fn fail(
    flow: FlowId,
    status: Status,
    is_worth_repeating: bool,
    upstream_client: &mut UpstreamClient,
    shared: &mut Shared<'_>,
) {
    upstream_client.fail(flow, status, is_worth_repeating, shared.served);
}
