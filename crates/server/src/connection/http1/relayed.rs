//! The head of an answer that an upstream gives: what of it the client gets, and what is said about it.

use std::io::Write;

use sojourn_http::request::{Request, Version};
use sojourn_http::{head, upstream};
use sojourn_http_cache::{CacheStatus, Forwarded, Metadata};

use super::answer::Step;
use super::body::Content;
use super::cached::is_current;
use super::framing::Framing;
use super::relay::{Relay, exchanges};
use super::{After, Http1};
use crate::connection::Context;
use crate::handler::reverse_proxy::{Answer, End, Keyed, Outcome, fits, metadata};

impl Http1 {
    /// The answer has begun, or there is none.
    pub(super) fn begin_relayed(
        &mut self,
        request: &Request<'_>,
        mut relay: Box<Relay>,
        context: &mut Context<'_>,
    ) -> Step {
        if relay.body.is_some() {
            // The rest of the request's body is of no use any more.
            self.content = Content::Left;
        }
        let flow = exchanges(context).flow(relay.flow);
        self.dealings().upstream = (flow.attempts > 0).then_some(flow.upstream);
        if let Some(standing) = flow.standing.clone() {
            exchanges(context).leave(relay.flow, relay.follower);
            return self.answer_with(request, &relay, &standing, context);
        }
        let Some(answer) = flow.answer.clone() else {
            let end = flow.end;
            let keyed = flow.keyed.clone();
            exchanges(context).leave(relay.flow, relay.follower);
            return match end {
                Some(End::Failed(status)) => {
                    self.answer_without_upstream(request, &relay, keyed.as_ref(), status, context)
                }
                Some(End::Obstructed(obstacle)) => self.obstructed(request, obstacle, context),
                _ => unreachable!("only its followers abandon a flow"),
            };
        };
        let (kept, part) = (flow.kept.clone(), flow.part_metadata.clone());
        let was_validation = flow.keyed.as_ref().is_some_and(Keyed::is_validation);
        if was_validation && relay.why != Some(Forwarded::Request) && relay.follower.is_first() {
            self.dealings().outcome = Outcome::RefreshModified;
        }
        let stored = kept.as_ref().and_then(|kept| metadata(kept));
        let stored = stored.or_else(|| Metadata::read(part.as_ref()?).ok());
        if !relay.follower.is_first() && !stored.is_some_and(|stored| fits(request, &stored)) {
            exchanges(context).leave(relay.flow, relay.follower);
            self.dealings().outcome = Outcome::Miss;
            return self.begin_flow(request, None, None, relay.why, context);
        }
        let now = context.clock.second.seconds() as i64;
        let status = CacheStatus {
            forwarded: relay.why,
            origin_status: Some(answer.upstream_status).filter(|origin| *origin != answer.status),
            ttl_seconds: stored.map(|stored| stored.freshness(now)),
            is_stored: stored.is_some(),
            is_collapsed: !relay.follower.is_first(),
            ..CacheStatus::default()
        };
        if let Some(stored) = stored.filter(|stored| is_current(request, stored)) {
            // The whole was asked for, and the client has it.
            exchanges(context).leave(relay.flow, relay.follower);
            return self.answer_not_modified(request, &stored, answer.status, status, context);
        }
        let is_unframed = matches!(answer.body, upstream::Body::Chunked | upstream::Body::UntilClose);
        if is_unframed && request.version == Version::Http11 {
            relay.framing = Framing::Chunked { owes_line_end: false };
        }
        self.decide_after(request, context);
        if is_unframed && request.version == Version::Http10 && self.after == After::Keep {
            self.after = After::Close;
        }
        self.append_relayed_head(request, &answer, relay.framing, status, context);
        self.count_response(answer.status, context);
        relay.line = self.open_line(Some(request), answer.status, context);
        relay.is_answering = true;
        self.take_leave(request);
        Step::Follow { consumed: request.head_len, relay }
    }

    fn append_relayed_head(
        &mut self,
        request: &Request<'_>,
        answer: &Answer,
        framing: Framing,
        status: CacheStatus<'_>,
        context: &mut Context<'_>,
    ) {
        if self.output.capacity() == 0 {
            self.output = context.pool.take();
        }
        self.head_start = self.output.len() as u32;
        let output = &mut self.output;
        write!(output, "HTTP/1.1 {} ", answer.status).expect("writing to memory cannot fail");
        output.extend_from_slice(&answer.reason);
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(&answer.fields);
        match (framing, answer.body, answer.content_length) {
            (Framing::Chunked { .. }, ..) => head::field(output, "Transfer-Encoding", "chunked"),
            // RFC 9110, 8.6: neither may have one.
            (_, upstream::Body::None, Some(_)) if answer.status == 204 => {}
            (_, upstream::Body::None | upstream::Body::Length(_), Some(length)) => {
                head::content_length(output, length);
            }
            _ => {}
        }
        if status.forwarded.is_some() {
            status.append(output, &exchanges(context).proxy().pseudonym);
        }
        self.append_connection(Some(request));
        head::end(&mut self.output);
    }
}
