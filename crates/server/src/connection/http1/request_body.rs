//! Request bodies that no handler reads: discarded before the response, or left unread, which ends the connection.
//!
//! The next request begins where a body ends, and a body with an unclear end makes the whole request malformed. So the
//! body is read first: its head stays at the start of the input, and the body is dropped as it arrives. If the body is
//! over a limit, or the client waits for 100 Continue, the response is sent at once and is the connection's last (RFC
//! 9110, 10.1.1; RFC 9112, 9.3).

use sojourn_http::limits::DRAINED_BODY_BYTES_MAX;
use sojourn_http::request::{BodyReader, Method, Request};

use super::Http1;
use crate::connection::Context;

/// RFC 9110, 15.2.1.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The progress of the body of the request at the start of the input.
#[derive(Debug, Default)]
pub(super) enum Content {
    /// The head is incomplete, or there is no body.
    #[default]
    None,
    /// The body behind the head is being discarded. Boxed because few connections have one.
    Reading { reader: Box<BodyReader>, head_len: usize },
    /// The whole body has been discarded.
    Read,
    /// It stays unread, so no further request can follow.
    Left,
    /// It violates its coding, so its end is unknown.
    Malformed,
}

/// The request's body violates the coding that its head announces.
pub(super) struct Malformed;

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
        let reader = Box::new(BodyReader::new(request.body));
        self.content = Content::Reading { reader, head_len: request.head_len };
        true
    }

    /// Discards the received bytes of the body. Returns true if the request can be answered.
    pub(super) fn read_body(&mut self) -> bool {
        let Content::Reading { reader, head_len } = &mut self.content else { return true };
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
}
