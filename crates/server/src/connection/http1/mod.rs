//! HTTP/1: parses requests, lets the [handler](Handler) answer them, sends the responses.
//!
//! While an exchange waits, its request stays in the input buffer, and its [outline](Outline) saves parsing it again when
//! the handler can continue. So waiting needs no copy of the request, and a response from memory needs no state. The same
//! holds while a request's body is awaited.
//!
//! The handler may answer before it has read the whole body. Then the rest is received whenever there is nothing to send, and
//! between two pieces of the response, until that ends. No request can follow.

use std::net::IpAddr;

use sojourn_content::Done;
use sojourn_http::Status;
use sojourn_http::request::{BodyReader, Outline, Parser};

#[cfg(doc)]
use super::Handler;
use super::response::{ResponseState, Sending};
use super::{Buffer, Context, Event, ExchangeEvent, ExchangeId, Launched, Pool, Reason, Wait, Want};
use crate::counters::Counter;

mod pipeline;
mod request_body;
mod sending;

use request_body::{Content, Malformed};

/// Bytes that a client may still send after the last response before the connection is closed. Closing immediately
/// would reset the connection and lose the response (RFC 9112, 9.6).
pub const LINGER_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug)]
pub struct Http1 {
    parser: Parser,
    input: Buffer,
    responses: ResponseState,
    state: State,
    /// Of the request at the start of the input: one that waits, or that came with its outline.
    outline: Option<Box<Outline>>,
    content: Content,
    /// The rest of the body of the request that waits or is being answered, if the handler reads it.
    upload: Option<Box<Upload>>,
    /// True if the partially received request is a HEAD.
    is_head: bool,
    is_sending: bool,
}

#[derive(Debug)]
enum State {
    Requests,
    /// The handler works on the request at the start of `input`.
    Waiting(Waiting),
    Sending(ExchangeId, Box<Sending>),
    /// The connection no longer speaks HTTP; its log line is written at the end.
    Upgraded {
        machine: Launched,
        opened: Option<Box<Sending>>,
    },
    /// Finished; further input is discarded.
    Lingering(u64),
}

/// A request whose exchange waits.
#[derive(Debug)]
struct Waiting {
    exchange: ExchangeId,
    /// Waits for the disk, and ignores wake-ups.
    is_for_disk: bool,
}

/// A request's body on its way to the handler.
#[derive(Debug)]
struct Upload {
    reader: BodyReader,
    /// The length of the head, after which the body starts in the input; 0 once the head is gone.
    head_len: usize,
    /// The client was told to send the body (100 Continue), or did not ask.
    is_continued: bool,
    /// The driver is receiving more of it.
    is_receiving: bool,
}

impl Http1 {
    pub fn new(peer: IpAddr, is_secure: bool) -> Http1 {
        Http1 {
            parser: Parser::default(),
            input: Buffer::default(),
            responses: ResponseState::new(peer, is_secure),
            state: State::Requests,
            outline: None,
            content: Content::None,
            upload: None,
            is_head: false,
            is_sending: false,
        }
    }

    /// For the single request of an HTTP/2 stream, passed as text that need not be parsed if there is an `outline`.
    pub fn of_stream(peer: IpAddr, is_secure: bool, is_head: bool, outline: Option<Box<Outline>>) -> Http1 {
        Http1 { parser: Parser::of_stream(), outline, is_head, ..Http1::new(peer, is_secure) }
    }

    /// Returns true if what is received next begins with the first byte of the connection, and so perhaps with HTTP/2's
    /// preface, and there was no TLS to negotiate in. Behind a request's head such bytes are a part of its body, or discarded.
    pub fn may_be_http2(&self) -> bool {
        let has_begun_body = self.upload.is_some() || !matches!(self.content, Content::None);
        let has_parsed = self.outline.is_some() || has_begun_body || !self.input.unread().is_empty();
        matches!(self.state, State::Requests)
            && !(self.is_sending || has_parsed)
            && self.responses.requests == 0
            && !self.responses.is_secure
    }

    pub fn peer(&self) -> IpAddr {
        self.responses.peer
    }

    /// Returns true if a machine has taken the connection over.
    pub fn is_upgraded(&self) -> bool {
        matches!(self.state, State::Upgraded { .. })
    }

    pub fn start(&self) -> Want {
        Want::Receive(Buffer::default())
    }

    /// Sends `status` without reading a request, then discards further input.
    pub fn reject_connection(&mut self, status: Status, context: &mut Context<'_>) -> Want {
        self.responses.refuse(self.is_head, status, context);
        self.send(None)
    }

    /// Sends 408, because the rest of the request does not arrive, then discards further input.
    pub fn time_out_request(&mut self, context: &mut Context<'_>) -> Want {
        self.finish_exchange(context);
        self.reject_connection(Status::RequestTimeout, context)
    }

    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if let State::Upgraded { machine, .. } = &mut self.state
            && !self.is_sending
        {
            return machine.handle(event, context);
        }
        let was_receiving =
            self.upload.as_mut().is_some_and(|upload| std::mem::take(&mut upload.is_receiving));
        match event {
            Event::Received(buffer) => self.received(buffer, context),
            // The client may have shut down only its sending side.
            Event::Ended if matches!(self.state, State::Requests) && self.is_within_request() => {
                self.responses.refuse(self.is_head, Status::BadRequest, context);
                self.send(None)
            }
            Event::Ended => Want::Close(Reason::Finished),
            Event::Done(done) => self.done(ExchangeEvent::Done(done), context),
            Event::Refused => self.done(ExchangeEvent::Refused, context),
            Event::Sent(output) => self.sent(output, context),
            Event::Expired => self.expired(was_receiving, context),
            Event::Failed => Want::Close(Reason::Failed),
            Event::Woken => self.on_wake(was_receiving, context),
            Event::NothingReceived if matches!(self.state, State::Waiting(_)) => self.wait_on(context),
            Event::NothingReceived if matches!(self.state, State::Sending(..)) => {
                self.send_body(ExchangeEvent::Woken, context)
            }
            Event::Delegated | Event::Delivered(..) | Event::NothingReceived => {
                unreachable!("this machine wants one thing at a time")
            }
        }
    }

    pub fn waits_for(&self) -> Wait {
        match &self.state {
            State::Lingering(_) => Wait::End,
            _ if self.is_sending => Wait::Client,
            State::Waiting(_) | State::Sending(..) if self.is_uploading() => Wait::Upload,
            State::Waiting(waiting) if waiting.is_for_disk => Wait::Disk,
            State::Waiting(_) | State::Sending(..) => Wait::Answer,
            State::Upgraded { machine, .. } => machine.waits_for(),
            State::Requests if self.is_within_request() => Wait::Head(self.responses.requests),
            State::Requests => Wait::Request,
        }
    }

    /// Returns true if more of a request's body is being received for the handler.
    fn is_uploading(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.is_receiving)
    }

    /// Returns true if a request has arrived in part.
    fn is_within_request(&self) -> bool {
        self.parser.is_partial() || matches!(self.content, Content::Reading(_))
    }

    /// Gives the memory of the input back if nothing is left in it. It is taken anew when more is received.
    pub fn give_back_input(&mut self, pool: &mut Pool) {
        if self.input.unread().is_empty() {
            pool.put_buffer(std::mem::take(&mut self.input));
        }
    }

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
        context.pool.put(std::mem::take(&mut self.responses.output));
    }

    fn received(&mut self, buffer: Buffer, context: &mut Context<'_>) -> Want {
        if matches!(self.state, State::Waiting(_) | State::Sending(..)) {
            if self.input.unread().is_empty() {
                context.pool.put_buffer(std::mem::replace(&mut self.input, buffer));
            } else {
                self.input.append(&buffer);
                context.pool.put_buffer(buffer);
            }
            if matches!(self.state, State::Waiting(_)) {
                return self.wait_on(context);
            }
            return match self.pass_upload(context) {
                Ok(()) => self.send_body(ExchangeEvent::Woken, context),
                Err(Malformed) => Want::Close(Reason::Failed),
            };
        }
        self.input = buffer;
        if !self.is_within_request() {
            self.responses.began = context.clock.now;
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
        self.process_requests(context)
    }

    fn done(&mut self, event: ExchangeEvent, context: &mut Context<'_>) -> Want {
        match (&self.state, &event) {
            (State::Sending(..), ExchangeEvent::Done(Done::Loaded(Err(_)))) => Want::Close(Reason::Failed),
            (State::Sending(..), _) => self.send_body(event, context),
            _ => self.resume(event, context),
        }
    }

    fn expired(&mut self, was_receiving: bool, context: &mut Context<'_>) -> Want {
        let lacks_body = was_receiving && matches!(self.state, State::Waiting(_));
        match self.waits_for() {
            waits_for if lacks_body || matches!(waits_for, Wait::Head(_)) => {
                context.served.count(Counter::Timeouts);
                self.time_out_request(context)
            }
            // The client has received everything.
            Wait::End => Want::Close(Reason::Finished),
            _ => Want::Close(Reason::TimedOut),
        }
    }
}

impl Waiting {
    fn new(exchange: ExchangeId) -> Waiting {
        Waiting { exchange, is_for_disk: false }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
