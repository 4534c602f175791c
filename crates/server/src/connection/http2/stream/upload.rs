//! The request of a stream: its body, to be thrown away unless it is to be passed on.

use std::task::{self, Poll, Waker};

use h2::RecvStream;
use http::request::Parts;
use sojourn_http::limits::DRAINED_BODY_BYTES_MAX;

use super::super::head;
use super::{End, Stage, Stream};
use crate::connection::{Context, Event};

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A request whose body is coming.
#[derive(Debug)]
pub(super) struct Upload {
    request: Parts,
    body: RecvStream,
    received: u64,
    /// The beginning of the body to forward.
    kept: Vec<u8>,
}

/// The rest of a body, which the machine gets as it comes and as it takes it: the client's window is opened no further.
#[derive(Debug)]
pub(super) struct Following {
    body: RecvStream,
    is_chunked: bool,
}

impl Upload {
    pub(super) fn new(request: Parts, body: RecvStream) -> Upload {
        Upload { request, body, received: 0, kept: Vec::new() }
    }
}

impl Stream {
    /// Takes the request's body, to throw it away or to pass it on; returns whether the request could be answered then.
    pub(super) fn upload(&mut self, mut upload: Box<Upload>, context: &mut Context<'_>) -> bool {
        let mut nobody = task::Context::from_waker(Waker::noop());
        // A body that is held back until it is asked for, or is too long to be thrown away, gets its answer now; what
        // still comes of it is reset without blame when the stream ends (RFC 9113, 8.1).
        let passes_on = context.handler.takes_bodies();
        let is_awaited = passes_on || !head::waits_for_continue(&upload.request);
        while is_awaited && upload.received <= DRAINED_BODY_BYTES_MAX {
            match upload.body.poll_data(&mut nobody) {
                Poll::Ready(Some(Ok(bytes))) => {
                    upload.received += bytes.len() as u64;
                    if passes_on {
                        upload.kept.extend_from_slice(&bytes);
                    }
                    // It fails when the stream is gone, which the next poll tells.
                    let _ = upload.body.flow_control().release_capacity(bytes.len());
                }
                Poll::Ready(Some(Err(_))) => {
                    self.finish_as(End::Cancelled);
                    return false;
                }
                Poll::Ready(None) => break,
                Poll::Pending => {
                    self.stage = Stage::Uploading(upload);
                    return false;
                }
            }
        }
        let mut text = context.pool.take_buffer();
        // A short body is held whole, so that an upstream does not wait for it; a longer one follows as it comes.
        let is_whole = upload.received <= DRAINED_BODY_BYTES_MAX;
        let length = if is_whole { Some(upload.received) } else { head::content_length(&upload.request) };
        let beginning = head::Beginning { bytes: &upload.kept, length };
        head::append_request(text.space(), &upload.request, passes_on.then_some(beginning));
        if passes_on && !is_whole {
            self.following = Some(Box::new(Following { body: upload.body, is_chunked: length.is_none() }));
        }
        self.happen(Event::Received(text), context);
        true
    }

    /// Gives the machine what comes next of the request's body; returns whether there may be more to do at once.
    pub(super) fn follow(&mut self, context: &mut Context<'_>) -> bool {
        let Some(following) = &mut self.following else {
            self.fail();
            return false;
        };
        let mut text = context.pool.take_buffer();
        match following.body.poll_data(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                context.pool.put_buffer(text);
                self.stage = Stage::Following;
                return false;
            }
            Poll::Ready(Some(Err(_))) => {
                context.pool.put_buffer(text);
                self.finish_as(End::Cancelled);
                return false;
            }
            Poll::Ready(Some(Ok(bytes))) => {
                head::append_part(text.space(), &bytes, following.is_chunked);
                // It fails when the stream is gone, which the next poll tells.
                let _ = following.body.flow_control().release_capacity(bytes.len());
            }
            Poll::Ready(None) => {
                // Of a known length the machine has asked for no more than there is.
                if following.is_chunked {
                    text.space().extend_from_slice(LAST_CHUNK);
                }
                self.following = None;
            }
        }
        if text.unread().is_empty() {
            context.pool.put_buffer(text);
            self.stage = Stage::Following;
            return true;
        }
        self.happen(Event::Received(text), context);
        true
    }
}
