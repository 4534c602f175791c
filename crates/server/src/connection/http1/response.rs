//! The response writer: heads, small bodies, keep-alive, and the log line.

use std::io::Write;
use std::net::IpAddr;

use http::StatusCode;
use sojourn_http::request::{Body, Method, Request, Version};
use sojourn_http::{Status, head};

use super::request_body::Content;
use super::sending::Framing;
use super::sending::Sending;
use super::{After, Http1};
use crate::access_log::{Entry, OpenLine, Outcome, Upstream};
use crate::connection::{Context, ExchangeId, MachineId, Piece, Shared, Step};
use crate::counters::Counter;

/// Writes the response to one request. The handler provides the content, the writer the framing: handlers never write
/// `Connection` or `Transfer-Encoding`.
pub struct Response<'a, 'c> {
    machine: &'a mut Http1,
    pub shared: &'a mut Shared<'c>,
    framing: Framing,
    /// The Connection field is written at the end of the head.
    owes_connection: bool,
    body_bytes: u64,
    outcome: Outcome,
    upstream: Source,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    #[default]
    Own,
    /// The host that the request names.
    Host,
    Upstream(String),
}

impl<'a, 'c> Response<'a, 'c> {
    pub(super) fn new(machine: &'a mut Http1, shared: &'a mut Shared<'c>) -> Response<'a, 'c> {
        Response {
            machine,
            shared,
            framing: Framing::Plain,
            owes_connection: false,
            body_bytes: 0,
            outcome: Outcome::default(),
            upstream: Source::Own,
        }
    }

    pub fn peer(&self) -> IpAddr {
        self.machine.peer
    }

    pub fn is_secure(&self) -> bool {
        self.machine.is_secure
    }

    /// Returns true if earlier responses have not been sent yet; return [`Step::Flush`] rather than let them wait.
    pub fn has_earlier_output(&self) -> bool {
        !self.machine.output.is_empty()
    }

    /// Records the cache's action for the log.
    pub fn note_outcome(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Records the source of the response for the log.
    pub fn note_source(&mut self, source: Source) {
        self.upstream = source;
    }

    /// Starts the head of a response by this server, with `Date`.
    pub fn begin(&mut self, status: Status, request: &Request<'_>) {
        self.machine.begin(status, Some(request), self.shared);
    }

    /// Starts the head of another server's response. Without a `reason` it gets the usual one.
    pub fn start(&mut self, code: u16, reason: Option<&[u8]>, request: &Request<'_>) {
        self.machine.prepare(self.shared);
        self.machine.decide_after(request, self.shared);
        let output = &mut self.machine.output;
        match reason {
            Some(reason) => {
                output.extend_from_slice(b"HTTP/1.1 ");
                head::decimal(output, code.into());
                output.push(b' ');
                output.extend_from_slice(reason);
                output.extend_from_slice(b"\r\n");
            }
            None if code == Status::Ok.code() => output.extend_from_slice(Status::Ok.line().as_bytes()),
            None => {
                let reason = StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason());
                write!(output, "HTTP/1.1 {code} {}\r\n", reason.unwrap_or_default())
                    .expect("writing to memory cannot fail");
            }
        }
        self.owes_connection = true;
        self.machine.count_response(code, self.shared);
    }

    /// The buffer for field lines, once the head has been started.
    pub fn fields(&mut self) -> &mut Vec<u8> {
        &mut self.machine.output
    }

    /// Frames a body of unknown length.
    pub fn length_unknown(&mut self, request: &Request<'_>) {
        match request.version {
            Version::Http11 => {
                self.framing = Framing::Chunked { owes_line_end: false };
                head::field(&mut self.machine.output, "Transfer-Encoding", "chunked");
            }
            Version::Http10 if self.machine.after == After::Keep => self.machine.after = After::Close,
            _ => {}
        }
    }

    pub fn end_head(&mut self, request: &Request<'_>) {
        if self.owes_connection {
            self.machine.append_connection(Some(request));
        }
        head::end(&mut self.machine.output);
    }

    /// Appends a small part of the body.
    #[inline]
    pub fn body(&mut self, bytes: &[u8]) {
        self.machine.output.extend_from_slice(bytes);
        self.body_bytes += bytes.len() as u64;
    }

    /// Ends a response whose head and body have been written.
    pub fn answered(&mut self, request: &Request<'_>, code: u16) -> Step {
        self.log(request, code, self.body_bytes);
        self.machine.end_request(request);
        Step::Answered
    }

    /// Ends a head that `body` follows.
    pub fn answered_with(&mut self, request: &Request<'_>, code: u16, body: Piece) -> Step {
        self.log(request, code, self.body_bytes + body.length() as u64);
        self.machine.end_request(request);
        Step::AnsweredWith(body)
    }

    /// Ends a head, perhaps with the start of the body; `exchange` provides the rest.
    pub fn body_follows(&mut self, request: &Request<'_>, code: u16, exchange: ExchangeId) -> Step {
        self.open(request, code);
        self.machine.end_request(request);
        Step::Body(exchange)
    }

    /// A response after which `machine` owns the connection, which no longer speaks HTTP. It has no body and no fields
    /// about one (RFC 9110, 9.3.6).
    pub fn switch(&mut self, request: &Request<'_>, code: u16, reason: &str, machine: MachineId) -> Step {
        self.machine.prepare(self.shared);
        write!(self.machine.output, "HTTP/1.1 {code} {reason}\r\n\r\n")
            .expect("writing to memory cannot fail");
        self.machine.count_response(code, self.shared);
        self.open(request, code);
        self.machine.end_request(request);
        Step::Upgrade(machine)
    }

    /// Writes a complete response with a short body.
    pub fn send(&mut self, request: &Request<'_>, status: Status, media_type: &str, body: &[u8]) -> Step {
        self.begin(status, request);
        self.send_rest(request, status, media_type, body)
    }

    /// The same, continuing a head that may already have fields.
    pub fn send_rest(
        &mut self,
        request: &Request<'_>,
        status: Status,
        media_type: &str,
        body: &[u8],
    ) -> Step {
        let head = self.fields();
        head::content_length(head, body.len() as u64);
        head::field(head, "Content-Type", media_type);
        self.end_head(request);
        if request.method != Method::Head {
            self.body(body);
        }
        self.answered(request, status.code())
    }

    /// Writes a small page that only names the status.
    pub fn page(&mut self, request: &Request<'_>, status: Status) -> Step {
        self.begin(status, request);
        self.end_page(request, status)
    }

    /// The same, continuing a head that may already have fields.
    pub fn end_page(&mut self, request: &Request<'_>, status: Status) -> Step {
        self.send_rest(request, status, "text/html", head::error_page(status).as_bytes())
    }

    /// 204 with the `allowed` methods.
    pub fn options(&mut self, request: &Request<'_>, allowed: &str) -> Step {
        self.begin(Status::NoContent, request);
        head::field(self.fields(), "Allow", allowed);
        self.end_head(request);
        self.answered(request, Status::NoContent.code())
    }

    /// Returns true if the answer must be 421 (RFC 9110, 7.4): an `https` resource is not served over an insecure
    /// connection.
    pub fn is_misdirected(&self, request: &Request<'_>) -> bool {
        request.scheme == Some(sojourn_http::request::Scheme::Https) && !self.is_secure()
    }

    fn open(&mut self, request: &Request<'_>, code: u16) {
        let line = self.open_line(request, code);
        self.machine.opened = Some(Box::new(Sending::new(line, self.framing, self.body_bytes)));
    }

    #[inline]
    fn log(&self, request: &Request<'_>, code: u16, body_bytes: u64) {
        if let (Some(log), Some(line)) = (self.shared.log, self.open_line(request, code)) {
            log.finish(&line, body_bytes);
        }
    }

    #[inline]
    fn open_line(&self, request: &Request<'_>, code: u16) -> Option<OpenLine> {
        self.shared.log?;
        let upstream = match &self.upstream {
            Source::Own => Upstream::None,
            Source::Host => Upstream::Host,
            Source::Upstream(name) => Upstream::Named(name),
        };
        self.machine.open_line(Some(request), code, self.outcome, upstream, self.shared)
    }
}

impl Http1 {
    /// Answers a malformed or incomplete request and closes the connection.
    pub(super) fn refuse(&mut self, is_head: bool, status: Status, context: &mut Context<'_>) {
        self.after = After::Linger;
        let page = head::error_page(status);
        self.begin(status, None, &mut context.shared);
        head::content_length(&mut self.output, page.len() as u64);
        head::field(&mut self.output, "Content-Type", "text/html");
        head::end(&mut self.output);
        if !is_head {
            self.output.extend_from_slice(page.as_bytes());
        }
        let body_bytes = if is_head { 0 } else { page.len() as u64 };
        let line = self.open_line(None, status.code(), Outcome::default(), Upstream::None, context);
        if let (Some(log), Some(line)) = (context.log, line) {
            log.finish(&line, body_bytes);
        }
    }

    fn prepare(&mut self, shared: &mut Shared<'_>) {
        if self.output.capacity() == 0 {
            self.output = shared.pool.take();
        }
        self.head_start = self.output.len() as u32;
    }

    /// Starts the head of a response by this server, and decides about keep-alive.
    fn begin(&mut self, status: Status, request: Option<&Request<'_>>, shared: &mut Shared<'_>) {
        self.prepare(shared);
        if let Some(request) = request {
            self.decide_after(request, shared);
        }
        head::start(&mut self.output, status, &shared.clock.date);
        self.append_connection(request);
        if status == Status::ServiceUnavailable {
            head::field(&mut self.output, "Retry-After", "1");
        }
        self.count_response(status.code(), shared);
    }

    /// Decides whether the connection is kept after the response to `request`.
    fn decide_after(&mut self, request: &Request<'_>, shared: &mut Shared<'_>) {
        let is_last = shared.limits.requests_per_connection.is_some_and(|max| self.requests + 1 >= max);
        if is_last && request.keep_alive {
            shared.served.count(Counter::LimitRequestsPerConnection);
        }
        let is_last = is_last || shared.is_draining;
        self.after = match self.content {
            Content::Left | Content::Malformed => After::Linger,
            _ if request.method == Method::Connect => After::Linger,
            _ if !request.keep_alive || is_last => After::Close,
            _ => After::Keep,
        };
    }

    /// Writes the Connection field.
    fn append_connection(&mut self, request: Option<&Request<'_>>) {
        let connection = match (self.after, request.map(|request| request.version)) {
            (After::Keep, Some(Version::Http10)) => head::Connection::KeepAlive,
            (After::Keep, _) => head::Connection::Stays,
            (After::Close | After::Linger, _) => head::Connection::Close,
        };
        head::connection(&mut self.output, connection);
    }

    fn count_response(&self, status: u16, shared: &mut Shared<'_>) {
        shared.served.count(Counter::Requests);
        shared.served.count(match status {
            ..300 => Counter::Responses2xx,
            300..400 => Counter::Responses3xx,
            400..500 => Counter::Responses4xx,
            500.. => Counter::Responses5xx,
        });
    }

    fn end_request(&mut self, request: &Request<'_>) {
        self.requests = self.requests.wrapping_add(1);
        if request.body != Body::Length(0) {
            self.content = Content::None;
        }
    }

    fn open_line(
        &self,
        request: Option<&Request<'_>>,
        status: u16,
        outcome: Outcome,
        upstream: Upstream<'_>,
        shared: &Shared<'_>,
    ) -> Option<OpenLine> {
        Some(shared.log?.begin(&Entry {
            peer: self.peer,
            clock: shared.clock,
            request,
            status,
            head: &self.output[self.head_start as usize..],
            began: self.began,
            earlier_requests: self.requests,
            is_secure: self.is_secure,
            outcome,
            upstream,
        }))
    }
}
