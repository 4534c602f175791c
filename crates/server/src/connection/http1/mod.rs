//! HTTP/1: reads requests, asks the caches, answers.
//!
//! While a document is being opened or read, its request stays in the input buffer; with the outcome at hand
//! the request is read once more and answered. So a miss needs no copy of the request, and a hit no state. The same
//! holds while a request's body is awaited.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sojourn_content::{Document, Done, FileRange, LoadError, OpenError, Opened};
use sojourn_http::Status;
use sojourn_http::request::Parser;

use super::{Buffer, Context, Event, Http2, Output, Piece, Reason, Wait, Want};
use crate::counters::Counter;

mod answer;
mod body;
mod cached;
mod dealings;
mod follow;
mod framing;
mod obstacle;
mod partial;
mod relay;
mod relayed;
mod representation;
mod resolve;
mod stream;
mod tunnel;

use answer::Step;
use body::Content;
use dealings::Dealings;
use relay::Relay;
use stream::{Next, Stream, Turn};
use tunnel::Tunnelling;

/// Answers to pipelined requests gather up to this before they are sent.
const OUTPUT_BYTES_MAX: usize = 32 * 1024;

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

    /// Answers what can be answered from `input`.
    fn proceed(&mut self, context: &mut Context<'_>) -> Want {
        loop {
            if self.input.unread().is_empty() || self.output.len() >= OUTPUT_BYTES_MAX || !self.read_body() {
                return self.send_or_receive(context);
            }
            let input = std::mem::take(&mut self.input);
            let step = self.step(input.unread(), context);
            self.input = input;
            match step {
                Step::Partial => return self.send_or_receive(context),
                Step::Body => {}
                Step::Answered { consumed } => {
                    self.consume(consumed);
                    if self.after != After::Keep {
                        return self.send(None);
                    }
                }
                Step::AnsweredWith { consumed, body } => {
                    self.consume(consumed);
                    return self.send(Some(body));
                }
                Step::Stream { consumed, stream } => {
                    self.consume(consumed);
                    self.state = State::Streaming(stream);
                    return self.take_turn(context);
                }
                Step::Flush => return self.send(None),
                Step::Search => {
                    self.state = State::Searching;
                    return Want::Wait;
                }
                Step::Relay(relay) => {
                    self.state = State::Relaying(relay);
                    return self.relay_on(context);
                }
                Step::Follow { consumed, relay } => {
                    self.consume(consumed);
                    self.state = State::Relaying(relay);
                    return self.relay_on(context);
                }
                Step::Tunnel(id) => return self.open_on(id, context),
                Step::Tunnelled { consumed, tunnelling } => {
                    self.consume(consumed);
                    return self.establish(tunnelling, context);
                }
                // Earlier answers do not wait for the disk; then the request is read again.
                Step::Open(_) | Step::Load(_) if !self.output.is_empty() => return self.send(None),
                Step::Open(opening) => {
                    self.state = State::Resolving(None);
                    return Want::Open(opening);
                }
                Step::Load(range) => {
                    self.state = State::Resolving(Some(Arc::clone(&range.document)));
                    return Want::Load(range);
                }
            }
        }
    }

    /// The request at the start of the input is answered. What follows a last request was not asked for, but
    /// closing on it would reset the connection.
    fn consume(&mut self, count: usize) {
        self.input.consume(count);
        if self.after == After::Close && !self.input.unread().is_empty() {
            self.after = After::Linger;
        }
    }

    fn send_or_receive(&mut self, context: &mut Context<'_>) -> Want {
        if !self.output.is_empty() {
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

    fn send(&mut self, body: Option<Piece>) -> Want {
        self.is_sending = true;
        let bytes = std::mem::take(&mut self.output);
        let is_under_way = match &self.state {
            State::Streaming(_) => true,
            State::Relaying(relay) => !relay.is_over,
            _ => false,
        };
        let is_last = self.after == After::Linger && !is_under_way;
        let may_close = self.after == After::Close;
        let (closes, (corks, uncorks)) = match &mut self.state {
            State::Streaming(stream) => {
                let closes = may_close && stream.is_ending();
                (closes, stream.cork(closes))
            }
            _ => (may_close && !is_under_way, (false, false)),
        };
        Want::Send(Output { bytes, body, corks, uncorks, closes, is_last, ..Output::default() })
    }

    fn sent(&mut self, output: Output, context: &mut Context<'_>) -> Want {
        self.is_sending = false;
        context.pool.put(output.bytes);
        if let Some(want) = self.relayed_sent(context).or_else(|| self.established(context)) {
            return want;
        }
        if let State::Streaming(stream) = &mut self.state {
            match stream.sent(output.body.as_ref().map_or(0, Piece::length)) {
                Next::Turn => return self.take_turn(context),
                Next::Part(preamble) => {
                    self.output = preamble;
                    return self.take_turn(context);
                }
                Next::Ending(bytes) => {
                    self.output = bytes;
                    return self.send(None);
                }
                Next::Nothing => stream.finish(context.log),
            }
            self.state = State::Requests;
            if self.after == After::Linger {
                // The shutdown goes with an output; this one is empty.
                return self.send(None);
            }
        }
        match self.after {
            After::Keep => self.proceed(context),
            After::Close => Want::Close(Reason::Finished),
            After::Linger => {
                self.state = State::Lingering(0);
                context.pool.put_buffer(std::mem::take(&mut self.input));
                Want::Receive(Buffer::default())
            }
        }
    }

    fn turn(&self) -> Turn {
        let State::Streaming(stream) = &self.state else { unreachable!("only a stream has turns") };
        stream.turn()
    }

    /// The turn of a document, of which something was loaded.
    fn turn_of_file(&self) -> FileRange {
        let Turn::File(range) = self.turn() else { unreachable!("nothing else is loaded") };
        range
    }

    /// The next part of a large body: from memory, or to be loaded first.
    fn take_turn(&mut self, context: &mut Context<'_>) -> Want {
        let turn = match self.turn() {
            Turn::Stored(extent) => return self.send(Some(Piece::Stored(extent))),
            Turn::File(turn) => turn,
        };
        if turn.into_memory
            && let Some(chunk) = context.caches.chunk(&turn.document, turn.offset)
        {
            return self.send(Some(Piece::Memory(Arc::clone(chunk))));
        }
        Want::Load(turn)
    }

    fn send_from_file(&mut self) -> Want {
        let turn = self.turn_of_file();
        self.send(Some(Piece::File(turn)))
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

/// Whether `bytes`, of which not all may be there or make sense, ask for a head alone.
fn is_head(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"HEAD ")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
