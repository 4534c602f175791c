//! HTTP/1: reads requests, asks the caches, answers.
//!
//! While a document is being opened or read, its request stays in the input buffer; with the outcome at hand
//! the request is read once more and answered. So a miss needs no copy of the request, and a hit no state. The same
//! holds while a request's body is awaited.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sojourn_content::{Document, Done, LoadError, OpenError, Opened};
use sojourn_http::Status;
use sojourn_http::request::Parser;

use super::{Buffer, Context, Event, Http2, Piece, Reason, Wait, Want};
use crate::counters::Counter;

mod answer;
mod body;
mod cached;
mod dealings;
mod document;
mod follow;
mod framing;
mod obstacle;
mod partial;
mod pipeline;
mod relay;
mod relayed;
mod representation;
mod resolve;
mod response;
mod sending;
mod stream;
mod tunnel;

use body::Content;
use dealings::Dealings;
use relay::Relay;
use stream::Stream;
use tunnel::Tunnelling;

/// What a client may still send after the last response, until we stop listening to it. Closing at once would
/// reset the connection and with it lose that response (RFC 9112, 9.6).
pub const LINGER_BYTES_MAX: u64 = 1024 * 1024;

/// One connection that speaks HTTP/1.
#[derive(Debug)]
pub struct Http1 {
    peer: IpAddr,
    is_secure: bool,
    parser: Parser,
    /// Received and not consumed.
    input: Buffer,
    /// Heads and small bodies to be sent next.
    output: Vec<u8>,
    state: State,
    content: Content,
    /// Whether the request of which part has arrived is a HEAD.
    is_head: bool,
    after: After,
    is_sending: bool,
    requests: u32,
    /// When the first bytes of the request at hand came.
    began: Duration,
    /// Where the head of the last answer begins in `output`.
    head_start: u32,
    /// What the disk has given for the request at the start of `input`.
    arrived: Option<Arrived>,
    /// With which status the document that the disk is asked for is sent instead of what was asked for.
    instead: Option<Status>,
    /// For a proxy.
    dealings: Option<Box<Dealings>>,
}

#[derive(Debug)]
enum State {
    /// Receiving and answering.
    Requests,
    /// The request at the start of `input` waits for the disk; its document, once that is known.
    Resolving(Option<Arc<Document>>),
    /// The request at the start of `input` waits for the proxy's cache: its disk, or another loop.
    Searching,
    /// Sending a large body.
    Streaming(Box<Stream>),
    /// An upstream answers the request, which is at the start of `input` until that has begun.
    Relaying(Box<Relay>),
    /// The other end is an origin's, or is to be.
    Tunnelling(Box<Tunnelling>),
    /// Done; throwing away what still comes.
    Lingering(u64),
}

/// What becomes of the connection when the output is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Keep,
    Close,
    /// Close, but the client may still be sending.
    Linger,
}

#[derive(Debug)]
enum Arrived {
    Opened(Result<Opened, OpenError>),
    Body(Arc<Document>, Result<Arc<[u8]>, LoadError>),
    Refused,
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
            arrived: None,
            instead: None,
            dealings: None,
        }
    }

    /// For the one request of a stream of HTTP/2, which comes as text.
    pub fn of_stream(peer: IpAddr, is_secure: bool) -> Http1 {
        Http1 { parser: Parser::of_stream(), ..Http1::new(peer, is_secure) }
    }

    /// Whether the client may yet turn out to speak HTTP/2: it has made no request, and had no TLS to choose it in.
    pub fn may_be_http2(&self) -> bool {
        self.requests == 0 && !self.is_secure
    }

    /// The same connection, on which the client has turned out to speak HTTP/2.
    pub fn as_http2(&self) -> Http2 {
        Http2::new(self.peer, self.is_secure)
    }

    /// The first want.
    pub fn start(&self) -> Want {
        Want::Receive(Buffer::default())
    }

    /// Answers with `status` what is not even read, then discards what still comes.
    pub fn turn_away(&mut self, status: Status, context: &mut Context<'_>) -> Want {
        self.refuse(false, status, context);
        self.send(None)
    }

    /// Takes an event, says what is wanted next.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if let Some(receiver) = self.tunnel_receiver() {
            return receiver.handle(event, context);
        }
        if let Some(id) = self.tunnel_opening() {
            // It waits, so it is woken.
            return self.open_on(id, context);
        }
        match event {
            Event::Received(buffer) => self.received(buffer, context),
            Event::Ended => Want::Close(Reason::Finished),
            Event::Done(done) => self.done(done, context),
            Event::Refused => match self.state {
                // Its head may be on the way already, so the body follows even if that means waiting.
                State::Streaming(_) => self.send_from_file(),
                _ => self.resume(Arrived::Refused, context),
            },
            Event::Sent(output) => self.sent(output, context),
            Event::Expired => self.expired(context),
            Event::Failed => Want::Close(Reason::Failed),
            Event::Woken => self.woken(context),
            Event::Nothing if matches!(self.state, State::Relaying(_)) => self.relay_on(context),
            Event::Delegated | Event::Delivered(..) | Event::Nothing => {
                unreachable!("this machine wants one thing at a time")
            }
        }
    }

    /// What the connection waits for while its want cannot be done.
    pub fn waits_for(&self) -> Wait {
        match self.state {
            State::Lingering(_) => Wait::End,
            _ if self.is_sending => Wait::Client,
            State::Resolving(_) | State::Searching | State::Streaming(_) => Wait::Disk,
            State::Relaying(ref relay) if relay.is_receiving => Wait::Upload,
            State::Relaying(_) => Wait::Answer,
            State::Tunnelling(ref tunnelling) => match **tunnelling {
                Tunnelling::Opening(_) => Wait::Answer,
                Tunnelling::Open { ref receiver, .. } => receiver.waits_for(),
            },
            State::Requests if self.is_within_request() => Wait::Head(self.requests),
            State::Requests => Wait::Request,
        }
    }

    fn dealings(&mut self) -> &mut Dealings {
        self.dealings.get_or_insert_default()
    }

    /// Whether part of a request has arrived, but not all of it.
    fn is_within_request(&self) -> bool {
        self.parser.is_partial() || matches!(self.content, Content::Reading { .. })
    }

    /// The connection is about to be forgotten: whatever it has begun ends here.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        if let State::Streaming(stream) = &self.state {
            stream.finish(context.log);
        }
        self.leave_tunnel(context);
        self.leave_relay(context);
        context.pool.put_buffer(std::mem::take(&mut self.input));
        context.pool.put(std::mem::take(&mut self.output));
    }

    fn received(&mut self, buffer: Buffer, context: &mut Context<'_>) -> Want {
        if matches!(self.state, State::Relaying(_)) {
            self.input.append(&buffer);
            context.pool.put_buffer(buffer);
            return self.relay_on(context);
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

    fn done(&mut self, done: Done, context: &mut Context<'_>) -> Want {
        match (done, &mut self.state) {
            (Done::Opened(opened), _) => self.resume(Arrived::Opened(opened), context),
            (Done::Loaded(loaded), State::Resolving(document)) => {
                let document = document.take().expect("a body is loaded for a known document");
                let body = loaded.map(|body| body.expect("a small body arrives with its bytes"));
                self.resume(Arrived::Body(document, body), context)
            }
            (Done::Loaded(Ok(Some(chunk))), _) => {
                let turn = self.turn_of_file();
                context.caches.insert_chunk(&turn.document, turn.offset, &chunk);
                self.send(Some(Piece::Memory(chunk)))
            }
            (Done::Loaded(Ok(None)), _) => self.send_from_file(),
            (Done::Loaded(Err(_)), _) => Want::Close(Reason::Failed),
        }
    }

    fn resume(&mut self, arrived: Arrived, context: &mut Context<'_>) -> Want {
        self.state = State::Requests;
        self.arrived = Some(arrived);
        self.proceed(context)
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
                self.leave_relay(context);
                self.refuse(self.is_head, Status::RequestTimeout, context);
                self.send(None)
            }
            // It has all it is going to get.
            Wait::End => Want::Close(Reason::Finished),
            _ => Want::Close(Reason::TimedOut),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
