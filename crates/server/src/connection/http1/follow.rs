//! A request for what another request has an upstream asked for already, in another loop of this server: it waits for
//! the head of that answer, and is sent the body as it comes.

use std::sync::Arc;

use sojourn_cache_store::{BusyObject, Stage};
use sojourn_http::head;
use sojourn_http::request::{Request, Version};
use sojourn_http_cache::{CacheStatus, Forwarded};

use super::answer::Step;
use super::cached::is_current;
use super::framing::Framing;
use super::relay::Relay;
use super::{After, Http1};
use crate::connection::Context;
use crate::counters::Counter;
use crate::handler::reverse_proxy::{Outcome, Stored, fits, metadata};

/// What a request waits for.
#[derive(Debug)]
pub(super) struct Following {
    pub filling: Arc<BusyObject>,
    /// Why the cache did not answer it.
    pub why: Option<Forwarded>,
}

impl Http1 {
    /// Answers with what is on its way, or waits for its head.
    pub(super) fn follow(
        &mut self,
        request: &Request<'_>,
        filling: Arc<BusyObject>,
        why: Option<Forwarded>,
        context: &mut Context<'_>,
    ) -> Step {
        let waker = context.exchanges.as_mut().expect("a proxy has exchanges").waker();
        match filling.stage(&waker) {
            Stage::Waiting => {
                self.dealings().following = Some(Following { filling, why });
                Step::Search
            }
            Stage::Head(_) => self.answer_from_filling(request, &filling, why, context),
            // What was stored may have been found current.
            Stage::Failed => self.look_again(request, context),
        }
    }

    /// What came is not for this request: it has its own sent, and waits for no other again.
    fn look_again(&mut self, request: &Request<'_>, context: &mut Context<'_>) -> Step {
        self.dealings().has_followed = true;
        self.relay(request, context)
    }

    fn answer_from_filling(
        &mut self,
        request: &Request<'_>,
        filling: &Arc<BusyObject>,
        why: Option<Forwarded>,
        context: &mut Context<'_>,
    ) -> Step {
        let Some(stored) = metadata(filling).filter(|stored| fits(request, stored)) else {
            return self.look_again(request, context);
        };
        let Some(body) = filling.reader() else { return self.look_again(request, context) };
        context.served.count(Counter::CacheCollapsed);
        self.dealings().outcome = Outcome::CollapsedMiss;
        let status =
            CacheStatus { forwarded: why, is_stored: true, is_collapsed: true, ..CacheStatus::default() };
        if is_current(request, &stored) {
            return self.answer_not_modified(request, &stored, stored.status, status, context);
        }
        let length = filling.head().and_then(|started| started.length);
        self.start_stored(stored.status, request, context);
        self.output.extend_from_slice(stored.fields);
        let mut framing = Framing::Plain;
        match length {
            Some(_) if stored.status == 204 => {}
            Some(length) => head::content_length(&mut self.output, length),
            None if request.version == Version::Http11 => {
                framing = Framing::Chunked { owes_line_end: false };
                head::field(&mut self.output, "Transfer-Encoding", "chunked");
            }
            None if request.version == Version::Http10 && self.after == After::Keep => {
                self.after = After::Close;
            }
            None => {}
        }
        self.end_stored(request, &stored, status, context);
        self.count_response(stored.status, context);
        if length == Some(0) {
            return self.answered_with(request, stored.status, 0, context);
        }
        let line = self.open_line(Some(request), stored.status, context);
        let exchanges = context.exchanges.as_mut().expect("a proxy has exchanges");
        let followed = exchanges.begin_stored([Stored::Body(body)]);
        self.take_leave(request);
        let relay = Relay::new(followed, None, request, why).framed(framing).answering(line);
        Step::Follow { consumed: request.head_len, relay }
    }
}
