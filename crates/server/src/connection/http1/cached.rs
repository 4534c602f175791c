//! A request that a proxy's cache answers.

use std::io::Write;
use std::sync::Arc;

use http::StatusCode;
use sojourn_cache_store::{Object, Reader};
use sojourn_http::range::ByteRange;
use sojourn_http::request::{Method, Request};
use sojourn_http::{Status, head};
use sojourn_http_cache::fields::{Section, append_line};
use sojourn_http_cache::{Answer, CacheStatus, Metadata, append_not_modified};

use super::Http1;
use super::answer::Step;
use super::partial::{append_boundary, parts_of};
use super::relay::Relay;
use super::stream::{Part, Stream};
use crate::connection::Context;
use crate::counters::Counter;
use crate::handler::reverse_proxy::{
    Ask, Keyed, Outcome, Revalidation, Stored, Verdict, Without, answer, fits, host,
};

impl Http1 {
    /// What the cache, if there is one, says to `request`.
    pub(super) fn look_up(&mut self, request: &Request<'_>, ask: Ask, context: &mut Context<'_>) -> Verdict {
        let now = context.clock.second.seconds() as i64;
        let Some(exchanges) = &mut context.exchanges else { return Verdict::Pass(None) };
        self.dealings().outcome = Outcome::Miss;
        let mut search = self.dealings().search.take().unwrap_or_default();
        loop {
            let proxy = exchanges.proxy();
            let Some(cache) = &proxy.cache else { return Verdict::Pass(None) };
            let verdict = cache.look_up(request, ask.scheme(), host(request, ask, proxy), now, &mut search);
            self.dealings().outcome = Outcome::of(&verdict, search.was_on_disk());
            match verdict {
                // Otherwise it has told meanwhile.
                Verdict::Wait if search.waits(&exchanges.waker()) => {
                    self.dealings().search = Some(search);
                    return verdict;
                }
                Verdict::Wait => {}
                Verdict::Hit(..) if search.was_on_disk() => {
                    context.served.count(Counter::CacheDiskHits);
                    return verdict;
                }
                _ => return verdict,
            }
        }
    }

    /// Answers with what is stored; `status` says how that came about.
    pub(super) fn answer_from_cache(
        &mut self,
        request: &Request<'_>,
        object: &Arc<Object>,
        status: CacheStatus<'_>,
        context: &mut Context<'_>,
    ) -> Step {
        let stored = Metadata::read(object.metadata()).expect("it was read when it was found");
        if status.forwarded.is_none() {
            context.served.count(Counter::CacheHits);
            if stored.status >= 400 {
                self.dealings().outcome = Outcome::NegativeHit;
            }
            if stored.freshness(context.clock.second.seconds() as i64) <= 0 {
                context.served.count(Counter::CacheStale);
            }
        }
        let length = object.whole_bytes();
        let ranges = match answer(request, &stored, length) {
            Answer::Whole => None,
            Answer::NotModified => {
                if status.forwarded.is_none() {
                    self.dealings().outcome = Outcome::NotModifiedHit;
                }
                return self.answer_not_modified(request, &stored, stored.status, status, context);
            }
            Answer::RangeNotSatisfiable => {
                return self.no_such_part(request, &stored, length, status, context);
            }
            // Nothing says whether a coding belongs to the parts or to what they are wrapped in.
            Answer::Parts(ranges) if ranges.len() > 1 && Section(stored.fields).has("content-encoding") => {
                None
            }
            Answer::Parts(ranges) => Some(ranges),
        };
        let code = if ranges.is_some() { 206 } else { stored.status };
        self.start_stored(code, request, context);
        let parts = ranges.map(|ranges| self.append_parts_head(&stored, object, &ranges));
        if parts.is_none() {
            self.output.extend_from_slice(stored.fields);
            if code != 204 {
                head::content_length(&mut self.output, length);
            }
        }
        let origin_status = status.origin_status.filter(|origin| *origin != code);
        self.end_stored(request, &stored, CacheStatus { origin_status, ..status }, context);
        self.count_response(code, context);
        if request.method == Method::Head || length == 0 {
            return self.answered_with(request, code, 0, context);
        }
        let parts = parts.unwrap_or_else(|| vec![Part::whole(length)]);
        context.served.add(Counter::CacheHitBytes, parts.iter().map(Part::length).sum());
        match object.small_body() {
            // One send of a small body costs less than pointing to it; several parts of one are put together.
            Some(body) if length <= context.send_path.copied_bytes_max || parts.len() > 1 => {
                self.answer_copied(request, code, body, &parts, context)
            }
            _ if object.is_in_memory() => self.answer_stored(request, code, object, parts, context),
            _ => self.answer_from_disk(request, code, object, parts, context),
        }
    }

    /// Puts the parts of a small body behind their head.
    fn answer_copied(
        &mut self,
        request: &Request<'_>,
        code: u16,
        body: &[u8],
        parts: &[Part],
        context: &mut Context<'_>,
    ) -> Step {
        let start = self.output.len();
        for Part { preamble, range } in parts {
            self.output.extend_from_slice(preamble);
            if let Some(ByteRange { first, last }) = *range {
                self.output.extend_from_slice(&body[first as usize..=last as usize]);
            }
        }
        self.answered_with(request, code, self.output.len() - start, context)
    }

    /// Sends the parts from where they lie, the head being in the output.
    fn answer_stored(
        &mut self,
        request: &Request<'_>,
        code: u16,
        object: &Arc<Object>,
        mut parts: Vec<Part>,
        context: &mut Context<'_>,
    ) -> Step {
        let line = self.open_line(Some(request), code, context);
        self.take_leave(request);
        let Part { preamble, range } = parts.remove(0);
        self.output.extend_from_slice(&preamble);
        let first = range.expect("what is last alone has no range");
        let cache = context.exchanges.as_ref().and_then(|exchanges| exchanges.proxy().cache.as_ref());
        // TLS reads what it sends, and gains nothing by a file.
        let is_for_a_file = !self.is_secure && first.length() > context.send_path.memory_bytes_max;
        let moved = cache.filter(|_| is_for_a_file).map(|cache| cache.for_sending(object));
        let object = moved.as_ref().unwrap_or(object);
        if !self.is_secure && object.file().is_some() {
            context.served.count(Counter::CacheMemoryFileHits);
        }
        let stream = Box::new(Stream::stored(object, first, parts, preamble.len(), line));
        Step::Stream { consumed: request.head_len, stream }
    }

    /// Sends the parts as they are read.
    fn answer_from_disk(
        &mut self,
        request: &Request<'_>,
        code: u16,
        object: &Arc<Object>,
        parts: Vec<Part>,
        context: &mut Context<'_>,
    ) -> Step {
        let pieces = parts.into_iter().flat_map(|Part { preamble, range }| {
            let body = range.map(|ByteRange { first, last }| {
                Stored::Body(Reader::of_object(Arc::clone(object)).within(first, last + 1))
            });
            let said = (!preamble.is_empty()).then(|| Stored::Bytes(preamble.into()));
            said.into_iter().chain(body)
        });
        let followed = context.exchanges.as_mut().expect("a proxy has exchanges").begin_stored(pieces);
        let line = self.open_line(Some(request), code, context);
        self.take_leave(request);
        Step::Follow {
            consumed: request.head_len,
            relay: Relay::new(followed, None, request, None).answering(line),
        }
    }

    /// 304: the client has what is stored, or what is being stored, with the status `whole`.
    pub(super) fn answer_not_modified(
        &mut self,
        request: &Request<'_>,
        stored: &Metadata<'_>,
        whole: u16,
        status: CacheStatus<'_>,
        context: &mut Context<'_>,
    ) -> Step {
        self.start_stored(304, request, context);
        append_not_modified(&mut self.output, stored);
        let origin_status = status.forwarded.map(|_| status.origin_status.unwrap_or(whole));
        let status = CacheStatus { origin_status: origin_status.filter(|origin| *origin != 304), ..status };
        self.end_stored(request, stored, status, context);
        self.count_response(304, context);
        self.answered_with(request, 304, 0, context)
    }

    /// 416: the stored response is shorter.
    fn no_such_part(
        &mut self,
        request: &Request<'_>,
        stored: &Metadata<'_>,
        length: u64,
        status: CacheStatus<'_>,
        context: &mut Context<'_>,
    ) -> Step {
        self.begin(Status::RangeNotSatisfiable, Some(request), context);
        head::unsatisfied_range(&mut self.output, length);
        self.append_cache_status(stored, status, context);
        self.end_page(request, Status::RangeNotSatisfiable, context)
    }

    /// Answers with what an upstream's word was about.
    pub(super) fn answer_with(
        &mut self,
        request: &Request<'_>,
        relay: &Relay,
        standing: &Revalidation,
        context: &mut Context<'_>,
    ) -> Step {
        let is_for_it = standing.is_for_all && stored_fits(request, &standing.object);
        if !relay.follower.is_first() && !is_for_it {
            return self.begin_flow(request, None, None, relay.why, context);
        }
        let is_validated = standing.is_validated();
        if relay.follower.is_first() {
            self.dealings().outcome =
                if is_validated { Outcome::RefreshUnmodified } else { Outcome::RefreshFailed };
        }
        context.served.count(if is_validated { Counter::CacheUnchanged } else { Counter::CacheStale });
        let status = CacheStatus {
            forwarded: relay.why,
            origin_status: Some(standing.upstream_status),
            is_stored: is_validated && standing.is_for_all,
            is_collapsed: !relay.follower.is_first(),
            ..CacheStatus::default()
        };
        self.answer_from_cache(request, &standing.object, status, context)
    }

    /// Answers although no upstream has: with what is stored if that may be, else with an error.
    pub(super) fn answer_without_upstream(
        &mut self,
        request: &Request<'_>,
        relay: &Relay,
        keyed: Option<&Keyed>,
        error: Status,
        context: &mut Context<'_>,
    ) -> Step {
        let now = context.clock.second.seconds() as i64;
        let cache = context.exchanges.as_ref().and_then(|exchanges| exchanges.proxy().cache.as_ref());
        let without = cache.zip(keyed).map(|(cache, keyed)| cache.without_upstream(keyed, now));
        match without {
            Some(Without::Stored(object)) if relay.follower.is_first() || stored_fits(request, &object) => {
                context.served.count(Counter::CacheStale);
                self.dealings().outcome = Outcome::RefreshFailed;
                let status = CacheStatus { is_collapsed: !relay.follower.is_first(), ..no_answer(relay) };
                self.answer_from_cache(request, &object, status, context)
            }
            Some(Without::Forbidden) => self.no_answer_page(request, relay, Status::GatewayTimeout, context),
            _ => self.no_answer_page(request, relay, error, context),
        }
    }

    fn no_answer_page(
        &mut self,
        request: &Request<'_>,
        relay: &Relay,
        error: Status,
        context: &mut Context<'_>,
    ) -> Step {
        self.begin(error, Some(request), context);
        self.status_fields(error);
        if relay.why.is_some() {
            let pseudonym = &context.exchanges.as_ref().expect("a proxy has exchanges").proxy().pseudonym;
            no_answer(relay).append(&mut self.output, pseudonym);
        }
        self.end_page(request, error, context)
    }

    /// Begins the head of an answer with what is stored.
    pub(super) fn start_stored(&mut self, code: u16, request: &Request<'_>, context: &mut Context<'_>) {
        if self.output.capacity() == 0 {
            self.output = context.pool.take();
        }
        self.decide_after(request, context);
        self.head_start = self.output.len() as u32;
        append_status_line(&mut self.output, code);
    }

    /// Ends it.
    pub(super) fn end_stored(
        &mut self,
        request: &Request<'_>,
        stored: &Metadata<'_>,
        status: CacheStatus<'_>,
        context: &mut Context<'_>,
    ) {
        let now = context.clock.second.seconds() as i64;
        self.output.extend_from_slice(b"Age: ");
        head::decimal(&mut self.output, stored.age(now).into());
        self.output.extend_from_slice(b"\r\n");
        self.append_cache_status(stored, status, context);
        self.append_connection(Some(request));
        head::end(&mut self.output);
    }

    fn append_cache_status(&mut self, stored: &Metadata<'_>, status: CacheStatus<'_>, context: &Context<'_>) {
        let ttl_seconds = Some(stored.freshness(context.clock.second.seconds() as i64));
        let pseudonym = &context.exchanges.as_ref().expect("a proxy has exchanges").proxy().pseudonym;
        CacheStatus { ttl_seconds, ..status }.append(&mut self.output, pseudonym);
    }

    /// The fields of a 206 with `ranges` of what is stored; what follows the head is returned.
    fn append_parts_head(
        &mut self,
        stored: &Metadata<'_>,
        object: &Object,
        ranges: &[ByteRange],
    ) -> Vec<Part> {
        let length = object.whole_bytes();
        let media_type = Section(stored.fields).values("content-type").next();
        let (mut parts, boundary) = parts_of(media_type, length, ranges);
        let output = &mut self.output;
        match boundary {
            None => {
                output.extend_from_slice(stored.fields);
                head::content_range(output, ranges[0], length);
            }
            Some(boundary) => {
                let is_kept = |name: &[u8]| !name.eq_ignore_ascii_case(b"content-type");
                for (name, value) in Section(stored.fields).lines().filter(|(name, _)| is_kept(name)) {
                    append_line(output, name, &[value]);
                }
                append_boundary(output, &boundary);
            }
        }
        head::content_length(output, parts.iter().map(Part::length).sum());
        for part in &mut parts {
            part.range = part.range.and_then(|range| object.stored_position(range));
        }
        parts
    }
}

/// Whether the client has what is stored.
pub(super) fn is_current(request: &Request<'_>, stored: &Metadata<'_>) -> bool {
    answer(request, stored, 0) == Answer::NotModified
}

/// What Cache-Status says where no upstream has answered.
fn no_answer(relay: &Relay) -> CacheStatus<'static> {
    CacheStatus { forwarded: relay.why, detail: Some("no-answer"), ..CacheStatus::default() }
}

fn stored_fits(request: &Request<'_>, object: &Object) -> bool {
    Metadata::read(object.metadata()).is_ok_and(|stored| fits(request, &stored))
}

fn append_status_line(output: &mut Vec<u8>, code: u16) {
    if code == Status::Ok.code() {
        return output.extend_from_slice(Status::Ok.line().as_bytes());
    }
    let reason = StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason());
    write!(output, "HTTP/1.1 {code} {}\r\n", reason.unwrap_or_default())
        .expect("writing to memory cannot fail");
}
