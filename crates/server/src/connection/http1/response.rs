//! What every response has: its head's beginning and end, whether the connection outlives it, its line in the log.

use sojourn_http::request::{Body, Method, Request, Version};
use sojourn_http::{Status, head};

use super::answer::Step;
use super::body::Content;
use super::dealings::Dealings;
use super::{After, Http1};
use crate::access_log::{Entry, OpenLine};
use crate::connection::Context;
use crate::counters::Counter;
use crate::handler::reverse_proxy::Outcome;

/// The methods of a static site.
pub(super) const ALLOWED: &str = "GET, HEAD, OPTIONS";

impl Http1 {
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

    /// Whether the connection can carry another request after this one.
    fn after(&self, request: &Request<'_>, is_last: bool) -> After {
        match self.content {
            Content::Left | Content::Malformed => After::Linger,
            _ if request.method == Method::Connect => After::Linger,
            _ if !request.keep_alive || is_last => After::Close,
            _ => After::Keep,
        }
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

    pub(super) fn take_leave(&mut self, request: &Request<'_>) {
        self.requests = self.requests.wrapping_add(1);
        if let Some(dealings) = &mut self.dealings {
            **dealings = Dealings::default();
        }
        if request.body != Body::Length(0) {
            self.content = Content::None;
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

    pub(super) fn log(&self, request: Option<&Request<'_>>, status: u16, body: usize, context: &Context<'_>) {
        if let (Some(log), Some(line)) = (context.log, self.open_line(request, status, context)) {
            log.finish(&line, body as u64);
        }
    }
}
