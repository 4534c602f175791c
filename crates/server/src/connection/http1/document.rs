//! Answering with a document: all of it, a part, or that the client has it.

use std::sync::Arc;

use sojourn_content::{CHUNK_BYTES, Document, FileRange};
use sojourn_http::condition::{Validators, Verdict};
use sojourn_http::range::{self, Selection};
use sojourn_http::request::{Method, Request};
use sojourn_http::{Status, head};

use super::Http1;
use super::answer::Step;
use super::representation::choose;
use super::stream::Stream;
use crate::connection::{Context, HEAD_ALIGNMENT_BYTES, Piece};

impl Http1 {
    /// Answers with a document, of which the body may be at hand, and `status`.
    pub(super) fn document(
        &mut self,
        request: &Request<'_>,
        status: Status,
        document: &Arc<Document>,
        body: Option<Arc<[u8]>>,
        context: &mut Context<'_>,
    ) -> Step {
        let Some(document) = choose(document, request) else {
            return self.page(request, Status::NotAcceptable, context);
        };
        if status != Status::Ok {
            return self.whole(request, status, document, body, context);
        }
        let current = Validators { entity_tag: document.entity_tag.as_bytes(), modified: document.modified };
        match request.conditions.verdict(current) {
            Verdict::Perform => {}
            Verdict::NotModified => return self.not_modified(request, document, context),
            Verdict::Failed => return self.page(request, Status::PreconditionFailed, context),
        }
        // Range means something for GET alone (RFC 9110, 14.2).
        if let Some(wanted) = request.range
            && request.method == Method::Get
            && request.conditions.range_counts(current)
        {
            match range::select(wanted, document.size) {
                Selection::Whole => {}
                // Nothing says whether a coding belongs to the parts or to what they are wrapped in.
                Selection::Parts(parts) if parts.len() > 1 && document.coding.is_some() => {}
                Selection::Nothing => return self.no_such_range(request, document.size, context),
                Selection::Parts(parts) => return self.partial(request, document, body, &parts, context),
            }
        }
        self.whole(request, status, document, body, context)
    }

    /// All of a document, whatever the request's conditions are.
    fn whole(
        &mut self,
        request: &Request<'_>,
        status: Status,
        document: &Arc<Document>,
        body: Option<Arc<[u8]>>,
        context: &mut Context<'_>,
    ) -> Step {
        if request.method == Method::Head || document.size == 0 {
            self.begin_document(request, status, document, context);
            return self.answered(request, status, 0, context);
        }
        let from_memory = document.size <= context.send_path.in_memory_bytes_max();
        if !from_memory || document.size > CHUNK_BYTES {
            self.begin_document(request, status, document, context);
            let line = self.open_line(Some(request), status.code(), context);
            self.take_leave(request);
            let stream = Box::new(Stream::new(Arc::clone(document), from_memory, line));
            return Step::Stream { consumed: request.head_len, stream };
        }
        let Some(body) = body.or_else(|| context.caches.chunk(document, 0).cloned()) else {
            return Step::Load(FileRange::whole(document));
        };
        self.begin_document(request, status, document, context);
        if body.len() as u64 <= context.send_path.copied_bytes_max {
            self.output.extend_from_slice(&body);
            return self.answered(request, status, body.len(), context);
        }
        self.answered(request, status, body.len(), context);
        Step::AnsweredWith { consumed: request.head_len, body: Piece::Memory(body) }
    }

    fn begin_document(
        &mut self,
        request: &Request<'_>,
        status: Status,
        document: &Document,
        context: &mut Context<'_>,
    ) {
        self.begin(status, Some(request), context);
        if status == Status::Ok {
            context.caches.append_fields(document, &mut self.output);
        } else {
            // It says what went wrong; what may be kept and how it is told from others is about the document alone.
            self.status_fields(status);
            head::content_length(&mut self.output, document.size);
            document.append_description(&mut self.output);
            document.append_site_fields(&mut self.output);
        }
        if context.send_path.aligns_heads {
            head::pad(&mut self.output, HEAD_ALIGNMENT_BYTES);
        }
        head::end(&mut self.output);
    }

    fn not_modified(
        &mut self,
        request: &Request<'_>,
        document: &Document,
        context: &mut Context<'_>,
    ) -> Step {
        self.begin(Status::NotModified, Some(request), context);
        head::validator_fields(&mut self.output, &document.entity_tag, document.modified);
        document.append_terms(&mut self.output);
        head::end(&mut self.output);
        self.answered(request, Status::NotModified, 0, context)
    }
}
