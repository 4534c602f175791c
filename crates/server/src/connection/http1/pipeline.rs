//! Pipelining: answers requests one after the other until one has to wait.

use sojourn_http::Status;
use sojourn_http::request::{Body, Outline, Parsed, Request};

use super::request_body::Content;
use super::{Http1, State, Upload, Waiting};
use crate::connection::response::{After, CONTINUE, OUTPUT_BYTES_MAX};
use crate::connection::{
    Buffer, Context, ExchangeEvent, ExchangeId, Launched, Progress, Response, Step, Wait, Want,
};
use crate::counters::Counter;

/// The progress of the request at the start of the input.
enum Read {
    /// Its head is incomplete.
    Partial,
    Body,
    /// The handler's step; the request's head (or an invalid request) takes this many bytes of the input.
    Handled(Step, usize),
}

impl Http1 {
    /// Answers the requests in `input` as far as possible.
    pub(super) fn process_requests(&mut self, context: &mut Context<'_>) -> Want {
        self.process_requests_from(None, context)
    }

    /// The same, where the exchange of the first request is `resumed`.
    fn process_requests_from(
        &mut self,
        mut resumed: Option<(ExchangeId, ExchangeEvent)>,
        context: &mut Context<'_>,
    ) -> Want {
        loop {
            if self.input.unread().is_empty()
                || self.responses.output.len() >= OUTPUT_BYTES_MAX
                || !self.read_body()
            {
                return self.send_or_receive(context);
            }
            let input = std::mem::take(&mut self.input);
            let read = self.read(input.unread(), resumed.take(), context);
            self.input = input;
            let (step, head_len) = match read {
                Read::Partial => return self.send_or_receive(context),
                Read::Body => continue,
                Read::Handled(step, head_len) => (step, head_len),
            };
            if !matches!(step, Step::Wait(_) | Step::Body(_)) {
                // The rest of the request's body is no longer needed.
                self.upload = None;
            }
            match step {
                Step::Answered => {
                    self.consume(head_len);
                    if self.responses.after != After::Keep {
                        return self.send(None);
                    }
                }
                Step::AnsweredWith(body) => {
                    self.consume(head_len);
                    return self.send(Some(body));
                }
                Step::Body(exchange) => {
                    self.consume(head_len);
                    self.state = State::Sending(exchange, self.responses.opened.take().unwrap_or_default());
                    if let Some(upload) = &mut self.upload {
                        upload.head_len = 0;
                    }
                    return self.send_body(ExchangeEvent::Woken, context);
                }
                // A body that is thrown away already stays so: behind it is the next request.
                Step::Flush => return self.send(None),
                Step::Open(exchange, opening) => {
                    self.state = State::Waiting(Waiting { is_for_disk: true, ..Waiting::new(exchange) });
                    return Want::Open(opening);
                }
                Step::Load(exchange, range) => {
                    self.state = State::Waiting(Waiting { is_for_disk: true, ..Waiting::new(exchange) });
                    return Want::Load(range);
                }
                Step::Wait(exchange) => {
                    self.state = State::Waiting(Waiting::new(exchange));
                    return self.wait_on(context);
                }
                Step::Upgrade(machine) => {
                    self.consume(head_len);
                    self.responses.after = After::Keep;
                    let machine = Launched::new(machine, Wait::Tunnel, Counter::SentBytes);
                    self.state = State::Upgraded { machine, opened: self.responses.opened.take() };
                    return self.send(None);
                }
            }
        }
    }

    /// Parses the request at the start of `bytes` and lets the handler work on it.
    fn read(
        &mut self,
        bytes: &[u8],
        resumed: Option<(ExchangeId, ExchangeEvent)>,
        context: &mut Context<'_>,
    ) -> Read {
        if let Some(outline) = self.outline.take() {
            let request = outline.over(bytes);
            context.pool.put_outline(outline);
            return self.answer(&request, bytes, resumed, context);
        }
        // Not moved: it is large.
        match &self.parser.parse(bytes) {
            Ok(Parsed::Partial) => Read::Partial,
            Ok(Parsed::Complete(request)) => self.answer(request, bytes, resumed, context),
            Err(error) => {
                self.responses.refuse(is_head(bytes), error.status(), context);
                Read::Handled(Step::Answered, bytes.len())
            }
        }
    }

    fn answer(
        &mut self,
        request: &Request<'_>,
        bytes: &[u8],
        resumed: Option<(ExchangeId, ExchangeEvent)>,
        context: &mut Context<'_>,
    ) -> Read {
        let has_body = request.body != Body::Length(0);
        let takes_body = has_body && context.handler.takes_bodies();
        if takes_body && resumed.is_none() {
            // Unless the handler waits, it answers without the body, which then stays unread.
            self.content = Content::Left;
        } else if has_body
            && matches!(self.content, Content::None)
            && !takes_body
            && self.begin_body(request, bytes.len(), context)
        {
            return Read::Body;
        }
        let is_malformed = matches!(self.content, Content::Malformed);
        let Context { handler, shared } = context;
        let leaves_body = matches!(self.content, Content::Left | Content::Malformed);
        let mut response = Response::new(&mut self.responses, shared, leaves_body);
        let step = match resumed {
            _ if is_malformed => response.page(request, Status::BadRequest),
            None => handler.begin(request, &mut response),
            Some((exchange, event)) => handler.resume(exchange, event, request, &mut response),
        };
        if matches!(step, Step::Wait(_) | Step::Open(..) | Step::Load(..)) {
            self.outline = Outline::of(request, bytes).map(|outline| shared.pool.keep_outline(outline));
        }
        if takes_body && matches!(self.content, Content::Left) && matches!(step, Step::Wait(_)) {
            self.content = Content::None;
            self.upload.get_or_insert_with(|| Box::new(Upload::of(request)));
        }
        Read::Handled(step, request.head_len)
    }

    /// Removes the answered request from the input. After the last request further input is discarded, because closing
    /// with unread bytes would reset the connection.
    fn consume(&mut self, count: usize) {
        self.input.consume(count);
        self.content = Content::None;
        if self.responses.after == After::Close && !self.input.unread().is_empty() {
            self.responses.after = After::Linger;
        }
    }

    fn send_or_receive(&mut self, context: &mut Context<'_>) -> Want {
        if !self.responses.output.is_empty() {
            return self.send(None);
        }
        let input = std::mem::take(&mut self.input);
        if input.unread().is_empty() {
            context.pool.put_buffer(input);
            return Want::Receive(Buffer::default());
        }
        self.is_head = is_head(input.unread());
        Want::Receive(input)
    }

    /// Continues a waiting request while the driver is idle.
    pub(super) fn wait_on(&mut self, context: &mut Context<'_>) -> Want {
        if self.pass_upload(context).is_err() {
            self.finish_exchange(context);
            self.responses.refuse(self.is_head, Status::BadRequest, context);
            return self.send(None);
        }
        let State::Waiting(waiting) = &self.state else { unreachable!("a request waits") };
        let Context { handler, shared } = context;
        match handler.progress(waiting.exchange, shared) {
            Progress::Ready => self.resume(ExchangeEvent::Woken, context),
            Progress::Interim => {
                handler.interim(waiting.exchange, &mut self.responses.output, shared);
                self.send(None)
            }
            Progress::Pending { wants_body } => {
                if wants_body
                    && let Some(upload) = &mut self.upload
                    && !std::mem::replace(&mut upload.is_continued, true)
                {
                    self.responses.output.extend_from_slice(CONTINUE);
                    return self.send(None);
                }
                self.receive_upload(context)
            }
        }
    }

    /// Handles a wake-up from another connection or thread, which may be spurious.
    pub(super) fn on_wake(&mut self, was_receiving: bool, context: &mut Context<'_>) -> Want {
        if was_receiving {
            return self.end_receiving(context);
        }
        match &self.state {
            _ if self.is_sending => Want::Wait,
            State::Sending(_, sending) if sending.takes_wakes() => {
                self.send_body(ExchangeEvent::Woken, context)
            }
            State::Waiting(Waiting { is_for_disk: true, .. }) => Want::Wait,
            State::Waiting(_) => self.wait_on(context),
            _ => Want::Wait,
        }
    }

    /// The exchange can continue: answers its request.
    pub(super) fn resume(&mut self, event: ExchangeEvent, context: &mut Context<'_>) -> Want {
        let State::Waiting(waiting) = std::mem::replace(&mut self.state, State::Requests) else {
            unreachable!("a request waits")
        };
        if self.upload.is_some() {
            self.content = Content::Left;
        }
        self.process_requests_from(Some((waiting.exchange, event)), context)
    }

    /// Ends the exchange, complete or abandoned.
    pub(super) fn finish_exchange(&mut self, context: &mut Context<'_>) {
        self.upload = None;
        self.outline = None;
        if let State::Waiting(waiting) = std::mem::replace(&mut self.state, State::Requests) {
            context.handler.finish(waiting.exchange, &mut context.shared);
        }
    }
}

/// Returns true if `bytes`, which may be incomplete or invalid, begin with a HEAD request.
pub(super) fn is_head(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"HEAD ")
}
