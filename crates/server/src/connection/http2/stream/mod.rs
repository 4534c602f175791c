//! One stream: a request of HTTP/2, answered by an HTTP/1 machine of its own.
//!
//! The machine is given the request as text and its output is taken apart into a head and DATA: one text to
//! write and one head to read, a microsecond. In return every handler answers the same over both protocols.
//!
//! What the machine would have sent from a file is read here, a slice at a time as the client's window allows, and
//! never put into the caches: as little as the file would have been.

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

/// A request and its answer.
#[derive(Debug)]
pub struct Stream {
    id: u32,
    machine: Http1,
    is_head: bool,
    respond: SendResponse<Held>,
    /// Once the response's head is sent.
    sender: Option<SendStream<Held>>,
    /// Bytes of the response's body not passed to `h2` yet; `None` if the length is unknown.
    body_left: Option<u64>,
    /// The client has been told that the response is complete.
    is_ended: bool,
    /// Parts of the body passed to `h2`.
    parts: u64,
    /// What is yet to come of the request's body, once the request is being answered.
    following: Option<Box<Following>>,
    stage: Stage,
    end: Option<End>,
    /// When it was last served, in the connection's count of turns.
    pub served: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has its answer, or soon will.
    Answered,
    /// The client did not want it any more.
    Cancelled,
    /// What the client sent on it is at fault: reset.
    Rejected,
    /// The response broke off: reset.
    Failed,
}

#[derive(Debug)]
enum Stage {
    /// The request's body is coming, and thrown away unless it is to be passed on; then the request is answered.
    Uploading(Box<Upload>),
    /// The machine takes more of the request's body.
    Following,
    /// This may block, and has to be done first.
    Job(Job, For),
    Delegated(For),
    /// The machine waits to be woken.
    Waiting,
    Sending(Sending),
    Over,
}

/// The recipient of a job's result.
#[derive(Debug)]
enum For {
    Machine,
    /// The rest of an output whose body is in a file.
    Sending(Sending),
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

    /// Returns true if the client has yet to send the rest of the request.
    pub fn is_uploading(&self) -> bool {
        matches!(self.stage, Stage::Uploading(_) | Stage::Following)
    }

    /// Returns true if the rest of a long body is being passed on.
    pub fn is_following(&self) -> bool {
        matches!(self.stage, Stage::Following)
    }

    /// Returns true if the client's windows, or what waits already, hold it up.
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

    /// The job it needs, for the driver to delegate; the result is [delivered](Self::deliver).
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

    /// Returns true if it needs a job that is not delegated yet.
    pub fn has_job(&self) -> bool {
        matches!(self.stage, Stage::Job(..))
    }

    /// Takes the job's result; `None` if the queue was full.
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

    /// Resets it, because of what the client has sent.
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

    /// The machine never hears of the server's stopping: the streams there are finish, and no more are begun.
    fn tell(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        let is_draining = std::mem::replace(&mut context.is_draining, false);
        let want = self.machine.handle(event, context);
        context.is_draining = is_draining;
        want
    }
}
