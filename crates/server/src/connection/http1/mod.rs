//! HTTP/1: reads requests, has the [handler](Handler) answer them, sends the responses.
//!
//! While an exchange waits, its request stays in the input buffer; when the handler can go on the request is read once
//! more. So waiting needs no copy of the request, and a response from memory no state. The same holds while a request's
//! body is awaited.

use std::net::IpAddr;
use std::time::Duration;

use sojourn_content::Done;
use sojourn_http::Status;
use sojourn_http::request::{BodyReader, Parser};

#[cfg(doc)]
use super::Handler;
use super::{Buffer, Context, Event, ExchangeId, Http2, Launched, News, Reason, Wait, Want};
use crate::counters::Counter;

mod framing;
mod pipeline;
mod request_body;
mod response;
mod sending;

pub use framing::Framing;
pub use pipeline::OUTPUT_BYTES_MAX;
use request_body::{Content, Malformed};
pub use response::{Response, Source};
use sending::Sending;

/// Bytes that a client may still send after the last response before the connection closes. Closing at once would reset
/// the connection and lose that response (RFC 9112, 9.6).
pub const LINGER_BYTES_MAX: u64 = 1024 * 1024;

/// One connection that speaks HTTP/1.
#[derive(Debug)]
pub struct Http1 {
    peer: IpAddr,
    is_secure: bool,
    parser: Parser,
    input: Buffer,
    /// Heads and small bodies to be sent next.
    output: Vec<u8>,
    state: State,
    content: Content,
    /// True if the request of which part has arrived is a HEAD.
    is_head: bool,
    after: After,
    is_sending: bool,
    requests: u32,
    /// When the first bytes of the request at hand came.
    began: Duration,
    /// Where the head of the last answer begins in `output`.
    head_start: u32,
    /// The response whose head is in `output`, if its body follows.
    opened: Option<Box<Sending>>,
}

#[derive(Debug)]
enum State {
    Requests,
    /// The handler has the request at the start of `input` under way.
    Waiting(Waiting),
    Sending(ExchangeId, Box<Sending>),
    /// No HTTP is spoken any more. The line is logged at the end.
    Upgraded {
        machine: Launched,
        opened: Option<Box<Sending>>,
    },
    /// Done; discarding further input.
    Lingering(u64),
}

/// The fate of the connection once the output is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Keep,
    Close,
    /// Close, but keep reading for a while: the client may still be sending.
    Linger,
}

/// A request that waits for its exchange.
#[derive(Debug)]
struct Waiting {
    exchange: ExchangeId,
    /// It waits for the disk, and takes no wakes.
    is_for_disk: bool,
    /// The request's body while it arrives, if the handler takes it.
    upload: Option<Box<Upload>>,
    /// The driver receives more of it.
    is_receiving: bool,
}

/// A request's body on its way to the handler.
#[derive(Debug)]
struct Upload {
    reader: BodyReader,
    /// It is behind so many bytes of the input.
    head_len: usize,
    /// The client was told to send it, or did not ask.
    is_continued: bool,
}

impl Http1 {
    /// A connection just accepted from `peer`.
    pub fn new(peer: IpAddr, is_secure: bool) -> Http1 {
        Http1 {
            peer,
            is_secure,
            parser: Parser::default(),
            input: Buffer::default(),
            output: Vec::new(),
            state: State::Requests,
            content: Content::None,
            is_head: false,
            after: After::Keep,
            is_sending: false,
            requests: 0,
            began: Duration::ZERO,
            head_start: 0,
            opened: None,
        }
    }

    /// For the one request of a stream of HTTP/2, which comes as text.
    pub fn of_stream(peer: IpAddr, is_secure: bool) -> Http1 {
        Http1 { parser: Parser::of_stream(), ..Http1::new(peer, is_secure) }
    }

    /// Returns true if the client may still begin HTTP/2: it has made no request, and had no TLS to choose it
    /// in.
    pub fn may_be_http2(&self) -> bool {
        self.requests == 0 && !self.is_secure
    }

    /// The same connection, on which the client has turned out to speak HTTP/2.
    pub fn as_http2(&self) -> Http2 {
        Http2::new(self.peer, self.is_secure)
    }

    pub fn start(&self) -> Want {
        Want::Receive(Buffer::default())
    }

    /// Answers `status` without reading a request, then discards further input.
    pub fn turn_away(&mut self, status: Status, context: &mut Context<'_>) -> Want {
        self.refuse(false, status, context);
        self.send(None)
    }

    /// Takes an event and returns the next want.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if let State::Upgraded { machine, .. } = &mut self.state
            && !self.is_sending
        {
            return machine.handle(event, context);
        }
        match event {
            Event::Received(buffer) => self.received(buffer, context),
            // Only its sending side may be closed.
            Event::Ended if matches!(self.state, State::Requests) && self.is_within_request() => {
                self.refuse(self.is_head, Status::BadRequest, context);
                self.send(None)
            }
            Event::Ended => Want::Close(Reason::Finished),
            Event::Done(done) => self.done(News::Done(done), context),
            Event::Refused => self.done(News::Refused, context),
            Event::Sent(output) => self.sent(output, context),
            Event::Expired => self.expired(context),
            Event::Failed => Want::Close(Reason::Failed),
            Event::Woken => self.woken(context),
            Event::Nothing if matches!(self.state, State::Waiting(_)) => self.wait_on(context),
            Event::Delegated | Event::Delivered(..) | Event::Nothing => {
                unreachable!("this machine wants one thing at a time")
            }
        }
    }

    pub fn waits_for(&self) -> Wait {
        match &self.state {
            State::Lingering(_) => Wait::End,
            _ if self.is_sending => Wait::Client,
            State::Waiting(waiting) if waiting.is_receiving => Wait::Upload,
            State::Waiting(waiting) if waiting.is_for_disk => Wait::Disk,
            State::Waiting(_) | State::Sending(..) => Wait::Answer,
            State::Upgraded { machine, .. } => machine.waits_for(),
            State::Requests if self.is_within_request() => Wait::Head(self.requests),
            State::Requests => Wait::Request,
        }
    }

    /// Returns true if part of a request has arrived, but not all of it.
    fn is_within_request(&self) -> bool {
        self.parser.is_partial() || matches!(self.content, Content::Reading { .. })
    }

    /// The connection is about to be forgotten: whatever it has begun ends here.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        match &mut self.state {
            State::Waiting(_) => self.finish_exchange(context),
            State::Sending(..) => self.finish_body(context),
            State::Upgraded { machine, opened } => {
                let body_bytes = machine.finish(context);
                if let Some(opened) = opened {
                    opened.log(context.log, body_bytes);
                }
                self.state = State::Requests;
            }
            State::Requests | State::Lingering(_) => {}
        }
        context.pool.put_buffer(std::mem::take(&mut self.input));
        context.pool.put(std::mem::take(&mut self.output));
    }

    fn received(&mut self, buffer: Buffer, context: &mut Context<'_>) -> Want {
        if matches!(self.state, State::Waiting(_)) {
            self.input.append(&buffer);
            context.pool.put_buffer(buffer);
            return self.wait_on(context);
        }
        self.input = buffer;
        if !self.is_within_request() {
            self.began = context.clock.now;
        }
        if let State::Lingering(discarded) = &mut self.state {
            let count = self.input.unread().len();
            *discarded += count as u64;
            if *discarded > LINGER_BYTES_MAX {
                return Want::Close(Reason::Finished);
            }
            self.input.consume(count);
            return Want::Receive(std::mem::take(&mut self.input));
        }
        self.proceed(context)
    }

    fn done(&mut self, news: News, context: &mut Context<'_>) -> Want {
        match (&self.state, &news) {
            (State::Sending(..), News::Done(Done::Loaded(Err(_)))) => Want::Close(Reason::Failed),
            (State::Sending(..), _) => self.send_body(news, context),
            _ => self.resume(news, context),
        }
    }

    fn expired(&mut self, context: &mut Context<'_>) -> Want {
        match self.waits_for() {
            Wait::Head(_) => {
                context.served.count(Counter::Timeouts);
                self.refuse(self.is_head, Status::RequestTimeout, context);
                self.send(None)
            }
            Wait::Upload => {
                context.served.count(Counter::Timeouts);
                self.finish_exchange(context);
                self.refuse(self.is_head, Status::RequestTimeout, context);
                self.send(None)
            }
            // It has all it is going to get.
            Wait::End => Want::Close(Reason::Finished),
            _ => Want::Close(Reason::TimedOut),
        }
    }
}

impl Waiting {
    fn new(exchange: ExchangeId) -> Waiting {
        Waiting { exchange, is_for_disk: false, upload: None, is_receiving: false }
    }

    /// Gives the handler what has arrived of the request's body.
    fn upload(&mut self, input: &mut Buffer, context: &mut Context<'_>) -> Result<(), Malformed> {
        let Some(upload) = &mut self.upload else { return Ok(()) };
        let (Context { handler, shared }, exchange) = (context, self.exchange);
        let arrived = &input.unread()[upload.head_len..];
        let count = upload.reader.read(arrived, |part| handler.upload(exchange, part, shared));
        input.remove(upload.head_len, count.map_err(|_| Malformed)?);
        if upload.reader.is_done() {
            handler.end_upload(exchange, shared);
            self.upload = None;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
