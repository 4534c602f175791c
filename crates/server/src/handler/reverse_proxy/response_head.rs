//! Response heads from upstreams, for the original request and for coalesced ones: fields for the client, and
//! Cache-Status.

use std::sync::Arc;

use sojourn_cache_store::{BusyObject, Stage as BusyStage};
use sojourn_http::request::{Method, Request};
use sojourn_http::{head, upstream};
use sojourn_http_cache::{CacheStatus, Forwarded, Metadata};

use super::ReverseProxy;
use super::cache_response::{is_current, may_answer};
use super::exchange::{Exchange, Following, Relay, Stage};
use super::{Answer, End, Stored, metadata};
use crate::access_log::Outcome;
use crate::connection::{Response, Source, Step};
use crate::counters::Counter;
use crate::handler::destination::refuse;

impl ReverseProxy {
    /// The upstream's response has begun, or there is none.
    pub(super) fn begin_relayed(
        &mut self,
        request: &Request<'_>,
        relay: Relay,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let flow = self.upstream_client.flow(relay.flow);
        let (was_asked, upstream) = (flow.attempts > 0, flow.upstream);
        let (revalidation, answer) = (flow.revalidation.clone(), flow.answer.clone());
        let (end, kept, part) = (flow.end, flow.kept.clone(), flow.part_metadata.clone());
        let miss = if answer.is_none() { flow.miss.clone() } else { None };
        let was_validation = flow.miss.as_ref().is_some_and(|miss| miss.is_validation());
        if was_asked && response.shared.log.is_some() {
            let upstream = self.upstream_client.proxy().upstreams.get(upstream);
            response.note_source(upstream.map_or(Source::Host, |it| Source::Upstream(it.name.clone())));
        }
        if let Some(revalidation) = revalidation {
            self.upstream_client.leave(relay.flow, relay.reader);
            return self.answer_with(request, &relay, &revalidation, response);
        }
        let Some(answer) = answer else {
            self.upstream_client.leave(relay.flow, relay.reader);
            return match end {
                Some(End::Failed(status)) => {
                    self.answer_without_upstream(request, &relay, miss.as_deref(), status, response)
                }
                Some(End::Refused(refusal)) => {
                    refuse(request, refusal, &self.upstream_client.proxy().pseudonym, response)
                }
                _ => unreachable!("only its readers abandon a flow"),
            };
        };
        if let Some(tunnel) = self.upstream_client.flow(relay.flow).tunnel.take() {
            self.upstream_client.leave(relay.flow, relay.reader);
            return self.switch(request, tunnel, &answer, response);
        }
        if was_validation && relay.why != Some(Forwarded::Request) && relay.reader.is_first() {
            response.note_outcome(Outcome::RefreshModified);
        }
        let stored = kept.as_ref().and_then(|kept| metadata(kept));
        let stored = stored.or_else(|| Metadata::read(part.as_ref()?).ok());
        let now = response.shared.clock.second.seconds() as i64;
        if !relay.reader.is_first() && !stored.is_some_and(|stored| may_answer(request, &stored, now)) {
            self.upstream_client.leave(relay.flow, relay.reader);
            response.note_outcome(Outcome::Miss);
            let client_context = self.client_context(request, response);
            return self.begin_flow(request, client_context, (None, None), relay.why, response);
        }
        let status = CacheStatus {
            forwarded: relay.why,
            origin_status: Some(answer.upstream_status).filter(|origin| *origin != answer.status),
            ttl_seconds: stored.map(|stored| stored.freshness(now)),
            is_stored: stored.is_some(),
            is_collapsed: !relay.reader.is_first(),
            ..CacheStatus::default()
        };
        // RFC 9110, 13.2.1: the conditions of a POST, whose response may be stored, too, are for the origin.
        let may_be_current = matches!(request.method, Method::Get | Method::Head);
        if let Some(stored) = stored.filter(|stored| may_be_current && is_current(request, stored)) {
            // The whole object was requested, and the client already has it.
            self.upstream_client.leave(relay.flow, relay.reader);
            return self.answer_not_modified(request, &stored, answer.status, status, response);
        }
        let shared = stored.filter(|_| !relay.reader.is_first());
        self.write_relayed_head(request, &answer, shared.as_ref(), status, response);
        let Some(body) = self.upstream_client.flow(relay.flow).take_whole(relay.reader) else {
            return self.relay_body(request, answer.status, relay, response);
        };
        self.upstream_client.leave(relay.flow, relay.reader);
        let status = answer.status;
        self.upstream_client.recycle(answer);
        match body {
            None => response.answered(request, status),
            Some(body) if body.as_ref().len() as u64 > response.shared.send_path.copied_bytes_max => {
                response.answered_with(request, status, body.into_piece())
            }
            Some(body) => {
                response.body(body.as_ref());
                body.recycle(response.shared.pool);
                response.answered(request, status)
            }
        }
    }

    /// Writes the head of the response. For coalesced requests there is `shared`, what is stored of it: some fields are for the
    /// first client alone.
    fn write_relayed_head(
        &mut self,
        request: &Request<'_>,
        answer: &Answer,
        shared: Option<&Metadata<'_>>,
        status: CacheStatus<'_>,
        response: &mut Response<'_, '_>,
    ) {
        response.start(answer.status, answer.reason.as_deref(), request);
        response.fields().extend_from_slice(shared.map_or(&answer.fields, |stored| stored.fields));
        match (answer.body, answer.content_length) {
            (upstream::Body::Chunked | upstream::Body::UntilClose, _) => response.length_unknown(request),
            // RFC 9110, 8.6: neither may have a Content-Length.
            (upstream::Body::None, Some(_)) if answer.status == 204 => {}
            (_, Some(length)) => head::content_length(response.fields(), length),
            (_, None) => {}
        }
        if let Some(stored) = shared {
            return self.end_stored(request, stored, status, response);
        }
        if status.forwarded.is_some() {
            status.append(response.fields(), &self.upstream_client.proxy().pseudonym);
        }
        response.end_head(request);
    }

    /// Answers with a response that another loop has requested, or waits for its head.
    pub(super) fn follow(
        &mut self,
        request: &Request<'_>,
        following: Following,
        exchange: Exchange,
        response: &mut Response<'_, '_>,
    ) -> Step {
        match following.busy_object.stage(&self.upstream_client.waker()) {
            BusyStage::Waiting => {
                self.wait(Exchange { stage: Stage::Following(following), ..exchange }, response)
            }
            BusyStage::Head(_) => self.answer_from_busy_object(
                request,
                &following.busy_object,
                following.why,
                exchange,
                response,
            ),
            // The stored response may have been revalidated.
            BusyStage::Failed => self.relay_alone(request, exchange, response),
        }
    }

    /// The response must not answer this request: it is sent to an upstream itself and not coalesced again.
    fn relay_alone(
        &mut self,
        request: &Request<'_>,
        exchange: Exchange,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let client_context = self.client_context(request, response);
        self.relay(request, client_context, Exchange { has_followed: true, ..exchange }, response)
    }

    fn answer_from_busy_object(
        &mut self,
        request: &Request<'_>,
        busy_object: &Arc<BusyObject>,
        why: Option<Forwarded>,
        exchange: Exchange,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let now = response.shared.clock.second.seconds() as i64;
        let Some(stored) = metadata(busy_object).filter(|stored| may_answer(request, stored, now)) else {
            return self.relay_alone(request, exchange, response);
        };
        let Some(body) = busy_object.reader() else { return self.relay_alone(request, exchange, response) };
        response.shared.served.count(Counter::CacheCoalesced);
        response.note_outcome(Outcome::CoalescedMiss);
        let status =
            CacheStatus { forwarded: why, is_stored: true, is_collapsed: true, ..CacheStatus::default() };
        if is_current(request, &stored) {
            return self.answer_not_modified(request, &stored, stored.status, status, response);
        }
        let length = busy_object.head().and_then(|started| started.length);
        response.start(stored.status, None, request);
        response.fields().extend_from_slice(stored.fields);
        match length {
            Some(_) if stored.status == 204 => {}
            Some(length) => head::content_length(response.fields(), length),
            None => response.length_unknown(request),
        }
        self.end_stored(request, &stored, status, response);
        if length == Some(0) {
            return response.answered(request, stored.status);
        }
        let followed = self.upstream_client.begin_stored([Stored::Body(body)]);
        self.relay_body(request, stored.status, Relay::new(followed, request, why), response)
    }
}
