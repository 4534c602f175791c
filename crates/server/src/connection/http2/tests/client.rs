//! An HTTP/2 client of another implementation, talking to a state machine with a controlled disk.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{self, Poll, Waker};

use bytes::Bytes;
use h2::Reason as Code;
use h2::client::{self, SendRequest};
use http::{HeaderMap, Request, StatusCode};
use sojourn_content::Job;
use sojourn_testing::Pipe;

use super::super::{Http2, limits};
use crate::connection::bench::Bench;
use crate::connection::{Event, Lane, Want};

/// The most bytes of frames other than DATA in a send.
const HEADS_BYTES_MAX: usize = 32 * 1024;

/// A state machine, and a driver that performs its wants.
pub struct Server {
    pub bench: Bench,
    pub machine: Http2,
    pub want: Want,
    /// Jobs for which this returns true wait until they are released.
    pub holds: fn(&Job) -> bool,
    pub held: VecDeque<(Lane, Job)>,
    pub sent: Vec<u8>,
    pub is_shut: bool,
}

impl Server {
    pub fn new(root: &std::path::Path) -> Server {
        let machine = Http2::new([127, 0, 0, 1].into(), false);
        Server {
            bench: Bench::new(root),
            want: machine.start(),
            machine,
            holds: |_| false,
            held: VecDeque::new(),
            sent: Vec::new(),
            is_shut: false,
        }
    }

    pub fn handle(&mut self, event: Event) -> Want {
        self.machine.handle(event, &mut self.bench.context())
    }

    /// Passes an event to the machine and performs its wants until it waits for the client.
    pub fn happen(&mut self, event: Event) {
        let mut want = self.handle(event);
        loop {
            let event = match want {
                Want::Receive(_) | Want::Close(_) => break,
                Want::Wait => return,
                Want::Look(_) | Want::CancelReceive => Event::NothingReceived,
                Want::Send(output) => {
                    // Heads of responses, resets and the like may come on top.
                    assert!(output.total_bytes() <= limits::OUTPUT_BYTES_MAX + HEADS_BYTES_MAX);
                    self.sent.extend_from_slice(&output.bytes);
                    if let Some(body) = &output.body {
                        body.in_memory(0).for_each(|piece| self.sent.extend_from_slice(piece));
                    }
                    self.is_shut |= output.is_last;
                    Event::Sent(output)
                }
                Want::Delegate(lane, job) if (self.holds)(&job) => {
                    self.held.push_back((lane, job));
                    Event::Delegated
                }
                Want::Delegate(lane, job) => {
                    Event::Delivered(lane, Some(job.perform(&self.bench.origin, &mut Vec::new())))
                }
                Want::Open(_) | Want::Load(_) => panic!("{want:?} would hold up the other streams"),
            };
            want = self.handle(event);
        }
        self.want = want;
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        let mut buffer = self.bench.pool.take_buffer();
        buffer.space().extend_from_slice(bytes);
        self.happen(Event::Received(buffer));
    }

    /// File bytes that are held for all streams.
    pub fn unsent_bytes(&self) -> usize {
        self.machine.streams.iter().map(|stream| stream.unsent(&self.machine.protocol).bytes).sum()
    }

    /// Completes the oldest disk job.
    pub fn release(&mut self) {
        let (lane, job) = self.held.pop_front().expect("a job that is held");
        let done = job.perform(&self.bench.origin, &mut Vec::new());
        self.happen(Event::Delivered(lane, Some(done)));
    }
}

pub struct Client {
    pub pipe: Pipe,
    pub sender: SendRequest<Bytes>,
    pub connection: client::Connection<Pipe>,
    pub answers: Vec<Answer>,
    pub sent: Vec<u8>,
}

/// The response to a request.
pub struct Answer {
    pub response: client::ResponseFuture,
    pub head: Option<(StatusCode, HeaderMap)>,
    pub body: Option<RecvBody>,
    pub bytes: Vec<u8>,
    pub outcome: Option<Result<(), Code>>,
}

pub type RecvBody = h2::RecvStream;

impl Client {
    pub fn new(window: u32) -> Client {
        let pipe = Pipe::default();
        let mut nobody = task::Context::from_waker(Waker::noop());
        let mut builder = client::Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(window.max(65_535));
        let mut handshake = Box::pin(builder.handshake(pipe.clone()));
        let Poll::Ready(Ok((sender, connection))) = handshake.as_mut().poll(&mut nobody) else {
            panic!("no handshake")
        };
        Client { pipe, sender, connection, answers: Vec::new(), sent: Vec::new() }
    }

    /// Sends a request; returns the index of its answer.
    pub fn ask(&mut self, request: http::request::Builder) -> usize {
        let (response, _) = self.sender.send_request(request.body(()).unwrap(), true).unwrap();
        self.answers.push(Answer { response, head: None, body: None, bytes: Vec::new(), outcome: None });
        self.answers.len() - 1
    }

    pub fn get(&mut self, path: &str) -> usize {
        self.ask(Request::get(format!("http://h{path}")))
    }

    pub fn take_sent(&mut self) -> Vec<u8> {
        let mut nobody = task::Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut self.connection).poll(&mut nobody);
        let bytes = self.pipe.take_output();
        self.sent.extend_from_slice(&bytes);
        bytes
    }

    /// The client reads `bytes`; if it `takes_bodies`, it consumes received body bytes at once.
    pub fn receive(&mut self, bytes: &[u8], takes_bodies: bool) {
        let mut nobody = task::Context::from_waker(Waker::noop());
        self.pipe.receive(bytes);
        let _ = Pin::new(&mut self.connection).poll(&mut nobody);
        for answer in &mut self.answers {
            answer.advance(takes_bodies);
        }
    }

    /// Lets both sides exchange bytes until neither has any.
    pub fn talk(&mut self, server: &mut Server, takes_bodies: bool) {
        loop {
            let bytes = self.take_sent();
            if !bytes.is_empty() {
                server.receive(&bytes);
            }
            let answer = std::mem::take(&mut server.sent);
            if bytes.is_empty() && answer.is_empty() {
                return;
            }
            self.receive(&answer, takes_bodies);
        }
    }

    pub fn status(&self, index: usize) -> u16 {
        self.answers[index].head.as_ref().expect("a head").0.as_u16()
    }

    pub fn check(&self, index: usize, status: u16, body: &[u8]) {
        let answer = &self.answers[index];
        assert_eq!((self.status(index), answer.outcome), (status, Some(Ok(()))), "answer {index}");
        assert!(answer.bytes == body, "answer {index}: {} bytes, not {}", answer.bytes.len(), body.len());
    }
}

impl Answer {
    pub fn advance(&mut self, takes_body: bool) {
        let mut nobody = task::Context::from_waker(Waker::noop());
        if self.head.is_none() && self.outcome.is_none() {
            match Pin::new(&mut self.response).poll(&mut nobody) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => self.outcome = Some(Err(error.reason().unwrap_or(Code::NO_ERROR))),
                Poll::Ready(Ok(response)) => {
                    let (head, body) = response.into_parts();
                    self.head = Some((head.status, head.headers));
                    self.body = Some(body);
                }
            }
        }
        while takes_body && let Some(body) = &mut self.body {
            match body.poll_data(&mut nobody) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(bytes))) => {
                    self.bytes.extend_from_slice(&bytes);
                    let _ = body.flow_control().release_capacity(bytes.len());
                }
                Poll::Ready(Some(Err(error))) => {
                    self.outcome = Some(Err(error.reason().unwrap_or(Code::NO_ERROR)));
                    self.body = None;
                }
                Poll::Ready(None) => {
                    self.outcome = Some(Ok(()));
                    self.body = None;
                }
            }
        }
    }
}
