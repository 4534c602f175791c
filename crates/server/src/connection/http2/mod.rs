//! HTTP/2 (RFC 9113): multiplexes requests over one connection; each is answered as in HTTP/1.
//!
//! The `h2` crate does flow control, stream states and sending. What the client sends is validated before (`frames`),
//! because the crate does not distinguish errors. It expects to be polled by a runtime over a socket; here it is polled
//! after every event, over memory (`pipe`), and never needs to be woken. Every stream has an HTTP/1 state machine
//! (`stream`), so the same code answers both versions.
//!
//! Streams want several things at once, but a driver does one at a time per connection, so this machine multiplexes.
//! Output is sent piece by piece, in frames that the crate takes from the streams in turn. Between two outputs it
//! checks for input. Disk jobs are delegated, so a stream that waits for the disk does not delay the others. Priorities
//! (RFC 9218) are ignored: all streams are equal. The limits are in `limits`.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{self, Poll, Waker};

use h2::server::{Connection, Handshake};

use super::{Buffer, Context, Event, Lane, Output, Reason, Wait, Want};
use crate::counters::Counter;

mod ending;
mod faults;
mod frames;
mod head;
mod held;
mod limits;
mod pipe;
mod stream;
mod turns;

use faults::Allowance;
use frames::{Faults, Frames};
use held::{Gauge, Held};
use limits::{JOBS_MAX, LINGER_BYTES_MAX};
use pipe::Pipe;
use stream::Stream;

const PREFACE_LINE_BYTES: usize = b"PRI * HTTP/2.0\r\n".len();

/// One connection that speaks HTTP/2.
#[derive(Debug)]
pub struct Http2 {
    peer: IpAddr,
    is_secure: bool,
    pipe: Pipe,
    session: Session,
    frames: Frames,
    faults: Faults,
    /// Errors that the client may still make.
    allowance: Allowance,
    /// The streams, least recently served first.
    #[expect(clippy::vec_box, reason = "sorted at every turn: what moves is small")]
    streams: Vec<Box<Stream>>,
    /// The stream that waits for the job in each lane; it may have ended meanwhile.
    lanes: [Option<u32>; JOBS_MAX],
    /// Body bytes in `h2`'s queues.
    waiting: Gauge,
    /// Counts sent bytes, to distinguish bodies from overhead.
    output: SentBytes,
    operation: Operation,
    requests: u32,
    answered: u32,
    cancelled: u32,
    /// Counts how often a stream was served.
    progress: u64,
    is_stopping: bool,
}

#[derive(Debug)]
enum Session {
    /// The client's preface has not arrived yet.
    Opening(Handshake<Pipe, Held>),
    Open(Connection<Pipe, Held>),
    /// The connection neither reads nor writes any more.
    Over,
}

/// Bytes sent since the start of the connection, and the values at the last query.
#[derive(Debug, Default)]
struct SentBytes {
    total: u64,
    seen_total: u64,
    seen_bodies: u64,
    fraction: f64,
}

impl SentBytes {
    /// The share of body bytes since the last call, where `bodies` is their total; the previous share if nothing was
    /// sent.
    fn body_fraction(&mut self, bodies: u64) -> f64 {
        if self.total > self.seen_total {
            self.fraction = (bodies - self.seen_bodies) as f64 / (self.total - self.seen_total) as f64;
            (self.seen_total, self.seen_bodies) = (self.total, bodies);
        }
        self.fraction.min(1.0)
    }
}

/// The current want, apart from disk jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Nothing,
    Receiving,
    /// Receiving, but recalled.
    Recalled,
    Sending,
    /// Discarding input; counts the bytes.
    Lingering(u64),
}

impl Http2 {
    /// A connection from `peer` that starts with the client's preface.
    pub fn new(peer: IpAddr, is_secure: bool) -> Http2 {
        let pipe = Pipe::default();
        Http2 {
            peer,
            is_secure,
            session: Session::Opening(limits::builder().handshake(pipe.clone())),
            pipe,
            frames: Frames::new(),
            faults: Faults::default(),
            allowance: Allowance::default(),
            streams: Vec::new(),
            lanes: [None; JOBS_MAX],
            waiting: Gauge::default(),
            output: SentBytes::default(),
            operation: Operation::Receiving,
            requests: 0,
            answered: 0,
            cancelled: 0,
            progress: 0,
            is_stopping: false,
        }
    }

    /// Returns true if a connection that starts with these bytes speaks HTTP/2. So many bytes suffice, and HTTP/1 would
    /// refuse them no earlier.
    pub fn is_begun_by(bytes: &[u8]) -> bool {
        bytes.starts_with(&frames::PREFACE[..PREFACE_LINE_BYTES])
    }

    pub fn start(&self) -> Want {
        Want::Receive(Buffer::default())
    }

    /// Handles an event and returns the next want.
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
                self.receive(buffer, context);
            }
            Event::Nothing if matches!(self.operation, Operation::Lingering(_)) => return self.start(),
            Event::Nothing => self.operation = Operation::Nothing,
            Event::Delegated => {}
            Event::Delivered(lane, done) => {
                self.deliver(lane, done, context);
                match self.operation {
                    Operation::Nothing => {}
                    Operation::Receiving => return self.go_on_receiving(context),
                    Operation::Recalled | Operation::Sending | Operation::Lingering(_) => return Want::Wait,
                }
            }
            Event::Woken => {
                self.streams.iter_mut().for_each(|stream| stream.wake(context));
                match self.operation {
                    Operation::Nothing => {}
                    Operation::Receiving => return self.go_on_receiving(context),
                    Operation::Recalled | Operation::Sending | Operation::Lingering(_) => return Want::Wait,
                }
            }
            Event::Sent(output) => {
                context.pool.put(output.bytes);
                if output.is_last {
                    return self.linger(context);
                }
                self.operation = Operation::Nothing;
                // Even while there is more to send, check for input.
                if !self.streams.is_empty() && self.pipe.is_read() {
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
            Operation::Sending => Wait::Client,
            _ if self.streams.iter().any(|stream| stream.is_sending()) => Wait::Window,
            _ if self.streams.iter().any(|stream| !stream.is_uploading()) => Wait::Disk,
            // No deadline as long as more of the body arrives.
            _ if self.streams.iter().any(|stream| stream.is_following()) => Wait::Upload,
            _ if self.is_in_request() => Wait::Head(self.requests),
            // The preface is missing.
            _ if matches!(self.session, Session::Opening(_)) => Wait::Request,
            _ => Wait::Quiet(self.requests),
        }
    }

    /// The share of body bytes among the bytes sent since the last call.
    pub fn body_fraction(&mut self) -> f64 {
        self.output.body_fraction(self.waiting.left_bytes())
    }

    /// Called before the connection is dropped: ends whatever it has started.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        for mut stream in self.streams.drain(..) {
            stream.finish(context);
        }
        self.give_back(context);
    }

    fn is_in_request(&self) -> bool {
        self.frames.is_partial() || !self.streams.is_empty()
    }

    /// Does everything that needs no driver, and returns the driver's next want.
    fn proceed(&mut self, context: &mut Context<'_>) -> Want {
        self.advance(context);
        if self.pipe.has_output() || self.is_over() {
            self.operation = Operation::Sending;
            let (bytes, is_last) = (self.pipe.take_output(), self.is_over());
            self.output.total += bytes.len() as u64;
            return Want::Send(Output { bytes, is_last, ..Output::default() });
        }
        if let Some(lane) = self.free_lane()
            && let Some((stream, job)) = self.next_job()
        {
            self.lanes[lane] = Some(stream);
            return Want::Delegate(Lane::new(lane), job);
        }
        self.operation = Operation::Receiving;
        self.give_back(context);
        self.start()
    }

    /// Continues to wait for the client after the disk has delivered something.
    fn go_on_receiving(&mut self, context: &mut Context<'_>) -> Want {
        self.advance(context);
        let has_job = self.free_lane().is_some() && self.streams.iter().any(|stream| stream.has_job());
        if self.pipe.has_output() || self.is_over() || has_job {
            self.operation = Operation::Recalled;
            return Want::Recall;
        }
        self.give_back(context);
        Want::Wait
    }

    /// Processes frames and streams until all of them wait for something.
    fn advance(&mut self, context: &mut Context<'_>) {
        if !self.pipe.has_output() {
            context.pool.put(self.pipe.take_output());
            self.pipe.give_output(context.pool.take());
        }
        loop {
            self.poll(context);
            self.punish(context);
            if self.notice_stop(context) {
                self.poll(context);
            }
            if self.is_over() || !self.run_streams(context) {
                return;
            }
        }
    }

    /// Lets `h2` read, write, and accept new requests.
    fn poll(&mut self, context: &mut Context<'_>) {
        let mut nobody = task::Context::from_waker(Waker::noop());
        if let Session::Opening(handshake) = &mut self.session {
            match Pin::new(handshake).poll(&mut nobody) {
                Poll::Pending => return,
                Poll::Ready(Ok(connection)) => {
                    context.served.count(Counter::ConnectionsHttp2);
                    self.session = Session::Open(connection);
                }
                Poll::Ready(Err(_)) => self.session = Session::Over,
            }
        }
        while let Session::Open(connection) = &mut self.session {
            match connection.poll_accept(&mut nobody) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok((request, mut respond)))) => {
                    self.requests = self.requests.wrapping_add(1);
                    context.served.count(Counter::Streams);
                    if let Some(code) = self.faults.take(respond.stream_id().as_u32()) {
                        respond.send_reset(code);
                        continue;
                    }
                    self.streams.push(Box::new(Stream::new(self.peer, self.is_secure, request, respond)));
                }
                // If it is an error, the client has been told.
                Poll::Ready(Some(Err(_)) | None) => self.session = Session::Over,
            }
        }
    }
}

#[cfg(test)]
mod tests;
