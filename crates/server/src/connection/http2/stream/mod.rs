//! One stream: an HTTP/2 request, answered by its own HTTP/1 state machine.
//!
//! The machine gets the request as text, and its output is split into a head and DATA. In return every handler gives
//! the same answers over both protocols.
//!
//! What the machine would send from a file is read here, a slice at a time as the client's window allows, and is not
//! cached, just as the file would not have been.

use std::net::IpAddr;

use bytes::Bytes;
use sojourn_content::{Done, Job};
use sojourn_http::Status;
use sojourn_http::http2::{Connection, ErrorCode, Priority, Section};

use super::wire::{Unsent, Wire};
use crate::connection::{Buffer, Context, Event, Http1, Pool, Reason, Wait, Want};

mod sending;
mod upload;

use sending::Sending;
use upload::{Following, Upload};

/// A request and its response.
#[derive(Debug)]
pub struct Stream {
    id: u32,
    machine: Http1,
    is_head: bool,
    /// The response's head was sent.
    has_head: bool,
    /// Body bytes of the response that are not sent yet; `None` if the length is unknown.
    body_left: Option<u64>,
    /// The number of heads and body parts that were sent.
    parts: u64,
    /// The rest of the request's body, once the request is being answered.
    following: Option<Box<Following>>,
    stage: Stage,
    end: Option<End>,
    /// File bytes that were read, or are being read, and are not sent.
    unsent_bytes: usize,
    /// When it was last served, counted in servings of the connection.
    pub served: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has received its response, or soon will.
    Answered,
    /// The client cancelled it.
    Cancelled,
    /// Reset because of a protocol error of the client.
    Rejected,
    /// Reset because the response could not be completed.
    Failed,
}

#[derive(Debug)]
enum Stage {
    /// A request without a body, which is not started.
    Ready(Buffer),
    /// The request's body arrives and is discarded, or buffered to be forwarded; then the request is answered.
    Uploading(Box<Upload>),
    /// The machine reads more of the request's body.
    Following,
    /// A job that may block must be done first.
    Job(Job, For),
    Delegated(For),
    /// The machine waits to be woken.
    Waiting,
    Sending(Sending),
    Over,
}

/// The recipient of a job's outcome.
#[derive(Debug)]
enum For {
    Machine,
    /// The rest of an output whose body is in a file.
    Sending(Sending),
}

/// True if it is sent in turn with others of its urgency, not as a whole before them.
fn takes_turns(priority: Option<Priority>) -> bool {
    priority.is_none_or(|Priority { is_incremental, .. }| is_incremental)
}

impl Stream {
    /// A new request from `peer`. No body follows if it `is_end`.
    pub fn new(
        peer: IpAddr,
        is_secure: bool,
        id: u32,
        head: &Section,
        is_end: bool,
        pool: &mut Pool,
    ) -> Stream {
        let mut text = pool.take_buffer();
        text.space().extend_from_slice(head.text());
        let (stage, outline) = match is_end {
            true => (Stage::Ready(text), head.outline().map(|outline| pool.keep_outline(outline))),
            false => (Stage::Uploading(Box::new(Upload::new(head, text))), None),
        };
        let is_head = head.is_head_request();
        Stream::in_stage(id, is_head, Http1::of_stream(peer, is_secure, is_head, outline), stage)
    }

    /// A request that is refused without being read.
    pub fn refused(peer: IpAddr, is_secure: bool, id: u32) -> Stream {
        Stream::in_stage(id, false, Http1::of_stream(peer, is_secure, false, None), Stage::Over)
    }

    fn in_stage(id: u32, is_head: bool, machine: Http1, stage: Stage) -> Stream {
        Stream {
            id,
            machine,
            is_head,
            has_head: false,
            body_left: Some(0),
            parts: 0,
            following: None,
            stage,
            end: None,
            unsent_bytes: 0,
            served: 0,
        }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns true once something was done for it.
    pub fn is_started(&self) -> bool {
        !matches!(self.stage, Stage::Ready(_))
    }

    /// Returns true if the client has not sent the whole request.
    pub fn is_uploading(&self) -> bool {
        matches!(self.stage, Stage::Uploading(_) | Stage::Following)
    }

    /// Returns true if a part of the request's body has arrived for the handler, and more is to come.
    pub fn is_uploading_to_handler(&self) -> bool {
        match &self.stage {
            Stage::Uploading(upload) => upload.has_kept(),
            Stage::Following => true,
            _ => false,
        }
    }

    /// Returns true if it waits for a disk.
    pub fn waits_for_disk(&self) -> bool {
        matches!(self.stage, Stage::Job(..) | Stage::Delegated(_))
    }

    /// Returns true if sending is blocked by the client's windows.
    pub fn is_sending(&self) -> bool {
        matches!(self.stage, Stage::Sending(_))
    }

    /// What it holds of a file.
    pub fn unsent(&self, protocol: &Connection) -> Unsent {
        let bytes = self.unsent_bytes;
        if bytes == 0 {
            return Unsent::default();
        }
        Unsent { bytes, allowed_bytes: bytes.min(protocol.stream_window(self.id)) }
    }

    /// Its place among the streams: by urgency, then those that are sent one after the other in the order of requests,
    /// then those that take turns (RFC 9218, 10). A client that says nothing of priorities gets equal turns.
    pub fn turn(&self, protocol: &Connection) -> (u8, bool, u64) {
        let priority = protocol.priority(self.id);
        let urgency = priority.unwrap_or_default().urgency;
        match takes_turns(priority) {
            true => (urgency, true, self.served),
            false => (urgency, false, self.id.into()),
        }
    }

    /// Continues as far as possible, but for its turn; returns true if it has sent anything, or has ended.
    pub fn advance(&mut self, protocol: &mut Connection, wire: &mut Wire, context: &mut Context<'_>) -> bool {
        let before = self.parts;
        let mut goes_on = !self.is_held_up(protocol, wire);
        while goes_on {
            // Not moved: it is large, and most streams of a turn wait for something.
            goes_on = match &mut self.stage {
                Stage::Ready(text) => {
                    let mut text = std::mem::take(text);
                    text.space().extend_from_slice(b"\r\n");
                    self.happen(Event::Received(text), protocol, context);
                    true
                }
                Stage::Uploading(_) => self.upload(protocol, context),
                Stage::Following => self.follow(protocol, context),
                Stage::Sending(_) => self.send(protocol, wire, context),
                Stage::Job(..) | Stage::Delegated(_) | Stage::Waiting | Stage::Over => false,
            }
        }
        self.end.is_some() || self.parts != before
    }

    /// Returns true if it cannot send or read on for the sake of other streams.
    fn is_held_up(&self, protocol: &mut Connection, wire: &Wire) -> bool {
        matches!(&self.stage, Stage::Sending(sending) if sending.is_held_up(protocol, wire))
    }

    /// Answers 431, because the head is too large to be read.
    pub fn refuse_head(&mut self, protocol: &mut Connection, context: &mut Context<'_>) {
        let want = self.machine.reject_connection(Status::FieldsTooLarge, context);
        self.pursue(want, protocol, context);
    }

    /// The job it needs, to be delegated to the driver; the outcome is [delivered](Self::deliver).
    pub fn take_job(&mut self) -> Option<Job> {
        if !self.has_job() {
            return None;
        }
        let Stage::Job(job, whose) = std::mem::replace(&mut self.stage, Stage::Over) else { return None };
        self.stage = Stage::Delegated(whose);
        Some(job)
    }

    /// Returns true if it needs a job that has not been delegated.
    pub fn has_job(&self) -> bool {
        matches!(self.stage, Stage::Job(..))
    }

    /// Handles the job's outcome; `None` if the queue was full.
    pub fn deliver(&mut self, done: Option<Done>, protocol: &mut Connection, context: &mut Context<'_>) {
        match (std::mem::replace(&mut self.stage, Stage::Over), done) {
            (Stage::Delegated(For::Machine), done) => {
                self.happen(done.map_or(Event::Refused, Event::Done), protocol, context);
            }
            (Stage::Delegated(For::Sending(mut sending)), Some(Done::Loaded(Ok(Some(slice))))) => {
                sending.slice = Bytes::from_owner(slice);
                self.stage = Stage::Sending(sending);
            }
            // The file was truncated, or the server is overloaded: the client must notice that the body is incomplete.
            (Stage::Delegated(For::Sending(_)), _) => self.fail(protocol),
            (stage, _) => self.stage = stage,
        }
    }

    /// Something that the machine may wait for has happened.
    pub fn wake(&mut self, protocol: &mut Connection, context: &mut Context<'_>) {
        match self.stage {
            Stage::Waiting => self.happen(Event::Woken, protocol, context),
            Stage::Following => match self.tell(Event::Woken, context) {
                Want::CancelReceive => self.happen(Event::NothingReceived, protocol, context),
                Want::Wait => {}
                want => self.pursue(want, protocol, context),
            },
            _ => {}
        }
    }

    /// Answers 408 if the rest of the request's body is missing, unless there is an answer already.
    pub fn time_out(&mut self, protocol: &mut Connection, context: &mut Context<'_>) {
        if self.is_uploading() && !self.has_head {
            let want = self.machine.time_out_request(context);
            self.pursue(want, protocol, context);
        }
    }

    /// Ends it. If the client does not know, it must have been told.
    pub fn finish_as(&mut self, end: End) {
        self.stage = Stage::Over;
        self.unsent_bytes = 0;
        self.end.get_or_insert(end);
    }

    /// Called before it is dropped.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        self.machine.finish(context);
    }

    /// Passes an event to the machine and handles its want.
    fn happen(&mut self, event: Event, protocol: &mut Connection, context: &mut Context<'_>) {
        let want = self.tell(event, context);
        self.pursue(want, protocol, context);
    }

    fn pursue(&mut self, mut want: Want, protocol: &mut Connection, context: &mut Context<'_>) {
        self.stage = loop {
            want = match want {
                Want::Open(opening) => break Stage::Job(Job::Open(opening), For::Machine),
                Want::Load(range) if range.into_memory => break Stage::Job(Job::Load(range), For::Machine),
                // Read when it is about to be sent.
                Want::Load(_) => self.tell(Event::Done(Done::Loaded(Ok(None))), context),
                Want::Send(output) => return self.begin(output, protocol, context),
                Want::Receive(buffer) => {
                    context.pool.put_buffer(buffer);
                    if self.machine.waits_for() == Wait::Upload {
                        break Stage::Following;
                    }
                    return self.complete(protocol);
                }
                Want::Look(buffer) => {
                    context.pool.put_buffer(buffer);
                    if self.following.as_ref().is_some_and(|following| following.has_more()) {
                        break Stage::Following;
                    }
                    self.tell(Event::NothingReceived, context)
                }
                Want::Close(Reason::Finished) => return self.complete(protocol),
                // The body is incomplete.
                Want::Close(_) => return self.fail(protocol),
                Want::Wait => break Stage::Waiting,
                Want::Delegate(..) | Want::CancelReceive => {
                    unreachable!("a machine of HTTP/1 wants one thing at a time")
                }
            }
        };
    }

    /// The machine has finished its output.
    fn complete(&mut self, protocol: &mut Connection) {
        if !self.has_head || self.body_left.is_some_and(|left| left > 0) {
            return self.fail(protocol);
        }
        if self.body_left.is_none() {
            // Only now is the end of the body known.
            let head = protocol.data_head(self.id, 0, true);
            protocol.output().extend_from_slice(&head);
        }
        protocol.finish(self.id);
        self.finish_as(End::Answered);
    }

    fn fail(&mut self, protocol: &mut Connection) {
        protocol.reset(self.id, ErrorCode::INTERNAL_ERROR);
        self.finish_as(End::Failed);
    }

    /// The machine is never told that the server stops: existing streams finish, and no new ones start.
    fn tell(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        let is_draining = std::mem::replace(&mut context.is_draining, false);
        let want = self.machine.handle(event, context);
        context.is_draining = is_draining;
        want
    }
}
