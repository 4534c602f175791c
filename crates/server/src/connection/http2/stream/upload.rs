//! A stream's request body: discarded unless it is forwarded.

use std::task::{self, Poll, Waker};

use h2::RecvStream;
use http::request::Parts;
use sojourn_http::limits::DRAINED_BODY_BYTES_MAX;

use super::super::head;
use super::{End, Stage, Stream};
use crate::connection::{Context, Event};

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A request whose body is arriving.
#[derive(Debug)]
pub(super) struct Upload {
    request: Parts,
    body: RecvStream,
    received: u64,
    /// The start of the body, to be forwarded.
    kept: Vec<u8>,
}

/// The rest of a body, passed to the machine as it arrives and as fast as it reads; the client's window grows
/// accordingly (backpressure).
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
    /// Reads the request's body to discard or forward it; returns true if the request could be answered then.
    pub(super) fn upload(&mut self, mut upload: Box<Upload>, context: &mut Context<'_>) -> bool {
        let mut nobody = task::Context::from_waker(Waker::noop());
        // A body that waits for 100 Continue, or is too long to discard, is answered now; the rest is reset with
        // NO_ERROR at the stream's end (RFC 9113, 8.1).
        let passes_on = context.handler.takes_bodies();
        let is_awaited = passes_on || !head::waits_for_continue(&upload.request);
        while is_awaited && upload.received <= DRAINED_BODY_BYTES_MAX {
            match upload.body.poll_data(&mut nobody) {
                Poll::Ready(Some(Ok(bytes))) => {
                    upload.received += bytes.len() as u64;
                    if passes_on {
                        upload.kept.extend_from_slice(&bytes);
                    }
                    // Fails if the stream has ended, which the next poll reports.
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
        // A short body is buffered completely, so that an upstream does not wait for it; a longer one is streamed.
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

    /// Passes on the next part of the request's body; returns true if more may be possible at once.
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
                // Fails if the stream has ended, which the next poll reports.
                let _ = following.body.flow_control().release_capacity(bytes.len());
            }
            Poll::Ready(None) => {
                // With a known length the machine reads no more than that.
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
