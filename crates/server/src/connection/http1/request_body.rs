//! Request bodies: read and discarded before the response, or left unread, which ends the connection.
//!
//! Most handlers have no use for bodies, but the next request begins where this one's body ends, and a body
//! whose end is in doubt makes the whole request malformed. So the body comes first: its head stays at the
//! start of the input, and the body is dropped as it arrives. Over a limit, or where the client asks before
//! it sends a body that would not be read, the answer comes at once and is the last (RFC 9110, 10.1.1; RFC
//! 9112, 9.3).

use sojourn_http::limits::DRAINED_BODY_BYTES_MAX;
use sojourn_http::request::{BodyReader, Method, Request};

use super::Http1;
use crate::connection::Context;

/// RFC 9110, 15.2.1.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How far the body of the request at the start of the input has come.
#[derive(Debug, Default)]
pub(super) enum Content {
    /// The head is not whole yet, or says that there is no body.
    #[default]
    None,
    /// It is being thrown away, from behind the head on. Boxed, for few connections ever have one.
    Reading { reader: Box<BodyReader>, head_len: usize },
    /// All of it is thrown away.
    Read,
    /// It stays on the wire, so that nothing can follow it.
    Left,
    /// The coding is not the announced one, so the end of the body is unknown.
    Malformed,
}

/// A request's body is not in the coding that its head announces.
pub(super) struct Malformed;

impl Http1 {
    /// Begins with the body of `request`, whose head is the first of `received` bytes. Answers whether it has to be
    /// read before the answer.
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
            if self.output.capacity() == 0 {
                self.output = context.pool.take();
            }
            self.output.extend_from_slice(CONTINUE);
        }
        let reader = Box::new(BodyReader::new(request.body));
        self.content = Content::Reading { reader, head_len: request.head_len };
        true
    }

    /// Throws away what has arrived of the body. Answers whether the request can be answered.
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
