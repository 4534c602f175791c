//! One stream: an HTTP/2 request, answered by its own HTTP/1 state machine.
//!
//! The machine gets the request as text, and its output is split into a head and DATA. Writing one text and parsing one
//! head takes a microsecond; in return every handler gives the same answers over both protocols.
//!
//! What the machine would send from a file is read here, a slice at a time as the client's window allows, and is not
//! cached, just as the file would not have been.

use std::net::IpAddr;
use std::task::{self, Waker};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason as Code, RecvStream, SendStream};
use http::{Method, Request};
use sojourn_content::{Done, Job};

use super::held::{Gauge, Held};
use crate::connection::{Context, Event, Http1, Reason, Wait, Want};

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
    respond: SendResponse<Held>,
    /// Set once the response's head was sent.
    sender: Option<SendStream<Held>>,
    /// Body bytes of the response not passed to `h2` yet; `None` if the length is unknown.
    body_left: Option<u64>,
    /// The end of the response has been sent.
    is_ended: bool,
    /// The number of body parts passed to `h2`.
    parts: u64,
    /// The rest of the request's body, once the request is being answered.
    following: Option<Box<Following>>,
    stage: Stage,
    end: Option<End>,
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

impl Stream {
    /// A new request from `peer`.
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
            following: None,
            stage: Stage::Uploading(Box::new(Upload::new(request, body))),
            end: None,
            served: 0,
        }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns true if the client has not sent the whole request.
    pub fn is_uploading(&self) -> bool {
        matches!(self.stage, Stage::Uploading(_) | Stage::Following)
    }

    /// Returns true while the rest of a long body is being forwarded.
    pub fn is_following(&self) -> bool {
        matches!(self.stage, Stage::Following)
    }

    /// Returns true if sending is blocked by the client's windows or by queued bytes.
    pub fn is_sending(&self) -> bool {
        matches!(self.stage, Stage::Sending(_))
    }

    /// Continues as far as possible; returns true if `h2` has something to do for it.
    pub fn advance(&mut self, gauge: &Gauge, context: &mut Context<'_>) -> bool {
        if self.end.is_none() && self.is_cancelled() {
            self.finish_as(End::Cancelled);
        }
        let before = (self.sender.is_some(), self.parts);
        let mut goes_on = true;
        while goes_on {
            goes_on = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Uploading(upload) => self.upload(upload, context),
                Stage::Following => self.follow(context),
                Stage::Sending(sending) => self.send(sending, gauge, context),
                stage => {
                    self.stage = stage;
                    false
                }
            }
        }
        self.end.is_some() || before != (self.sender.is_some(), self.parts)
    }

    /// The job it needs, to be delegated to the driver; the outcome is [delivered](Self::deliver).
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

    /// Returns true if it needs a job that has not been delegated.
    pub fn has_job(&self) -> bool {
        matches!(self.stage, Stage::Job(..))
    }

    /// Handles the job's outcome; `None` if the queue was full.
    pub fn deliver(&mut self, done: Option<Done>, context: &mut Context<'_>) {
        match (std::mem::replace(&mut self.stage, Stage::Over), done) {
            (Stage::Delegated(For::Machine), done) => {
                self.happen(done.map_or(Event::Refused, Event::Done), context);
            }
            (Stage::Delegated(For::Sending(mut sending)), Some(Done::Loaded(Ok(Some(slice))))) => {
                sending.bytes = Bytes::from_owner(slice);
                self.stage = Stage::Sending(sending);
            }
            // The file was truncated, or the server is overloaded: the client must notice that the body is incomplete.
            (Stage::Delegated(For::Sending(_)), _) => self.fail(),
            (stage, _) => self.stage = stage,
        }
    }

    /// Resets it because of a protocol error.
    pub fn reject(&mut self, code: Code) {
        if self.end.is_none() {
            self.reset(code);
            self.finish_as(End::Rejected);
        }
    }

    /// Something that the machine may wait for has happened.
    pub fn wake(&mut self, context: &mut Context<'_>) {
        match self.stage {
            Stage::Waiting => self.happen(Event::Woken, context),
            Stage::Following => match self.tell(Event::Woken, context) {
                Want::Recall => self.happen(Event::Nothing, context),
                Want::Wait => {}
                want => self.pursue(want, context),
            },
            _ => {}
        }
    }

    /// Called before it is dropped.
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

    /// Passes an event to the machine and handles its want.
    fn happen(&mut self, event: Event, context: &mut Context<'_>) {
        let want = self.tell(event, context);
        self.pursue(want, context);
    }

    fn pursue(&mut self, mut want: Want, context: &mut Context<'_>) {
        self.stage = loop {
            want = match want {
                Want::Open(opening) => break Stage::Job(Job::Open(opening), For::Machine),
                Want::Load(range) if range.into_memory => break Stage::Job(Job::Load(range), For::Machine),
                // Read when it is about to be sent.
                Want::Load(_) => self.tell(Event::Done(Done::Loaded(Ok(None))), context),
                Want::Send(output) => return self.begin(output),
                Want::Receive(buffer) => {
                    context.pool.put_buffer(buffer);
                    if self.machine.waits_for() == Wait::Upload {
                        break Stage::Following;
                    }
                    return self.complete();
                }
                Want::Close(Reason::Finished) => return self.complete(),
                // The body is incomplete.
                Want::Close(_) => return self.fail(),
                Want::Wait => break Stage::Waiting,
                Want::Look(_) | Want::Delegate(..) | Want::Recall => {
                    unreachable!("a machine of HTTP/1 wants one thing at a time")
                }
            }
        };
    }

    /// The machine is never told that the server stops: existing streams finish, and no new ones start.
    fn tell(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        let is_draining = std::mem::replace(&mut context.is_draining, false);
        let want = self.machine.handle(event, context);
        context.is_draining = is_draining;
        want
    }
}
