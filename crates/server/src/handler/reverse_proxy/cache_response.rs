//! Answers requests from the cache.

use std::sync::Arc;

use sojourn_cache_store::{Object, Reader};
use sojourn_http::range::ByteRange;
use sojourn_http::request::{Method, Request};
use sojourn_http::{Status, head};
use sojourn_http_cache::fields::{Section, append_line};
use sojourn_http_cache::{Answer, CacheStatus, Metadata, append_not_modified};

use super::ReverseProxy;
use super::exchange::{Relay, Stage};
use super::{CacheMiss, Fallback, Revalidation, Stored, answer, fits};
use crate::access_log::Outcome;
use crate::connection::{Response, Step};
use crate::counters::Counter;
use crate::handler::stream::{Part, Stream, append_boundary, parts_of};

impl ReverseProxy {
    /// Answers with a stored object; `status` is its Cache-Status.
    pub(super) fn answer_from_cache(
        &mut self,
        request: &Request<'_>,
        object: &Arc<Object>,
        status: CacheStatus<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let stored = Metadata::read(object.metadata()).expect("it was read when it was found");
        if status.forwarded.is_none() {
            response.shared.served.count(Counter::CacheHits);
            if stored.status >= 400 {
                response.note_outcome(Outcome::NegativeHit);
            }
            if stored.freshness(response.shared.clock.second.seconds() as i64) <= 0 {
                response.shared.served.count(Counter::CacheStale);
            }
        }
        let length = object.whole_bytes();
        let ranges = match answer(request, &stored, length) {
            Answer::Whole => None,
            Answer::NotModified => {
                if status.forwarded.is_none() {
                    response.note_outcome(Outcome::NotModifiedHit);
                }
                return self.answer_not_modified(request, &stored, stored.status, status, response);
            }
            Answer::RangeNotSatisfiable => {
                return self.no_such_part(request, &stored, length, status, response);
            }
            // It is undefined whether a content coding applies to the parts or to the multipart body.
            Answer::Parts(ranges) if ranges.len() > 1 && Section(stored.fields).has("content-encoding") => {
                None
            }
            Answer::Parts(ranges) => Some(ranges),
        };
        let code = if ranges.is_some() { 206 } else { stored.status };
        response.start(code, None, request);
        let parts = ranges.map(|ranges| append_parts_head(&stored, object, &ranges, response));
        if parts.is_none() {
            response.fields().extend_from_slice(stored.fields);
            if code != 204 {
                head::content_length(response.fields(), length);
            }
        }
        let origin_status = status.origin_status.filter(|origin| *origin != code);
        self.end_stored(request, &stored, CacheStatus { origin_status, ..status }, response);
        if request.method == Method::Head || length == 0 {
            return response.answered(request, code);
        }
        let parts = parts.unwrap_or_else(|| vec![Part::whole(length)]);
        response.shared.served.add(Counter::CacheHitBytes, parts.iter().map(Part::length).sum());
        match object.small_body() {
            // Copying a small body is cheaper than pointing to it; several parts are concatenated.
            Some(body) if length <= response.shared.send_path.copied_bytes_max || parts.len() > 1 => {
                self.answer_copied(request, code, body, &parts, response)
            }
            _ if object.is_in_memory() => self.answer_stored(request, code, object, parts, response),
            _ => self.answer_from_disk(request, code, object, parts, response),
        }
    }

    /// Copies the parts of a small body behind their head.
    fn answer_copied(
        &mut self,
        request: &Request<'_>,
        code: u16,
        body: &[u8],
        parts: &[Part],
        response: &mut Response<'_, '_>,
    ) -> Step {
        for Part { preamble, range } in parts {
            response.body(preamble);
            if let Some(ByteRange { first, last }) = *range {
                response.body(&body[first as usize..=last as usize]);
            }
        }
        response.answered(request, code)
    }

    /// Sends the parts from the object's memory, after the head in the output.
    fn answer_stored(
        &mut self,
        request: &Request<'_>,
        code: u16,
        object: &Arc<Object>,
        mut parts: Vec<Part>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let Part { preamble, range } = parts.remove(0);
        response.body(&preamble);
        let first = range.expect("what is last alone has no range");
        let cache = self.upstream_client.proxy().cache.as_ref();
        // TLS reads what it sends, so a file is no advantage.
        let is_for_a_file =
            !response.is_secure() && first.length() > response.shared.send_path.memory_bytes_max;
        let moved = cache.filter(|_| is_for_a_file).map(|cache| cache.for_sending(object));
        let object = moved.as_ref().unwrap_or(object);
        if !response.is_secure() && object.file().is_some() {
            response.shared.served.count(Counter::CacheMemoryFileHits);
        }
        let stream = Box::new(Stream::stored(object, first, parts));
        self.send_body(request, code, Stage::Sending(stream), response)
    }

    /// Sends the parts as they are read from disk.
    fn answer_from_disk(
        &mut self,
        request: &Request<'_>,
        code: u16,
        object: &Arc<Object>,
        parts: Vec<Part>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let pieces = parts.into_iter().flat_map(|Part { preamble, range }| {
            let body = range.map(|ByteRange { first, last }| {
                Stored::Body(Reader::of_object(Arc::clone(object)).within(first, last + 1))
            });
            let said = (!preamble.is_empty()).then(|| Stored::Bytes(preamble.into()));
            said.into_iter().chain(body)
        });
        let followed = self.upstream_client.begin_stored(pieces);
        self.relay_body(request, code, Relay::new(followed, request, None), response)
    }

    /// 304: the client already has the object, stored or in transit; `whole` is its Cache-Status.
    pub(super) fn answer_not_modified(
        &mut self,
        request: &Request<'_>,
        stored: &Metadata<'_>,
        whole: u16,
        status: CacheStatus<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        response.start(304, None, request);
        append_not_modified(response.fields(), stored);
        let origin_status = status.forwarded.map(|_| status.origin_status.unwrap_or(whole));
        let status = CacheStatus { origin_status: origin_status.filter(|origin| *origin != 304), ..status };
        self.end_stored(request, stored, status, response);
        response.answered(request, 304)
    }

    /// 416: the stored response is shorter.
    fn no_such_part(
        &mut self,
        request: &Request<'_>,
        stored: &Metadata<'_>,
        length: u64,
        status: CacheStatus<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        response.begin(Status::RangeNotSatisfiable, request);
        head::unsatisfied_range(response.fields(), length);
        self.append_cache_status(stored, status, response);
        response.end_page(request, Status::RangeNotSatisfiable)
    }

    /// Answers with the stored response that the upstream's answer confirmed.
    pub(super) fn answer_with(
        &mut self,
        request: &Request<'_>,
        relay: &Relay,
        revalidation: &Revalidation,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let now = response.shared.clock.second.seconds() as i64;
        let stored = Metadata::read(revalidation.object.metadata());
        let is_for_it =
            revalidation.is_for_all && stored.is_ok_and(|stored| may_answer(request, &stored, now));
        if !relay.reader.is_first() && !is_for_it {
            let client_context = self.client_context(request, response);
            return self.begin_flow(request, client_context, (None, None), relay.why, response);
        }
        let is_validated = revalidation.is_validated();
        if relay.reader.is_first() {
            response.note_outcome(if is_validated {
                Outcome::RefreshUnmodified
            } else {
                Outcome::RefreshFailed
            });
        }
        response.shared.served.count(if is_validated {
            Counter::CacheUnchanged
        } else {
            Counter::CacheStale
        });
        let status = CacheStatus {
            forwarded: relay.why,
            origin_status: Some(revalidation.upstream_status),
            is_stored: is_validated && revalidation.is_for_all,
            is_collapsed: !relay.reader.is_first(),
            ..CacheStatus::default()
        };
        self.answer_from_cache(request, &revalidation.object, status, response)
    }

    /// Answers when no upstream responds: with a stored object if that is allowed, otherwise with an error.
    pub(super) fn answer_without_upstream(
        &mut self,
        request: &Request<'_>,
        relay: &Relay,
        miss: Option<&CacheMiss>,
        error: Status,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let now = response.shared.clock.second.seconds() as i64;
        let cache = self.upstream_client.proxy().cache.as_ref();
        let without = cache.zip(miss).map(|(cache, miss)| cache.stale_or_failure(miss, now));
        match without {
            Some(Fallback::Stored(object)) if relay.reader.is_first() || stored_fits(request, &object) => {
                response.shared.served.count(Counter::CacheStale);
                response.note_outcome(Outcome::RefreshFailed);
                let status = CacheStatus { is_collapsed: !relay.reader.is_first(), ..no_answer(relay) };
                self.answer_from_cache(request, &object, status, response)
            }
            Some(Fallback::Forbidden) => {
                self.no_answer_page(request, relay, Status::GatewayTimeout, response)
            }
            _ => self.no_answer_page(request, relay, error, response),
        }
    }

    fn no_answer_page(
        &mut self,
        request: &Request<'_>,
        relay: &Relay,
        error: Status,
        response: &mut Response<'_, '_>,
    ) -> Step {
        response.begin(error, request);
        if error == Status::MethodNotAllowed {
            // Only buckets allow so little.
            head::field(response.fields(), "Allow", "GET, HEAD");
        }
        if relay.why.is_some() {
            let pseudonym = &self.upstream_client.proxy().pseudonym;
            no_answer(relay).append(response.fields(), pseudonym);
        }
        response.end_page(request, error)
    }

    /// Ends the head of a response from a stored object.
    pub(super) fn end_stored(
        &mut self,
        request: &Request<'_>,
        stored: &Metadata<'_>,
        status: CacheStatus<'_>,
        response: &mut Response<'_, '_>,
    ) {
        let now = response.shared.clock.second.seconds() as i64;
        let head = response.fields();
        head.extend_from_slice(b"Age: ");
        head::decimal(head, stored.age(now).into());
        head.extend_from_slice(b"\r\n");
        self.append_cache_status(stored, status, response);
        response.end_head(request);
    }

    fn append_cache_status(
        &mut self,
        stored: &Metadata<'_>,
        status: CacheStatus<'_>,
        response: &mut Response<'_, '_>,
    ) {
        let ttl_seconds = Some(stored.freshness(response.shared.clock.second.seconds() as i64));
        let pseudonym = &self.upstream_client.proxy().pseudonym;
        CacheStatus { ttl_seconds, ..status }.append(response.fields(), pseudonym);
    }
}

/// Writes the fields of a 206 with `ranges` of a stored object; returns the body's parts.
fn append_parts_head(
    stored: &Metadata<'_>,
    object: &Object,
    ranges: &[ByteRange],
    response: &mut Response<'_, '_>,
) -> Vec<Part> {
    let length = object.whole_bytes();
    let media_type = Section(stored.fields).values("content-type").next();
    let (mut parts, boundary) = parts_of(media_type, length, ranges);
    let output = response.fields();
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

/// Returns true if the client's copy equals the stored object.
pub(super) fn is_current(request: &Request<'_>, stored: &Metadata<'_>) -> bool {
    answer(request, stored, 0) == Answer::NotModified
}

/// Returns true if a response that another client's request has brought, or confirmed, may answer `request` at `now`.
pub(super) fn may_answer(request: &Request<'_>, stored: &Metadata<'_>, now: i64) -> bool {
    fits(request, stored) && stored.may_be_shared(now)
}

/// Cache-Status of a response without an upstream.
fn no_answer(relay: &Relay) -> CacheStatus<'static> {
    CacheStatus { forwarded: relay.why, detail: Some("no-answer"), ..CacheStatus::default() }
}

fn stored_fits(request: &Request<'_>, object: &Object) -> bool {
    Metadata::read(object.metadata()).is_ok_and(|stored| fits(request, &stored))
}
