//! The handshake, until the inner protocol is known, and the answer to clients that do not speak TLS.

use rustls::{HandshakeKind, ProtocolVersion};
use sojourn_http::Status;

use super::super::{Application, Buffer, Context, Http1, Http2, Reason, Want};
use super::{H2, Inner, State, TlsConnection};
use crate::counters::Counter;

impl TlsConnection {
    pub(super) fn continue_handshake(&mut self, context: &mut Context<'_>) -> Want {
        if self.session.wants_write() {
            return self.flush(context);
        }
        if self.is_ended { Want::Close(Reason::Finished) } else { Want::Receive(Buffer::default()) }
    }

    /// Completes the handshake. Its last flight may include a first request.
    pub(super) fn open(&mut self, context: &mut Context<'_>) {
        let (handshakes, resumed) = match self.state {
            State::Handshake(Some(_)) => {
                (Counter::UpstreamTlsHandshakes, Counter::UpstreamTlsHandshakesResumed)
            }
            _ => (Counter::TlsHandshakes, Counter::TlsHandshakesResumed),
        };
        context.served.count(handshakes);
        if self.session.handshake_kind() == Some(HandshakeKind::Resumed) {
            context.served.count(resumed);
        }
        self.undelivered_bytes = 0;
        // With TLS 1.3, what a server says behind the client's last flight is tickets alone.
        self.holds_tickets =
            !self.is_to_upstream() && self.session.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let State::Handshake(machine) = &mut self.state else { unreachable!("it is opened once") };
        self.state = State::Open(match (machine.take(), self.session.alpn_protocol()) {
            (Some(machine), _) => Inner::Launched(machine),
            (None, Some(H2)) => Inner::Client(Application::Http2(Box::new(Http2::new(self.peer, true)))),
            (None, _) => Inner::Client(Application::new(self.peer, true)),
        });
    }

    /// Answers 400 in clear text to a client that speaks plain HTTP.
    pub(super) fn reject_connection(&mut self, context: &mut Context<'_>) -> Want {
        context.served.count(Counter::TlsHandshakesFailed);
        let mut http = Http1::new(self.peer, false);
        let want = http.reject_connection(Status::BadRequest, context);
        self.state = State::Clear(http);
        want
    }
}
