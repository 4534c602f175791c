//! One stream: a request of HTTP/2, answered by an HTTP/1 machine of its own.
//!
//! The machine is given the request as text and its output is taken apart into a head and DATA: one text to write and
//! one head to read, a microsecond. For that whatever a site can answer, now or later, it answers the same over both
//! protocols, and the machine does not know.
//!
//! What the machine would have sent from a file is read here, a slice at a time as the client's window allows, and
//! never put into the caches: as little as the file would have been.

use std::net::IpAddr;
use std::sync::Arc;
use std::task::{self, Poll, Waker};

use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use h2::{Reason as Code, RecvStream, SendStream};
use http::request::Parts;
use http::{Method, Request};
use sojourn_content::{Done, FileRange, Job};
use sojourn_http::Status;
use sojourn_http::limits::DRAINED_BODY_BYTES_MAX;
use sojourn_proxy::store::Extent;

use super::head;
use super::held::{Gauge, Held};
use super::limits::{SLICE_BYTES, SLICE_BYTES_MIN, STREAM_WAITING_BYTES_MAX, WAITING_BYTES_MAX};
use crate::connection::{Context, Event, Http1, Output, Piece, Reason, Want};

/// A request and its answer.
#[derive(Debug)]
pub struct Stream {
    id: u32,
    machine: Http1,
    is_head: bool,
    respond: SendResponse<Held>,
    /// Once the response's head is sent.
    sender: Option<SendStream<Held>>,
    /// Bytes of the response's body not yet handed over; `None` if nobody knows how many there will be.
    body_left: Option<u64>,
    /// The client has been told that the response is complete.
    is_ended: bool,
    /// How many parts of the body were handed over.
    parts: u64,
    stage: Stage,
    end: Option<End>,
    /// When it last had its turn, as the connection counts turns.
    pub served: u64,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has its answer, or soon will.
    Answered,
    /// The client did not want it any more.
    Cancelled,
    /// What was sent is not whole: reset.
    Failed,
}

#[derive(Debug)]
enum Stage {
    /// The request's body is coming, and thrown away unless it is to be passed on; then the request is answered.
    Uploading { request: Box<Parts>, body: RecvStream, received: u64, kept: Vec<u8> },
    /// This may block, and has to be done first.
    Job(Job, For),
    /// It is being done.
    Delegated(For),
    /// The machine waits to be woken.
    Waiting,
    /// This is on its way.
    Sending(Sending),
    /// Nothing follows.
    Over,
}

/// Who waits for a job.
#[derive(Debug)]
enum For {
    Machine,
    /// The rest of an output whose body is in a file.
    Sending(Sending),
}

/// An output of the machine's on its way.
#[derive(Debug)]
struct Sending {
    /// Handed back when all of it is sent.
    output: Output,
    /// What is sent next.
    bytes: Bytes,
    rest: Rest,
}

/// What follows the bytes.
#[derive(Debug)]
enum Rest {
    Nothing,
    Memory(Arc<[u8]>),
    Stored(Extent),
    File(FileRange),
}

impl Stream {
    /// A request that has just come from `peer`.
    pub fn new(
        peer: IpAddr,
        is_secure: bool,
        request: Request<RecvStream>,
        respond: SendResponse<Held>,
    ) -> Stream {
        let (request, body) = request.into_parts();
        Stream {
            id: respond.stream_id().as_u32(),
            machine: Http1::of_stream(peer, is_secure),
            is_head: request.method == Method::HEAD,
            respond,
            sender: None,
            body_left: Some(0),
            is_ended: false,
            parts: 0,
            stage: Stage::Uploading { request: Box::new(request), body, received: 0, kept: Vec::new() },
            end: None,
            served: 0,
        }
    }

    /// The stream's identifier.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether the client has yet to send the rest of the request.
    pub fn is_uploading(&self) -> bool {
        matches!(self.stage, Stage::Uploading { .. })
    }

    /// Whether the client's windows, or what waits already, hold it up.
    pub fn is_sending(&self) -> bool {
        matches!(self.stage, Stage::Sending(_))
    }

    /// Goes on as far as possible; returns whether the protocol has something to do for it.
    pub fn advance(&mut self, gauge: &Gauge, context: &mut Context<'_>) -> bool {
        if self.end.is_none() && self.is_cancelled() {
            self.finish_as(End::Cancelled);
        }
        let before = (self.sender.is_some(), self.parts);
        let mut goes_on = true;
        while goes_on {
            goes_on = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Uploading { request, body, received, kept } => {
                    self.upload(request, body, received, kept, context)
                }
                Stage::Sending(sending) => self.send(sending, gauge, context),
                stage => {
                    self.stage = stage;
                    false
                }
            }
        }
        self.end.is_some() || before != (self.sender.is_some(), self.parts)
    }

    /// The job it waits for, to be done by somebody; the outcome is [delivered](Self::deliver).
    pub fn take_job(&mut self) -> Option<Job> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Job(job, whose) => {
                self.stage = Stage::Delegated(whose);
                Some(job)
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// Whether it waits for a job that nobody does yet.
    pub fn has_job(&self) -> bool {
        matches!(self.stage, Stage::Job(..))
    }

    /// What became of its job; nothing if nobody can do it now.
    pub fn deliver(&mut self, done: Option<Done>, context: &mut Context<'_>) {
        match (std::mem::replace(&mut self.stage, Stage::Over), done) {
            (Stage::Delegated(For::Machine), done) => {
                self.happen(done.map_or(Event::Refused, Event::Done), context);
            }
            (Stage::Delegated(For::Sending(mut sending)), Some(Done::Loaded(Ok(Some(slice))))) => {
                sending.bytes = Bytes::from_owner(slice);
                self.stage = Stage::Sending(sending);
            }
            // The file has become shorter, or there is too much to do: the client must not take it for whole.
            (Stage::Delegated(For::Sending(_)), _) => self.fail(),
            (stage, _) => self.stage = stage,
        }
    }

    /// Something that the machine may wait for has happened.
    pub fn wake(&mut self, context: &mut Context<'_>) {
        if matches!(self.stage, Stage::Waiting) {
            self.happen(Event::Woken, context);
        }
    }

    /// It is about to be forgotten.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        self.machine.finish(context);
    }

    fn is_cancelled(&mut self) -> bool {
        let mut nobody = task::Context::from_waker(Waker::noop());
        let reset = match &mut self.sender {
            Some(sender) => sender.poll_reset(&mut nobody),
            None => self.respond.poll_reset(&mut nobody),
        };
        reset.is_ready()
    }

    /// Takes the request's body, to throw it away or to pass it on; returns whether the request could be answered then.
    fn upload(
        &mut self,
        request: Box<Parts>,
        mut body: RecvStream,
        mut received: u64,
        mut kept: Vec<u8>,
        context: &mut Context<'_>,
    ) -> bool {
        let mut nobody = task::Context::from_waker(Waker::noop());
        // A body that is held back until it is asked for, or is too long to be thrown away, gets its answer now; what
        // still comes of it is reset without blame when the stream ends (RFC 9113, 8.1).
        let passes_on = context.exchanges.is_some();
        let is_awaited = passes_on || !head::waits_for_continue(&request);
        while is_awaited && received <= DRAINED_BODY_BYTES_MAX {
            match body.poll_data(&mut nobody) {
                Poll::Ready(Some(Ok(bytes))) => {
                    received += bytes.len() as u64;
                    if passes_on {
                        kept.extend_from_slice(&bytes);
                    }
                    // It fails when the stream is gone, which the next poll tells.
                    let _ = body.flow_control().release_capacity(bytes.len());
                }
                Poll::Ready(Some(Err(_))) => {
                    self.finish_as(End::Cancelled);
                    return false;
                }
                Poll::Ready(None) => break,
                Poll::Pending => {
                    self.stage = Stage::Uploading { request, body, received, kept };
                    return false;
                }
            }
        }
        let mut text = context.pool.take_buffer();
        // What is passed on is kept whole, so it cannot be long; what is not whole is not passed on.
        let is_too_long = passes_on && received > DRAINED_BODY_BYTES_MAX;
        if is_too_long {
            context.pool.put_buffer(text);
            let want = self.machine.turn_away(Status::ContentTooLarge, context);
            self.pursue(want, context);
            return true;
        }
        head::append_request(text.space(), &request, passes_on.then_some(&kept));
        self.happen(Event::Received(text), context);
        true
    }

    /// Tells the machine, and takes what it wants.
    fn happen(&mut self, event: Event, context: &mut Context<'_>) {
        let want = self.tell(event, context);
        self.pursue(want, context);
    }

    fn pursue(&mut self, mut want: Want, context: &mut Context<'_>) {
        self.stage = loop {
            want = match want {
                Want::Open(opening) => break Stage::Job(Job::Open(opening), For::Machine),
                Want::Load(range) if range.into_memory => break Stage::Job(Job::Load(range), For::Machine),
                // Read when it is to be sent.
                Want::Load(_) => self.tell(Event::Done(Done::Loaded(Ok(None))), context),
                Want::Send(output) => return self.begin(output),
                Want::Receive(buffer) => {
                    context.pool.put_buffer(buffer);
                    return self.complete();
                }
                Want::Close(Reason::Finished) => return self.complete(),
                // What was sent is not all.
                Want::Close(_) => return self.fail(),
                Want::Wait => break Stage::Waiting,
                Want::Look(_) | Want::Delegate(..) | Want::Recall => {
                    unreachable!("a machine of HTTP/1 wants one thing at a time")
                }
            }
        };
    }

    /// The machine never hears of the server's stopping: the streams there are finish, and no more are begun.
    fn tell(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        let is_draining = std::mem::replace(&mut context.is_draining, false);
        let want = self.machine.handle(event, context);
        context.is_draining = is_draining;
        want
    }

    /// An output of the machine's; the first begins with the head.
    fn begin(&mut self, mut output: Output) {
        let mut bytes = Bytes::from(std::mem::take(&mut output.bytes));
        if self.sender.is_none() {
            let Some(head) = head::read_response(&bytes) else { return self.fail() };
            bytes.advance(head.text_length);
            let has_body = !self.is_head && !matches!(head.response.status().as_u16(), 204 | 304);
            self.body_left = if has_body { head.content_length } else { Some(0) };
            self.is_ended = self.body_left == Some(0);
            match self.respond.send_response(head.response, self.is_ended) {
                Ok(sender) => self.sender = Some(sender),
                Err(_) => return self.finish_as(End::Cancelled),
            }
        }
        let rest = match &output.body {
            None => Rest::Nothing,
            Some(Piece::Memory(body)) => Rest::Memory(Arc::clone(body)),
            Some(Piece::Stored(extent)) => Rest::Stored(extent.clone()),
            Some(Piece::File(range)) => Rest::File(range.clone()),
        };
        self.stage = Stage::Sending(Sending { output, bytes, rest });
    }

    /// Hands over what may be sent now; returns whether there may be more to do at once.
    fn send(&mut self, mut sending: Sending, gauge: &Gauge, context: &mut Context<'_>) -> bool {
        if sending.bytes.is_empty() {
            match std::mem::replace(&mut sending.rest, Rest::Nothing) {
                Rest::Nothing => {
                    self.happen(Event::Sent(sending.output), context);
                    return true;
                }
                Rest::Memory(body) => sending.bytes = Bytes::from_owner(body),
                Rest::Stored(extent) => {
                    if let Some((slice, rest)) = extent.split_first() {
                        (sending.bytes, sending.rest) = (Bytes::from_owner(slice), Rest::Stored(rest));
                    }
                    self.stage = Stage::Sending(sending);
                    return true;
                }
                Rest::File(range) => {
                    self.read_on(sending, range, gauge);
                    return false;
                }
            }
        }
        let room = self.room(sending.bytes.len(), gauge);
        if room == 0 {
            self.stage = Stage::Sending(sending);
            return false;
        }
        let part = sending.bytes.split_to(room.min(sending.bytes.len()));
        if let Some(left) = &mut self.body_left {
            let Some(rest) = left.checked_sub(part.len() as u64) else {
                self.fail();
                return false;
            };
            *left = rest;
        }
        self.is_ended = self.body_left == Some(0);
        self.parts += 1;
        let sender = self.sender.as_mut().expect("a body follows its head");
        if sender.send_data(Held::new(part, gauge), self.is_ended).is_err() {
            self.finish_as(End::Cancelled);
            return false;
        }
        self.stage = Stage::Sending(sending);
        true
    }

    /// Has the next slice of a file read, if it could be sent.
    fn read_on(&mut self, mut sending: Sending, mut rest: FileRange, gauge: &Gauge) {
        let room = self.room(SLICE_BYTES, gauge);
        if room == 0 {
            sending.rest = Rest::File(rest);
            self.stage = Stage::Sending(sending);
            return;
        }
        let length = rest.length.min(room.clamp(SLICE_BYTES_MIN, SLICE_BYTES));
        let slice = FileRange { length, into_memory: true, ..rest.clone() };
        rest.offset += length as u64;
        rest.length -= length;
        if rest.length > 0 {
            sending.rest = Rest::File(rest);
        }
        self.stage = Stage::Job(Job::Load(slice), For::Sending(sending));
    }

    /// How many of `wanted` bytes may be handed over.
    fn room(&mut self, wanted: usize, gauge: &Gauge) -> usize {
        if gauge.value() >= WAITING_BYTES_MAX {
            return 0;
        }
        let Some(sender) = &mut self.sender else { return 0 };
        sender.reserve_capacity(wanted.min(STREAM_WAITING_BYTES_MAX));
        sender.capacity()
    }

    /// The machine has no more to say.
    fn complete(&mut self) {
        let Some(sender) = &mut self.sender else { return self.fail() };
        match self.body_left {
            Some(0) => {}
            Some(_) => return self.fail(),
            // That was all, which nobody could know before.
            None if sender.send_data(Held::new(Bytes::new(), &Gauge::default()), true).is_err() => {
                return self.finish_as(End::Cancelled);
            }
            None => {}
        }
        self.finish_as(End::Answered);
    }

    fn fail(&mut self) {
        match &mut self.sender {
            Some(sender) => sender.send_reset(Code::INTERNAL_ERROR),
            None => self.respond.send_reset(Code::INTERNAL_ERROR),
        }
        self.finish_as(End::Failed);
    }

    fn finish_as(&mut self, end: End) {
        self.stage = Stage::Over;
        self.end = Some(end);
    }
}
