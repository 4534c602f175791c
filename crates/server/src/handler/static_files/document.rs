//! Answers with a document: selects the variant (RFC 9110, 12), evaluates conditions and ranges.

use std::sync::Arc;

use sojourn_content::{CHUNK_BYTES, Choice, Document, FileRange};
use sojourn_http::condition::{Validators, Verdict};
use sojourn_http::negotiation::{self, preferred};
use sojourn_http::range::{self, ByteRange, Selection};
use sojourn_http::request::{Method, Request, Version};
use sojourn_http::{Status, head};

use super::{Attempt, Exchange, Loaded, StaticFiles, append_status_fields};
use crate::connection::{ExchangeId, HEAD_ALIGNMENT_BYTES, Piece, Response, Step};
use crate::handler::stream::{Part, Stream, append_boundary, parts_of};

impl StaticFiles {
    /// Answers with a document, whose body may be available.
    pub(super) fn document(
        &mut self,
        request: &Request<'_>,
        attempt: Attempt,
        document: &Arc<Document>,
        body: Option<Loaded>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let Some(document) = choose(document, request) else {
            return self.page(request, Status::NotAcceptable, response);
        };
        if attempt.instead.is_some_and(|status| status != Status::Ok) {
            return self.whole(request, attempt, document, body, response);
        }
        let current = Validators { entity_tag: document.entity_tag.as_bytes(), modified: document.modified };
        match request.conditions.verdict(current) {
            Verdict::Perform => {}
            Verdict::NotModified => return not_modified(request, document, response),
            Verdict::Failed => return response.page(request, Status::PreconditionFailed),
        }
        // RFC 9110, 14.2: Range applies to GET only.
        if let Some(wanted) = request.range
            && request.method == Method::Get
            && request.conditions.range_counts(current)
        {
            match range::select(wanted, document.size) {
                Selection::Whole => {}
                // It is undefined whether a content coding applies to the parts or to the multipart body.
                Selection::Parts(parts) if parts.len() > 1 && document.coding.is_some() => {}
                Selection::Nothing => return no_such_range(request, document.size, response),
                Selection::Parts(ranges) => {
                    return self.partial(request, attempt, document, body, &ranges, response);
                }
            }
        }
        self.whole(request, attempt, document, body, response)
    }

    /// The whole document, regardless of the request's conditions.
    fn whole(
        &mut self,
        request: &Request<'_>,
        attempt: Attempt,
        document: &Arc<Document>,
        body: Option<Loaded>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let status = attempt.instead.unwrap_or(Status::Ok);
        if request.method == Method::Head || document.size == 0 {
            self.begin_document(request, status, document, response);
            return response.answered(request, status.code());
        }
        let from_memory = document.size <= in_memory_bytes_max(request, response);
        if !from_memory || document.size > CHUNK_BYTES {
            if let Some(range) = self.first_chunk(document, 0, body.as_ref()) {
                return self.load(range, attempt, response);
            }
            self.begin_document(request, status, document, response);
            let stream = Stream::new(Arc::clone(document), from_memory).beginning_with(body);
            return self.stream(request, status, stream, response);
        }
        let loaded = body.map(|body| body.bytes);
        let Some(body) = loaded.or_else(|| self.caches.chunk(document, 0).cloned()) else {
            return self.load(FileRange::whole(document), attempt, response);
        };
        self.begin_document(request, status, document, response);
        if body.len() as u64 <= response.shared.send_path.copied_bytes_max {
            response.body(&body);
            return response.answered(request, status.code());
        }
        response.answered_with(request, status.code(), Piece::Memory(body))
    }

    /// The first chunk to read of a remote `document`, from `offset`, before its head is sent: if the origin fails, the
    /// client gets an error. `None` if it is there, or if the document is a file.
    fn first_chunk(
        &mut self,
        document: &Arc<Document>,
        offset: u64,
        loaded: Option<&Loaded>,
    ) -> Option<FileRange> {
        if document.file().is_some() {
            return None;
        }
        let range = FileRange::chunk(document, offset);
        let is_there = loaded.is_some_and(|loaded| loaded.offset == range.offset);
        (!is_there && self.caches.chunk(document, range.offset).is_none()).then_some(range)
    }

    fn stream(
        &mut self,
        request: &Request<'_>,
        status: Status,
        stream: Stream,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let exchange = ExchangeId(self.exchanges.insert(Exchange::Sending(stream)));
        response.body_follows(request, status.code(), exchange)
    }

    fn begin_document(
        &mut self,
        request: &Request<'_>,
        status: Status,
        document: &Document,
        response: &mut Response<'_, '_>,
    ) {
        response.begin(status, request);
        let aligns_heads = response.shared.send_path.aligns_heads;
        let head = response.fields();
        if status == Status::Ok {
            self.caches.append_fields(document, head);
        } else {
            // An error page has no caching fields and validators, which belong to the requested document.
            append_status_fields(head, status);
            head::content_length(head, document.size);
            document.append_description(head);
            document.append_site_fields(head);
        }
        if aligns_heads {
            head::pad(head, HEAD_ALIGNMENT_BYTES);
        }
        response.end_head(request);
    }

    /// 206 with `ranges` of `document`, whose `body` may be available.
    fn partial(
        &mut self,
        request: &Request<'_>,
        attempt: Attempt,
        document: &Arc<Document>,
        body: Option<Loaded>,
        ranges: &[ByteRange],
        response: &mut Response<'_, '_>,
    ) -> Step {
        let is_small = document.size <= in_memory_bytes_max(request, response).min(CHUNK_BYTES);
        if !is_small {
            if let Some(range) = self.first_chunk(document, ranges[0].first, body.as_ref()) {
                return self.load(range, attempt, response);
            }
            let mut parts = begin_partial(request, document, ranges, response);
            response.body(&parts.remove(0).preamble);
            let stream = Stream::parts(Arc::clone(document), ranges[0], parts).beginning_with(body);
            return self.stream(request, Status::PartialContent, stream, response);
        }
        let loaded = body.map(|body| body.bytes);
        let Some(body) = loaded.or_else(|| self.caches.chunk(document, 0).cloned()) else {
            return self.load(FileRange::whole(document), attempt, response);
        };
        for Part { preamble, range } in begin_partial(request, document, ranges, response) {
            response.body(&preamble);
            if let Some(ByteRange { first, last }) = range {
                response.body(&body[first as usize..=last as usize]);
            }
        }
        response.answered(request, Status::PartialContent.code())
    }
}

/// The largest body kept in memory for an answer to `request`.
pub(super) fn in_memory_bytes_max(request: &Request<'_>, response: &Response<'_, '_>) -> u64 {
    let is_framed = response.is_secure() || request.version == Version::Http2;
    response.shared.send_path.in_memory_bytes_max(is_framed)
}

/// Writes the head of a 206; returns the body's parts.
fn begin_partial(
    request: &Request<'_>,
    document: &Document,
    ranges: &[ByteRange],
    response: &mut Response<'_, '_>,
) -> Vec<Part> {
    response.begin(Status::PartialContent, request);
    let (parts, boundary) = parts_of(Some(document.media_type.as_bytes()), document.size, ranges);
    let head = response.fields();
    head::content_length(head, parts.iter().map(Part::length).sum());
    match boundary {
        None => {
            document.append_description(head);
            head::content_range(head, ranges[0], document.size);
        }
        Some(boundary) => append_boundary(head, &boundary),
    }
    head::validator_fields(head, &document.entity_tag, document.modified);
    document.append_terms(head);
    response.end_head(request);
    parts
}

/// 416, with the document's size.
fn no_such_range(request: &Request<'_>, size: u64, response: &mut Response<'_, '_>) -> Step {
    response.begin(Status::RangeNotSatisfiable, request);
    head::unsatisfied_range(response.fields(), size);
    response.end_page(request, Status::RangeNotSatisfiable)
}

fn not_modified(request: &Request<'_>, document: &Document, response: &mut Response<'_, '_>) -> Step {
    response.begin(Status::NotModified, request);
    let head = response.fields();
    head::validator_fields(head, &document.entity_tag, document.modified);
    document.append_terms(head);
    response.end_head(request);
    response.answered(request, Status::NotModified.code())
}

/// The variant of `document` that `request` prefers; `None` if it refuses every one. A document without variants is
/// always sent.
fn choose<'a>(document: &'a Arc<Document>, request: &Request<'_>) -> Option<&'a Arc<Document>> {
    let variants = &document.variants;
    if variants.is_empty() {
        return Some(document);
    }
    match document.choice {
        Choice::None => Some(document),
        Choice::AcceptEncoding => {
            let coded = |coding| variants.iter().find(|variant| variant.coding == Some(coding));
            match negotiation::choose(request.accept_encoding, |coding| coded(coding).is_some()) {
                negotiation::Choice::Coded(coding) => coded(coding),
                negotiation::Choice::Identity => Some(document),
                negotiation::Choice::Nothing => None,
            }
        }
        Choice::Accept => {
            let bare =
                |document: &'a Arc<Document>| document.media_type.split(';').next().unwrap_or_default();
            let offers = [bare(document), bare(&variants[0])];
            Some([document, &variants[0]][preferred(request.accept, &offers)])
        }
    }
}
