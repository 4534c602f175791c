//! The request of a stream: its body comes first, to be thrown away unless it is to be passed on.

use std::task::{self, Poll, Waker};

use h2::RecvStream;
use http::request::Parts;
use sojourn_http::Status;
use sojourn_http::limits::DRAINED_BODY_BYTES_MAX;

use super::super::head;
use super::{End, Stage, Stream};
use crate::connection::{Context, Event};

/// A request whose body is coming.
#[derive(Debug)]
pub(super) struct Upload {
    request: Parts,
    body: RecvStream,
    received: u64,
    /// The body to forward.
    kept: Vec<u8>,
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
        // A forwarded body is held whole, so its length is limited; an incomplete one is not forwarded.
        let is_too_long = passes_on && upload.received > DRAINED_BODY_BYTES_MAX;
        if is_too_long {
            context.pool.put_buffer(text);
            let want = self.machine.turn_away(Status::ContentTooLarge, context);
            self.pursue(want, context);
            return true;
        }
        head::append_request(text.space(), &upload.request, passes_on.then_some(&upload.kept));
        self.happen(Event::Received(text), context);
        true
    }
}
