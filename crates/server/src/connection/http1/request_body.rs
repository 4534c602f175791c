//! Request bodies: passed to the handler as they arrive, or, if it reads none, discarded before the response, or left
//! unread, which ends the connection.
//!
//! The next request begins where a body ends, and a body with an unclear end makes the whole request malformed. So the
//! body is read first: its head stays at the start of the input, and the body is dropped as it arrives. If the body is
//! over a limit, or the client waits for 100 Continue, the response is sent at once and is the connection's last (RFC
//! 9110, 10.1.1; RFC 9112, 9.3).

use sojourn_http::limits::DRAINED_BODY_BYTES_MAX;
use sojourn_http::request::{BodyReader, Method, Request};

use super::{Http1, State, Upload, Waiting};
use crate::connection::response::CONTINUE;
use crate::connection::{Buffer, Context, Progress, Want};

/// The progress of the body of the request at the start of the input.
#[derive(Debug, Default)]
pub(super) enum Content {
    /// The head is incomplete, or there is no body.
    #[default]
    None,
    /// The body behind the head is being discarded. Boxed because few connections have one.
    Reading(Box<Discarded>),
    /// The whole body has been discarded.
    Read,
    /// It stays unread, so no further request can follow.
    Left,
    /// It violates its coding, so its end is unknown.
    Malformed,
}

#[derive(Debug)]
pub(super) struct Discarded {
    reader: BodyReader,
    /// The length of the head, after which the body starts in the input.
    head_len: usize,
}

/// The request's body violates the coding that its head announces.
pub(super) struct Malformed;

impl Upload {
    /// The whole body of `request`, whose head is at the start of the input.
    pub fn of(request: &Request<'_>) -> Upload {
        Upload {
            reader: BodyReader::new(request.body),
            head_len: request.head_len,
            is_continued: !request.expects_continue,
            is_receiving: false,
        }
    }
}

impl Http1 {
    /// Starts with the body of `request`, whose head is the first of `received` bytes. Returns true if the body must be
    /// read before the response.
    pub(super) fn begin_body(
        &mut self,
        request: &Request<'_>,
        received: usize,
        context: &mut Context<'_>,
    ) -> bool {
        let is_served = matches!(request.method, Method::Get | Method::Head | Method::Options);
        let is_long = request.body.length().is_some_and(|length| length > DRAINED_BODY_BYTES_MAX);
        if is_long || (request.expects_continue && !is_served) {
            self.content = Content::Left;
            return false;
        }
        if request.expects_continue && received == request.head_len {
            if self.responses.output.capacity() == 0 {
                self.responses.output = context.pool.take();
            }
            self.responses.output.extend_from_slice(CONTINUE);
        }
        let reader = BodyReader::new(request.body);
        self.content = Content::Reading(Box::new(Discarded { reader, head_len: request.head_len }));
        true
    }

    /// Discards the received bytes of the body. Returns true if the request can be answered.
    pub(super) fn read_body(&mut self) -> bool {
        let Content::Reading(discarded) = &mut self.content else { return true };
        let Discarded { reader, head_len } = &mut **discarded;
        let arrived = &self.input.unread()[*head_len..];
        let allowed = (DRAINED_BODY_BYTES_MAX - reader.wire_bytes()) as usize;
        let Ok(count) = reader.read(&arrived[..arrived.len().min(allowed)], |_| {}) else {
            self.content = Content::Malformed;
            return true;
        };
        self.input.remove(*head_len, count);
        if reader.is_done() {
            self.content = Content::Read;
        } else if reader.wire_bytes() == DRAINED_BODY_BYTES_MAX {
            self.content = Content::Left;
        } else {
            return false;
        }
        true
    }

    /// Passes received bytes of the request's body to the handler.
    pub(super) fn pass_upload(&mut self, context: &mut Context<'_>) -> Result<(), Malformed> {
        let (State::Waiting(Waiting { exchange, .. }) | State::Sending(exchange, _)) = &self.state else {
            return Ok(());
        };
        let (Some(upload), Context { handler, shared }) = (&mut self.upload, context) else { return Ok(()) };
        let arrived = &self.input.unread()[upload.head_len..];
        let count = upload.reader.read(arrived, |part| handler.upload(*exchange, part, shared));
        self.input.remove(upload.head_len, count.map_err(|_| Malformed)?);
        if upload.reader.is_done() {
            handler.end_upload(*exchange, shared);
            self.upload = None;
        }
        Ok(())
    }

    /// Receives more of the request's body, if there is more and the handler takes it; otherwise waits.
    pub(super) fn receive_upload(&mut self, context: &mut Context<'_>) -> Want {
        let (State::Waiting(Waiting { exchange, .. }) | State::Sending(exchange, _)) = &self.state else {
            return Want::Wait;
        };
        let (Some(upload), Context { handler, shared }) = (&mut self.upload, context) else {
            return Want::Wait;
        };
        upload.is_receiving = handler.takes_upload(*exchange, shared);
        if !upload.is_receiving {
            return Want::Wait;
        }
        if self.input.unread().is_empty() {
            shared.pool.put_buffer(std::mem::take(&mut self.input));
        }
        // What has arrived stays in place, whether or not receiving is cancelled.
        Want::Receive(Buffer::for_body())
    }

    /// Receives no more for now if the handler can continue otherwise.
    pub(super) fn end_receiving(&mut self, context: &mut Context<'_>) -> Want {
        let Context { handler, shared } = context;
        let can_continue = match &self.state {
            State::Waiting(waiting) => match handler.progress(waiting.exchange, shared) {
                Progress::Ready | Progress::Interim => true,
                Progress::Pending { wants_body } => {
                    wants_body && self.upload.as_ref().is_some_and(|upload| !upload.is_continued)
                }
            },
            State::Sending(exchange, _) => handler.has_body(*exchange, shared),
            _ => false,
        };
        if let Some(upload) = &mut self.upload {
            upload.is_receiving = true;
        }
        if can_continue { Want::CancelReceive } else { Want::Wait }
    }
}
