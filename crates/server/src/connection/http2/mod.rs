//! HTTP/2 (RFC 9113): multiplexes requests over one connection; each is answered as in HTTP/1.
//!
//! Frames, field compression, states and windows of streams are `sojourn_http::http2`, which is given what is received
//! and says what it means. Every stream has an HTTP/1 state machine (`stream`), so the same code answers both versions.
//!
//! Streams want several things at once, but a driver does one at a time per connection, so this machine multiplexes.
//! Output is sent piece by piece, in frames that are taken from the streams in turn, the most urgent first (RFC 9218).
//! Between two outputs it checks for input. Disk jobs are delegated, so a stream that waits for the disk does not delay
//! the others. The limits are in `limits`.

use std::net::IpAddr;

use sojourn_http::http2::{Connection, ErrorCode, Event as Http2Event, PREFACE};

use super::{Buffer, Context, Event, Lane, Piece, Reason, Wait, Want};
use crate::counters::Counter;

mod limits;
mod scheduling;
mod shutdown;
mod stream;
mod wire;

use limits::{CANCELLED_AT_ONCE_MAX, ErrorAllowance, JOBS_MAX, LINGER_BYTES_MAX};
use stream::{End, Stream};
use wire::Wire;

const PREFACE_LINE_BYTES: usize = b"PRI * HTTP/2.0\r\n".len();

#[derive(Debug)]
pub struct Http2 {
    peer: IpAddr,
    is_secure: bool,
    protocol: Connection,
    wire: Wire,
    /// Received bytes that are not read yet, because too much waits to be sent.
    input: Buffer,
    /// Errors that the client may still make.
    allowance: ErrorAllowance,
    /// The streams, in the order of their turns.
    #[expect(clippy::vec_box, reason = "sorted at every turn: what moves is small")]
    streams: Vec<Box<Stream>>,
    /// The stream that waits for the job in each lane; it may have ended meanwhile.
    lanes: [Option<u32>; JOBS_MAX],
    operation: Operation,
    requests: u32,
    answered: u32,
    cancelled: u32,
    /// Counts how often a stream was served.
    progress: u64,
    /// Every request so far is answered, and the answers are sent.
    is_quiet: bool,
    is_stopping: bool,
}

/// The current want, apart from disk jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Nothing,
    Receiving,
    /// Receiving, which is being cancelled.
    Cancelling,
    Sending,
    /// Discarding input; counts the bytes.
    Lingering(u64),
}

impl Http2 {
    /// A connection from `peer` that starts with the client's preface.
    pub fn new(peer: IpAddr, is_secure: bool) -> Http2 {
        Http2 {
            peer,
            is_secure,
            protocol: Connection::server(limits::of_protocol()),
            wire: Wire::default(),
            input: Buffer::default(),
            allowance: ErrorAllowance::default(),
            streams: Vec::new(),
            lanes: [None; JOBS_MAX],
            operation: Operation::Receiving,
            requests: 0,
            answered: 0,
            cancelled: 0,
            progress: 0,
            is_quiet: false,
            is_stopping: false,
        }
    }

    /// Returns true if a connection that starts with these bytes speaks HTTP/2. So many bytes suffice, and HTTP/1 would
    /// refuse them no earlier.
    pub fn is_begun_by(bytes: &[u8]) -> bool {
        bytes.starts_with(&PREFACE[..PREFACE_LINE_BYTES])
    }

    pub fn start(&self) -> Want {
        Want::Receive(Buffer::default())
    }

    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        match event {
            Event::Received(buffer) => {
                if let Operation::Lingering(discarded) = &mut self.operation {
                    *discarded += buffer.unread().len() as u64;
                    let is_enough = *discarded > LINGER_BYTES_MAX;
                    context.pool.put_buffer(buffer);
                    return if is_enough { Want::Close(Reason::Finished) } else { self.start() };
                }
                self.operation = Operation::Nothing;
                debug_assert!(self.input.unread().is_empty(), "received before all was read");
                context.pool.put_buffer(std::mem::replace(&mut self.input, buffer));
            }
            Event::NothingReceived if matches!(self.operation, Operation::Lingering(_)) => {
                return self.start();
            }
            Event::NothingReceived => self.operation = Operation::Nothing,
            Event::Delegated => {}
            Event::Delivered(lane, done) => {
                self.deliver(lane, done, context);
                match self.operation {
                    Operation::Nothing => {}
                    Operation::Receiving => return self.go_on_receiving(context),
                    Operation::Cancelling | Operation::Sending | Operation::Lingering(_) => {
                        return Want::Wait;
                    }
                }
            }
            Event::Woken => {
                self.streams.iter_mut().for_each(|stream| stream.wake(&mut self.protocol, context));
                match self.operation {
                    Operation::Nothing => {}
                    Operation::Receiving => return self.go_on_receiving(context),
                    Operation::Cancelling | Operation::Sending | Operation::Lingering(_) => {
                        return Want::Wait;
                    }
                }
            }
            Event::Sent(output) => {
                context.pool.put(match output.body {
                    Some(Piece::Frames(frames)) => frames.into_bytes(),
                    _ => output.bytes,
                });
                if output.is_last {
                    return self.linger(context);
                }
                self.operation = Operation::Nothing;
                // Even while there is more to send, check for input.
                if !self.streams.is_empty() && self.input.unread().is_empty() {
                    return Want::Look(Buffer::default());
                }
            }
            Event::Expired => {
                if let Some(want) = self.expire(context) {
                    return want;
                }
            }
            Event::Ended => return Want::Close(Reason::Finished),
            Event::Failed => return Want::Close(Reason::Failed),
            Event::Done(_) | Event::Refused => unreachable!("this machine delegates"),
        }
        self.proceed(context)
    }

    pub fn waits_for(&self) -> Wait {
        match self.operation {
            Operation::Lingering(_) => Wait::End,
            // It is no answer to a request: PING may come for ever.
            Operation::Sending if self.is_quiet && !self.protocol.is_over() => Wait::Quiet(self.requests),
            Operation::Sending => Wait::Client,
            _ if self.streams.iter().any(|stream| stream.is_sending()) => Wait::Window,
            _ if self.streams.iter().any(|stream| stream.waits_for_disk()) => Wait::Disk,
            _ if self.streams.iter().any(|stream| !stream.is_uploading()) => Wait::Answer,
            // No deadline as long as more of the body arrives.
            _ if self.streams.iter().any(|stream| stream.is_uploading_to_handler()) => Wait::Upload,
            _ if self.is_in_request() => Wait::Head(self.requests),
            // The preface is missing.
            _ if !self.protocol.is_begun() => Wait::Request,
            _ => Wait::Quiet(self.requests),
        }
    }

    /// The share of body bytes among the bytes sent since the last call.
    pub fn body_fraction(&mut self) -> f64 {
        self.wire.body_fraction()
    }

    pub fn finish(&mut self, context: &mut Context<'_>) {
        for mut stream in self.streams.drain(..) {
            stream.finish(context);
        }
        self.give_back(context);
    }

    fn is_in_request(&self) -> bool {
        self.protocol.is_in_head() || !self.streams.is_empty()
    }

    /// Does everything that needs no driver, and returns the driver's next want.
    fn proceed(&mut self, context: &mut Context<'_>) -> Want {
        self.advance(context);
        let is_over = self.protocol.is_over();
        // What the disk has at once is sent in the same output.
        if !is_over
            && self.wire.is_half_empty(&mut self.protocol)
            && let Some(lane) = self.free_lane()
            && let Some((stream, job)) = self.next_job()
        {
            self.lanes[lane] = Some(stream);
            return Want::Delegate(Lane::new(lane), job);
        }
        if is_over || self.wire.has_output(&mut self.protocol) {
            self.operation = Operation::Sending;
            return Want::Send(self.wire.take(&mut self.protocol, is_over));
        }
        self.operation = Operation::Receiving;
        self.is_quiet = self.streams.is_empty();
        self.give_back(context);
        self.start()
    }

    /// Continues to wait for the client after the disk has delivered something.
    fn go_on_receiving(&mut self, context: &mut Context<'_>) -> Want {
        self.advance(context);
        let has_job = self.free_lane().is_some() && self.streams.iter().any(|stream| stream.has_job());
        if self.wire.has_output(&mut self.protocol) || self.protocol.is_over() || has_job {
            self.operation = Operation::Cancelling;
            return Want::CancelReceive;
        }
        self.give_back(context);
        Want::Wait
    }

    /// Processes frames and streams until all of them wait for something.
    fn advance(&mut self, context: &mut Context<'_>) {
        if self.protocol.output().capacity() == 0 {
            *self.protocol.output() = context.pool.take_sized(self.wire.last_bytes);
        }
        loop {
            self.read(context);
            self.notice_stop(context);
            if self.protocol.is_over() || !self.run_streams(context) {
                return;
            }
        }
    }

    /// Reads what was received, unless too much waits to be sent.
    fn read(&mut self, context: &mut Context<'_>) {
        let mut input = std::mem::take(&mut self.input);
        let (mut rest, mut cancelled_at_once) = (input.unread(), 0);
        while let Some(event) = self.protocol.next(&mut rest) {
            if self.apply(event, context) {
                cancelled_at_once += 1;
            }
            if cancelled_at_once > CANCELLED_AT_ONCE_MAX {
                self.protocol.shut_down(ErrorCode::ENHANCE_YOUR_CALM);
            }
        }
        let unread = rest.len();
        input.consume(input.unread().len() - unread);
        self.input = input;
    }

    /// Handles what the client has sent; returns true if that cancels a stream which was not started.
    fn apply(&mut self, event: Http2Event<'_>, context: &mut Context<'_>) -> bool {
        match event {
            Http2Event::Begun => context.served.count(Counter::ConnectionsHttp2),
            Http2Event::Head { stream, is_end } => {
                self.count_request(context);
                let head = self.protocol.head();
                self.streams.push(Box::new(Stream::new(
                    self.peer,
                    self.is_secure,
                    stream,
                    head,
                    is_end,
                    context.pool,
                )));
            }
            Http2Event::TooLarge { stream } => {
                self.count_request(context);
                let mut refused = Box::new(Stream::refused(self.peer, self.is_secure, stream));
                refused.refuse_head(&mut self.protocol, context);
                self.streams.push(refused);
            }
            Http2Event::Data { stream, bytes, is_end } => match find(&mut self.streams, stream) {
                Some(receiver) => receiver.receive(bytes, is_end, &mut self.protocol, context),
                None => self.protocol.discard(bytes.len()),
            },
            Http2Event::Reset { stream, .. } => {
                if let Some(stream) = find(&mut self.streams, stream) {
                    let is_started = stream.is_started();
                    stream.finish_as(End::Cancelled);
                    return !is_started;
                }
            }
            Http2Event::Rejected { stream, is_new, .. } => {
                if is_new {
                    self.count_request(context);
                } else if let Some(stream) = find(&mut self.streams, stream) {
                    stream.finish_as(End::Rejected);
                }
                context.served.count(Counter::StreamsRejected);
                if !self.allowance.take(context.clock.now) {
                    self.protocol.shut_down(ErrorCode::ENHANCE_YOUR_CALM);
                }
            }
            // Its requests are answered all the same.
            Http2Event::Leaving { .. } => {}
        }
        false
    }

    fn count_request(&mut self, context: &mut Context<'_>) {
        self.requests = self.requests.wrapping_add(1);
        self.is_quiet = false;
        context.served.count(Counter::Streams);
    }
}

fn find(streams: &mut [Box<Stream>], id: u32) -> Option<&mut Stream> {
    streams.iter_mut().rev().find(|stream| stream.id() == id).map(|stream| &mut **stream)
}

#[cfg(test)]
mod tests;
