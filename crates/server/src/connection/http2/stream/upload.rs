//! A stream's request body: discarded unless it is forwarded.

use sojourn_http::chunked::{LAST_CHUNK, append_chunk};
use sojourn_http::head;
use sojourn_http::http2::{Connection, Section};
use sojourn_http::limits::DRAINED_BODY_BYTES_MAX;

use super::{Stage, Stream};
use crate::connection::response::CONTINUE;
use crate::connection::{Buffer, Context, Event};

/// A request whose body is arriving.
#[derive(Debug)]
pub(super) struct Upload {
    /// The head, without the fields about the body.
    text: Buffer,
    content_length: Option<u64>,
    /// The client waits for 100 Continue, and was not told to continue.
    expects_continue: bool,
    received: u64,
    /// The start of the body, to be forwarded.
    kept: Vec<u8>,
    is_ended: bool,
}

/// The rest of a body, passed to the machine as it arrives and as fast as it reads; the client's window grows
/// accordingly (backpressure).
#[derive(Debug)]
pub(super) struct Following {
    /// Received, and not passed on: no more than the window.
    pending: Vec<u8>,
    is_chunked: bool,
    is_ended: bool,
}

impl Upload {
    pub(super) fn new(head: &Section, text: Buffer) -> Upload {
        Upload {
            text,
            content_length: head.content_length(),
            expects_continue: head.expects_continue(),
            received: 0,
            kept: Vec::new(),
            is_ended: false,
        }
    }

    /// Returns true if there is something to be forwarded.
    pub(super) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }
}

impl Following {
    /// Returns true if there is something to pass on.
    pub(super) fn has_more(&self) -> bool {
        !self.pending.is_empty() || self.is_ended
    }
}

impl Stream {
    /// Takes a part of the request's body from the client.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        is_end: bool,
        protocol: &mut Connection,
        context: &mut Context<'_>,
    ) {
        match (&mut self.stage, &mut self.following) {
            (Stage::Uploading(upload), _) => {
                upload.received += bytes.len() as u64;
                upload.is_ended |= is_end;
                if context.handler.takes_bodies() {
                    upload.kept.extend_from_slice(bytes);
                }
                protocol.release(self.id, bytes.len());
            }
            (_, Some(following)) => {
                following.pending.extend_from_slice(bytes);
                following.is_ended |= is_end;
            }
            // Nobody reads it. Its window stays shut, but not that of the others.
            _ => protocol.discard(bytes.len()),
        }
    }

    /// Starts the request if enough of its body is there; returns true if it did.
    pub(super) fn upload(&mut self, protocol: &mut Connection, context: &mut Context<'_>) -> bool {
        let Stage::Uploading(upload) = &mut self.stage else { return false };
        // A body that waits for 100 Continue, or is too long to discard, is answered now; the rest is reset with
        // NO_ERROR at the stream's end (RFC 9113, 8.1).
        let passes_on = context.handler.takes_bodies();
        let is_awaited = passes_on || !upload.expects_continue;
        let is_whole = upload.received <= DRAINED_BODY_BYTES_MAX;
        if is_awaited && is_whole && !upload.is_ended {
            let is_to_continue = std::mem::take(&mut upload.expects_continue) && upload.received == 0;
            if is_to_continue
                && protocol.send_response(self.id, CONTINUE, self.is_head, context.heads).is_some()
            {
                self.parts += 1;
            }
            return false;
        }
        // A short body is buffered completely, so that an upstream does not wait for it; a longer one is streamed.
        let length = if is_whole { Some(upload.received) } else { upload.content_length };
        let text = upload.text.space();
        if passes_on {
            // Fields about the body are written anew (RFC 9113, 8.1: no more than what arrived).
            match length {
                Some(0) => {}
                Some(length) => head::content_length(text, length),
                None => head::field(text, "transfer-encoding", "chunked"),
            }
        }
        head::end(text);
        append_part(text, &upload.kept, passes_on && length.is_none());
        if passes_on && !is_whole {
            self.following = Some(Box::new(Following {
                pending: Vec::new(),
                is_chunked: length.is_none(),
                is_ended: upload.is_ended,
            }));
        }
        let text = std::mem::take(&mut upload.text);
        self.happen(Event::Received(text), protocol, context);
        true
    }

    /// Forgets what nobody will read of the request's body; returns its length, by which the window of the connection is to
    /// be enlarged again.
    pub fn discard_upload(&mut self) -> usize {
        self.following.take().map_or(0, |following| following.pending.len())
    }

    /// Passes on the next part of the request's body; returns true if more may be possible at once.
    pub(super) fn follow(&mut self, protocol: &mut Connection, context: &mut Context<'_>) -> bool {
        let Some(following) = &mut self.following else {
            self.fail(protocol);
            return false;
        };
        if !following.has_more() {
            self.stage = Stage::Following;
            return false;
        }
        let mut text = context.pool.take_buffer();
        if !following.pending.is_empty() {
            append_part(text.space(), &following.pending, following.is_chunked);
            protocol.release(self.id, following.pending.len());
            following.pending.clear();
        } else {
            // With a known length the machine reads no more than that.
            if following.is_chunked {
                text.space().extend_from_slice(LAST_CHUNK);
            }
            self.following = None;
        }
        if text.unread().is_empty() {
            context.pool.put_buffer(text);
            self.stage = Stage::Following;
            return true;
        }
        self.happen(Event::Received(text), protocol, context);
        true
    }
}

/// A part of a request's body in HTTP/1 framing.
fn append_part(text: &mut Vec<u8>, part: &[u8], is_chunked: bool) {
    if is_chunked {
        append_chunk(text, part);
    } else {
        text.extend_from_slice(part);
    }
}
