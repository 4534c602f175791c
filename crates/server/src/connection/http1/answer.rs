//! From a request to its answer, as far as the caches and what has arrived from the disk allow.

use std::sync::Arc;

use sojourn_content::{CHUNK_BYTES, Document, FileRange, Opening, Place};
use sojourn_http::condition::{Validators, Verdict};
use sojourn_http::range::{self, Selection};
use sojourn_http::request::{Body, Method, Parsed, Request, Scheme, Version};
use sojourn_http::{SitePath, Status, head};

use super::body::Content;
use super::dealings::Dealings;
use super::pipeline::is_head;
use super::relay::Relay;
use super::representation::choose;
use super::resolve::{Resolved, resolve};
use super::stream::Stream;
use super::tunnel::Tunnelling;
use super::{After, Http1};
use crate::connection::{Context, HEAD_ALIGNMENT_BYTES, Piece};
use crate::counters::Counter;
use crate::log::{Entry, OpenLine};
use crate::proxy::{Outcome, TunnelId};

/// The methods of a static site.
const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// How far the request at the start of the input came.
pub(super) enum Step {
    /// Its head is not whole.
    Partial,
    /// Its body comes next.
    Body,
    /// The answer is in the output.
    Answered { consumed: usize },
    /// The head is in the output, this body follows.
    AnsweredWith { consumed: usize, body: Piece },
    /// The head is in the output, the document follows, turn by turn.
    Stream { consumed: usize, stream: Box<Stream> },
    /// What is in the output goes first, then it is read again.
    Flush,
    /// The disk of the proxy's cache has yet to tell, then it is read again.
    Search,
    /// An upstream is asked.
    Relay(Box<Relay>),
    /// The head of an upstream's answer is in the output, its body follows as it comes.
    Follow { consumed: usize, relay: Box<Relay> },
    /// A tunnel is being opened.
    Tunnel(TunnelId),
    /// It is there, and that is in the output.
    Tunnelled { consumed: usize, tunnelling: Box<Tunnelling> },
    /// It needs a document opened.
    Open(Opening),
    /// It needs a small body.
    Load(FileRange),
}

impl Http1 {
    /// Reads the request at the start of `bytes` and goes as far as possible.
    pub(super) fn step(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Step {
        match self.parser.parse(bytes) {
            Ok(Parsed::Partial) => Step::Partial,
            Ok(Parsed::Complete(request)) if context.exchanges.is_some() => self.relay(&request, context),
            Ok(Parsed::Complete(request)) => {
                let is_new = matches!(self.content, Content::None) && request.body != Body::Length(0);
                if is_new && self.begin_body(&request, bytes.len(), context) {
                    return Step::Body;
                }
                self.answer(&request, context)
            }
            Err(error) => {
                self.refuse(is_head(bytes), error.status(), context);
                Step::Answered { consumed: bytes.len() }
            }
        }
    }

    /// The answer to what is no request, or not a whole one; the connection ends with it.
    pub(super) fn refuse(&mut self, is_head: bool, status: Status, context: &mut Context<'_>) {
        self.after = After::Linger;
        let page = head::error_page(status);
        self.begin(status, None, context);
        head::content_length(&mut self.output, page.len() as u64);
        head::field(&mut self.output, "Content-Type", "text/html");
        head::end(&mut self.output);
        if is_head {
            return self.log(None, status.code(), 0, context);
        }
        self.output.extend_from_slice(page.as_bytes());
        self.log(None, status.code(), page.len(), context);
    }

    fn answer(&mut self, request: &Request<'_>, context: &mut Context<'_>) -> Step {
        if matches!(self.content, Content::Malformed) {
            return self.page(request, Status::BadRequest, context);
        }
        if request.scheme == Some(Scheme::Https) && !self.is_secure {
            // RFC 9110, 7.4: such a resource is not to be had over a connection that is not secured.
            return self.page(request, Status::MisdirectedRequest, context);
        }
        let path = match (request.method, SitePath::decode(request.target)) {
            (Method::Options, Ok(_)) => return self.options(request, context),
            (Method::Options, _) if request.target == b"*" => return self.options(request, context),
            (Method::NotAllowed | Method::Connect, _) => {
                return self.page(request, Status::MethodNotAllowed, context);
            }
            (Method::Unknown, _) => return self.page(request, Status::NotImplemented, context),
            (_, Err(_)) => return self.page(request, Status::BadRequest, context),
            (_, Ok(path)) => path,
        };
        let Some(host) = context.hosts.find(request.host) else {
            return self.page(request, Status::MisdirectedRequest, context);
        };
        let arrived = self.arrived.take();
        if let Some(status) = self.instead.take() {
            return self.answer_instead(request, host, status, arrived, context);
        }
        let place = Place { host, path };
        match resolve(&place, arrived, context) {
            Resolved::Document(document, body) => {
                self.document(request, Status::Ok, &document, body, context)
            }
            Resolved::Directory => self.redirect(request, &place.path, context),
            Resolved::Failed(status) => self.fail(request, host, status, context),
            Resolved::Unknown(opening) => Step::Open(opening),
        }
    }

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

    pub(super) fn options(&mut self, request: &Request<'_>, context: &mut Context<'_>) -> Step {
        self.begin(Status::NoContent, Some(request), context);
        head::field(&mut self.output, "Allow", ALLOWED);
        head::end(&mut self.output);
        self.answered(request, Status::NoContent, 0, context)
    }

    fn redirect(&mut self, request: &Request<'_>, path: &SitePath<'_>, context: &mut Context<'_>) -> Step {
        let mut location = path.directory_location();
        if let Some(query) = request.target.iter().position(|byte| *byte == b'?') {
            // A request target is visible ASCII, so it has its place in a field.
            location.push_str(std::str::from_utf8(&request.target[query..]).unwrap_or_default());
        }
        self.begin(Status::MovedPermanently, Some(request), context);
        head::field(&mut self.output, "Location", &location);
        self.end_page(request, Status::MovedPermanently, context)
    }

    /// A small page that says `status` and no more.
    pub(super) fn page(&mut self, request: &Request<'_>, status: Status, context: &mut Context<'_>) -> Step {
        self.begin(status, Some(request), context);
        self.status_fields(status);
        self.end_page(request, status, context)
    }

    pub(super) fn status_fields(&mut self, status: Status) {
        match status {
            Status::MethodNotAllowed => head::field(&mut self.output, "Allow", ALLOWED),
            Status::NotAcceptable => head::field(&mut self.output, "Vary", "Accept-Encoding"),
            Status::ServiceUnavailable => head::field(&mut self.output, "Retry-After", "1"),
            _ => {}
        }
    }

    pub(super) fn end_page(
        &mut self,
        request: &Request<'_>,
        status: Status,
        context: &mut Context<'_>,
    ) -> Step {
        let page = head::error_page(status);
        head::content_length(&mut self.output, page.len() as u64);
        head::field(&mut self.output, "Content-Type", "text/html");
        head::end(&mut self.output);
        if request.method == Method::Head {
            return self.answered(request, status, 0, context);
        }
        self.output.extend_from_slice(page.as_bytes());
        self.answered(request, status, page.len(), context)
    }

    pub(super) fn answered(
        &mut self,
        request: &Request<'_>,
        status: Status,
        body: usize,
        context: &mut Context<'_>,
    ) -> Step {
        self.answered_with(request, status.code(), body, context)
    }

    /// The answer is in the output, so many bytes of body included.
    pub(super) fn answered_with(
        &mut self,
        request: &Request<'_>,
        status: u16,
        body: usize,
        context: &mut Context<'_>,
    ) -> Step {
        self.log(Some(request), status, body, context);
        self.take_leave(request);
        Step::Answered { consumed: request.head_len }
    }

    /// Begins the head of a response, and decides whether the connection outlives it.
    pub(super) fn begin(&mut self, status: Status, request: Option<&Request<'_>>, context: &mut Context<'_>) {
        if self.output.capacity() == 0 {
            self.output = context.pool.take();
        }
        if let Some(request) = request {
            self.decide_after(request, context);
        }
        self.head_start = self.output.len() as u32;
        head::start(&mut self.output, status, &context.clock.date);
        self.append_connection(request);
        self.count_response(status.code(), context);
    }

    /// Decides whether the connection outlives the answer to `request`.
    pub(super) fn decide_after(&mut self, request: &Request<'_>, context: &mut Context<'_>) {
        let is_last = context.limits.requests_per_connection.is_some_and(|max| self.requests + 1 >= max);
        if is_last && request.keep_alive {
            context.served.count(Counter::LimitRequestsPerConnection);
        }
        self.after = self.after(request, context.is_draining || is_last);
    }

    /// Says so in the head.
    pub(super) fn append_connection(&mut self, request: Option<&Request<'_>>) {
        let connection = match (self.after, request.map(|request| request.version)) {
            (After::Keep, Some(Version::Http10)) => head::Connection::KeepAlive,
            (After::Keep, _) => head::Connection::Stays,
            (After::Close | After::Linger, _) => head::Connection::Close,
        };
        head::connection(&mut self.output, connection);
    }

    pub(super) fn count_response(&self, status: u16, context: &mut Context<'_>) {
        context.served.count(Counter::Requests);
        context.served.count(match status {
            ..300 => Counter::Responses2xx,
            300..400 => Counter::Responses3xx,
            400..500 => Counter::Responses4xx,
            500.. => Counter::Responses5xx,
        });
    }

    pub(super) fn take_leave(&mut self, request: &Request<'_>) {
        self.requests = self.requests.wrapping_add(1);
        if let Some(dealings) = &mut self.dealings {
            **dealings = Dealings::default();
        }
        if request.body != Body::Length(0) {
            self.content = Content::None;
        }
    }

    /// Whether the connection can carry another request after this one.
    fn after(&self, request: &Request<'_>, is_last: bool) -> After {
        match self.content {
            Content::Left | Content::Malformed => After::Linger,
            _ if request.method == Method::Connect => After::Linger,
            _ if !request.keep_alive || is_last => After::Close,
            _ => After::Keep,
        }
    }

    pub(super) fn open_line(
        &self,
        request: Option<&Request<'_>>,
        status: u16,
        context: &Context<'_>,
    ) -> Option<OpenLine> {
        let log = context.log?;
        Some(log.begin(&Entry {
            peer: self.peer,
            clock: context.clock,
            request,
            status,
            head: &self.output[self.head_start as usize..],
            began: self.began,
            earlier_requests: self.requests,
            is_secure: self.is_secure,
            outcome: self.dealings.as_ref().map_or(Outcome::default(), |dealings| dealings.outcome),
            upstream: self.upstream_asked(context),
        }))
    }

    fn log(&self, request: Option<&Request<'_>>, status: u16, body: usize, context: &Context<'_>) {
        if let (Some(log), Some(line)) = (context.log, self.open_line(request, status, context)) {
            log.finish(&line, body as u64);
        }
    }
}
