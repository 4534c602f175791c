//! The response writer: a handler writes heads and bodies with a [`Response`], whatever version of HTTP carries them.
//!
//! It decides about keep-alive and framing, counts the response, and prepares its log line. What it needs of the
//! connection is the [`ResponseState`]. A stream of HTTP/2 has one, too: its head is translated afterwards.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use http::StatusCode;
use sojourn_http::chunked::{LAST_CHUNK, begin_chunk};
use sojourn_http::request::{Method, Request, Version};
use sojourn_http::{Status, head};

use super::{ExchangeId, MachineId, Piece, Shared, Step};
use crate::access_log::{AccessLog, Entry, OpenLine, Outcome, Upstream};
use crate::counters::Counter;

/// Pipelined responses and the parts of a body are gathered up to this size before they are sent.
pub(super) const OUTPUT_BYTES_MAX: usize = 32 * 1024;

/// Tells a client to send the body for which it wants to be asked (RFC 9110, 15.2.1).
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Writes the response to one request. The handler provides the content, the writer the framing: handlers never write
/// `Connection` or `Transfer-Encoding`.
pub struct Response<'a, 'c> {
    connection: &'a mut ResponseState,
    pub shared: &'a mut Shared<'c>,
    framing: Framing,
    /// The Connection field is written at the end of the head.
    owes_connection: bool,
    /// The request's body stays unread or is malformed.
    leaves_body: bool,
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
    /// The response to the next request of a connection. If that `leaves_body`, unread or malformed, no further request
    /// can follow.
    pub(super) fn new(
        connection: &'a mut ResponseState,
        shared: &'a mut Shared<'c>,
        leaves_body: bool,
    ) -> Response<'a, 'c> {
        Response {
            connection,
            shared,
            framing: Framing::Plain,
            owes_connection: false,
            leaves_body,
            body_bytes: 0,
            outcome: Outcome::default(),
            upstream: Source::Own,
        }
    }

    pub fn peer(&self) -> IpAddr {
        self.connection.peer
    }

    pub fn is_secure(&self) -> bool {
        self.connection.is_secure
    }

    /// Returns true if earlier responses have not been sent yet; return [`Step::Flush`] rather than let them wait.
    pub fn has_earlier_output(&self) -> bool {
        !self.connection.output.is_empty()
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
        self.connection.decide_after(request, self.leaves_body, self.shared);
        self.connection.begin(status, Some(request), self.shared);
    }

    /// Starts the head of another server's response. Without a `reason` it gets the usual one.
    pub fn start(&mut self, code: u16, reason: Option<&[u8]>, request: &Request<'_>) {
        self.connection.prepare(self.shared);
        self.connection.decide_after(request, self.leaves_body, self.shared);
        let output = &mut self.connection.output;
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
        self.connection.count_response(code, self.shared);
    }

    /// The buffer for field lines, once the head has been started.
    pub fn fields(&mut self) -> &mut Vec<u8> {
        &mut self.connection.output
    }

    /// Frames a body of unknown length.
    pub fn length_unknown(&mut self, request: &Request<'_>) {
        match request.version {
            Version::Http11 => {
                self.framing = Framing::Chunked { owes_line_end: false };
                head::field(&mut self.connection.output, "Transfer-Encoding", "chunked");
            }
            Version::Http10 if self.connection.after == After::Keep => self.connection.after = After::Close,
            _ => {}
        }
    }

    pub fn end_head(&mut self, request: &Request<'_>) {
        if self.owes_connection {
            self.connection.append_connection(Some(request));
        }
        head::end(&mut self.connection.output);
    }

    /// Appends a small part of the body.
    #[inline]
    pub fn body(&mut self, bytes: &[u8]) {
        self.connection.output.extend_from_slice(bytes);
        self.body_bytes += bytes.len() as u64;
    }

    /// Ends a response whose head and body have been written.
    pub fn answered(&mut self, request: &Request<'_>, code: u16) -> Step {
        self.log(request, code, self.body_bytes);
        self.connection.end_request();
        Step::Answered
    }

    /// Ends a head that `body` follows.
    pub fn answered_with(&mut self, request: &Request<'_>, code: u16, body: Piece) -> Step {
        self.log(request, code, self.body_bytes + body.length() as u64);
        self.connection.end_request();
        Step::AnsweredWith(body)
    }

    /// Ends a head, perhaps with the start of the body; `exchange` provides the rest.
    pub fn body_follows(&mut self, request: &Request<'_>, code: u16, exchange: ExchangeId) -> Step {
        self.open(request, code);
        self.connection.end_request();
        Step::Body(exchange)
    }

    /// A response after which `machine` owns the connection, which no longer speaks HTTP. It has no body and no fields
    /// about one (RFC 9110, 9.3.6).
    pub fn switch(
        &mut self,
        request: &Request<'_>,
        code: u16,
        reason: &[u8],
        fields: &[u8],
        machine: MachineId,
    ) -> Step {
        self.connection.prepare(self.shared);
        let output = &mut self.connection.output;
        write!(output, "HTTP/1.1 {code} ").expect("writing to memory cannot fail");
        for part in [reason, b"\r\n", fields, b"\r\n"] {
            output.extend_from_slice(part);
        }
        self.connection.count_response(code, self.shared);
        self.open(request, code);
        self.connection.end_request();
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
        self.connection.opened = Some(Box::new(Sending::new(line, self.framing, self.body_bytes)));
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
        self.connection.open_line(Some(request), code, self.outcome, upstream, self.shared)
    }
}

/// The side of a connection that responds.
#[derive(Debug)]
pub(super) struct ResponseState {
    pub peer: IpAddr,
    pub is_secure: bool,
    /// Heads and small bodies to send next.
    pub output: Vec<u8>,
    pub after: After,
    /// The requests that were answered.
    pub requests: u32,
    /// When the first bytes of the current request arrived.
    pub began: Duration,
    /// Where the head of the last response begins in `output`.
    head_start: u32,
    /// The response whose head is in `output`, if its body follows.
    pub opened: Option<Box<Sending>>,
}

/// What happens to the connection after the output is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Keep,
    Close,
    /// Close, but keep reading for a while, because the client may still be sending.
    Linger,
}

impl ResponseState {
    pub fn new(peer: IpAddr, is_secure: bool) -> ResponseState {
        ResponseState {
            peer,
            is_secure,
            output: Vec::new(),
            after: After::Keep,
            requests: 0,
            began: Duration::ZERO,
            head_start: 0,
            opened: None,
        }
    }

    /// Answers a malformed or incomplete request and closes the connection.
    pub fn refuse(&mut self, is_head: bool, status: Status, shared: &mut Shared<'_>) {
        self.after = After::Linger;
        let page = head::error_page(status);
        self.begin(status, None, shared);
        head::content_length(&mut self.output, page.len() as u64);
        head::field(&mut self.output, "Content-Type", "text/html");
        head::end(&mut self.output);
        if !is_head {
            self.output.extend_from_slice(page.as_bytes());
        }
        let body_bytes = if is_head { 0 } else { page.len() as u64 };
        let line = self.open_line(None, status.code(), Outcome::default(), Upstream::None, shared);
        if let (Some(log), Some(line)) = (shared.log, line) {
            log.finish(&line, body_bytes);
        }
    }

    fn prepare(&mut self, shared: &mut Shared<'_>) {
        if self.output.capacity() == 0 {
            self.output = shared.pool.take();
        }
        self.head_start = self.output.len() as u32;
    }

    /// Starts the head of a response by this server.
    fn begin(&mut self, status: Status, request: Option<&Request<'_>>, shared: &mut Shared<'_>) {
        self.prepare(shared);
        head::start(&mut self.output, status, &shared.clock.date);
        self.append_connection(request);
        if status == Status::ServiceUnavailable {
            head::field(&mut self.output, "Retry-After", "1");
        }
        self.count_response(status.code(), shared);
    }

    /// Decides whether the connection is kept after the response to `request`.
    fn decide_after(&mut self, request: &Request<'_>, leaves_body: bool, shared: &mut Shared<'_>) {
        let is_last = shared.limits.requests_per_connection.is_some_and(|max| self.requests + 1 >= max);
        if is_last && request.keep_alive {
            shared.served.count(Counter::LimitRequestsPerConnection);
        }
        let is_last = is_last || shared.is_draining;
        self.after = if leaves_body || request.method == Method::Connect {
            After::Linger
        } else if !request.keep_alive || is_last {
            After::Close
        } else {
            After::Keep
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

    fn end_request(&mut self) {
        self.requests = self.requests.wrapping_add(1);
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

/// Copies small pieces of a body into the output and frames them.
#[derive(Debug)]
pub struct BodyWriter<'a> {
    pub(super) output: &'a mut Vec<u8>,
    pub(super) framing: &'a mut Framing,
    /// Body bytes written since the last send.
    pub(super) bytes: &'a mut u64,
}

impl BodyWriter<'_> {
    pub fn append(&mut self, part: &[u8]) {
        self.framing.begin_part(part.len(), self.output);
        self.output.extend_from_slice(part);
        *self.bytes += part.len() as u64;
    }

    /// Returns false once enough has been gathered for one send.
    pub fn has_room(&self) -> bool {
        self.output.len() < OUTPUT_BYTES_MAX
    }
}

/// A body being sent.
#[derive(Debug, Default)]
pub(super) struct Sending {
    pub framing: Framing,
    line: Option<OpenLine>,
    pub sent_bytes: u64,
    /// Body bytes in the output that is being sent.
    pub sending_bytes: u64,
    pub is_corked: bool,
    /// The next piece is being read from disk.
    pub is_loading: bool,
    pub is_over: bool,
}

impl Sending {
    /// A body of which `body_bytes` are already in the output behind the head. `line` is logged when it ends.
    pub fn new(line: Option<OpenLine>, framing: Framing, body_bytes: u64) -> Sending {
        Sending { framing, line, sending_bytes: body_bytes, ..Sending::default() }
    }

    /// Returns true if a wake-up may mean progress.
    pub fn takes_wakes(&self) -> bool {
        !self.is_loading
    }

    /// Logs the response, `body_bytes` of whose body were sent.
    pub fn log(&self, log: Option<&AccessLog>, body_bytes: u64) {
        if let (Some(log), Some(line)) = (log, &self.line) {
            log.finish(line, body_bytes);
        }
    }
}

/// The framing of a response's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Framing {
    /// By its length, or by the end of the connection or stream.
    #[default]
    Plain,
    /// Chunked; `owes_line_end` if the previous chunk's CRLF has not been written yet.
    Chunked { owes_line_end: bool },
}

impl Framing {
    /// Announces a part of `length` bytes.
    pub fn begin_part(&mut self, length: usize, output: &mut Vec<u8>) {
        if length > 0 && matches!(self, Framing::Chunked { .. }) {
            self.end_part(output);
            begin_chunk(output, length);
            *self = Framing::Chunked { owes_line_end: true };
        }
    }

    /// Ends the last part: the next one may be long in coming, and a client may read line by line.
    pub fn end_part(&mut self, output: &mut Vec<u8>) {
        if let Framing::Chunked { owes_line_end } = self
            && std::mem::take(owes_line_end)
        {
            output.extend_from_slice(b"\r\n");
        }
    }

    pub fn end(&mut self, output: &mut Vec<u8>) {
        self.end_part(output);
        if matches!(self, Framing::Chunked { .. }) {
            output.extend_from_slice(LAST_CHUNK);
        }
    }
}
