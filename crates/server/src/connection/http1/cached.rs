//! A request that a proxy's cache answers.

use std::io::Write;
use std::sync::Arc;

use http::StatusCode;
use sojourn_http::head;
use sojourn_http::request::{Method, Request};
use sojourn_http::upstream::Asked;
use sojourn_proxy::rules::{Answer, CacheStatus, Metadata, append_not_modified};
use sojourn_proxy::store::Object;

use super::Http1;
use super::answer::Step;
use super::relay::Relay;
use crate::connection::Context;
use crate::counters::Counter;
use crate::proxy::{Ask, Flow, Verdict, answer, host};

impl Http1 {
    /// What the cache, if there is one, says to `request`.
    pub(super) fn look_up(&self, request: &Request<'_>, ask: Ask, context: &mut Context<'_>) -> Verdict {
        let now = context.clock.second.seconds() as i64;
        let Some(exchanges) = &context.exchanges else { return Verdict::Pass };
        let proxy = exchanges.proxy();
        let Some(cache) = &proxy.cache else { return Verdict::Pass };
        cache.look_up(request, ask.scheme(), host(request, proxy), now)
    }

    /// Answers with what is stored.
    pub(super) fn answer_from_cache(
        &mut self,
        request: &Request<'_>,
        object: &Arc<Object>,
        context: &mut Context<'_>,
    ) -> Step {
        let stored = Metadata::read(object.metadata()).expect("it was read when it was found");
        context.served.count(Counter::CacheHits);
        let is_current = answer(request, &stored, object.length()) == Answer::NotModified;
        let status = if is_current { 304 } else { stored.status };
        self.begin_stored(request, status, &stored, object.length(), context);
        if is_current || request.method == Method::Head || object.length() == 0 {
            return self.answered_with(request, status, 0, context);
        }
        context.served.add(Counter::CacheHitBytes, object.length());
        if let Some(body) = object.small_body() {
            self.output.extend_from_slice(body);
            return self.answered_with(request, status, body.len(), context);
        }
        let mut flow = Flow::new(Vec::new(), Asked::Other, false, None);
        // Its parts are the store's in any case.
        flow.is_shared = true;
        let mut position = 0;
        while let Some(slice) = object.slice(position) {
            position += slice.as_bytes().len() as u64;
            // A chunk of a large body is an allocation of its own.
            flow.append(slice.into_parts().0);
        }
        let followed = context.exchanges.as_mut().expect("a proxy has exchanges").begin_complete(flow);
        let line = self.open_line(Some(request), status, context);
        self.take_leave(request);
        Step::Follow {
            consumed: request.head_len,
            relay: Relay::new(followed, None, request).answering(line),
        }
    }

    fn begin_stored(
        &mut self,
        request: &Request<'_>,
        status: u16,
        stored: &Metadata<'_>,
        length: u64,
        context: &mut Context<'_>,
    ) {
        let now = context.clock.second.seconds() as i64;
        if self.output.capacity() == 0 {
            self.output = context.pool.take();
        }
        self.decide_after(request, context);
        self.head_start = self.output.len() as u32;
        let output = &mut self.output;
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let _ = write!(output, "HTTP/1.1 {status} {}\r\n", reason.unwrap_or_default());
        if status == 304 {
            append_not_modified(output, stored);
        } else {
            output.extend_from_slice(stored.fields);
            if status != 204 {
                head::content_length(output, length);
            }
        }
        let _ = write!(output, "Age: {}\r\n", stored.age(now));
        let cache_status = CacheStatus { ttl_seconds: Some(stored.freshness(now)), ..CacheStatus::default() };
        let pseudonym = &context.exchanges.as_ref().expect("a proxy has exchanges").proxy().pseudonym;
        cache_status.append(output, pseudonym);
        self.append_connection(Some(request));
        head::end(&mut self.output);
        self.count_response(status, context);
    }
}
