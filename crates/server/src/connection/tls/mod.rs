//! TLS around another protocol: a layer with the same interface on both sides.
//!
//! Inner is HTTP/2 or HTTP/1 for a client, as negotiated by ALPN; for an upstream connection it is the handler's
//! machine. Received bytes are decrypted for the inner connection; its output is encrypted in bounded parts. The kernel cannot
//! encrypt a file while sending it, so files are first read into memory by the architecture's disk. The protocol is
//! rustls's; certificates are in `crate::tls`.
//!
//! A client that speaks plain HTTP gets an answer in clear text. After a failure an alert is sent, and further input is
//! discarded for a while: closing at once would reset the connection, and the alert would be lost.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::client::ClientConnection;
use rustls::{Connection, ServerConfig};
use sojourn_content::Done;

use super::{Buffer, Context, Event, Http1, Launched, Output, Reason, Wait, Want};
use crate::counters::Counter;
use crate::tls::{H2, NewSession};

mod handshake;
mod inner;
mod receive;
mod send;
mod upstream;

use inner::Inner;

#[derive(Debug)]
pub struct TlsConnection {
    session: Connection,
    /// For a client that prefers ChaCha20; `None` once the first bytes have arrived.
    client_order: Option<Arc<ServerConfig>>,
    peer: IpAddr,
    state: State,
    /// The buffer into which the inner connection wants to receive.
    receiving: Buffer,
    /// True if it holds bytes that the inner connection has not seen.
    has_plaintext: bool,
    /// The inner connection's output being sent.
    sending: Option<Output>,
    /// How much of it is encrypted in what is being sent, or was given back.
    encrypted_bytes: usize,
    /// What the socket has not accepted yet, after the inner connection got its output back.
    unsent: Option<Output>,
    /// The next part of a file in the output, once it has been read.
    chunk: Option<Arc<[u8]>>,
    operation: Operation,
    /// Why the connection is closed once the output is sent.
    closing: Option<Reason>,
    /// `close_notify` has not been sent yet.
    owes_close_notify: bool,
    /// What TLS has to send is tickets alone, which leave together with the first output.
    holds_tickets: bool,
    /// The other side has closed.
    is_ended: bool,
    /// Received bytes of which the inner connection has seen nothing yet.
    undelivered_bytes: usize,
    /// The inner connection polls for input, or has stopped waiting: it must be told if nothing has arrived.
    is_polling: bool,
    /// How often the inner connection received something.
    deliveries: u32,
}

#[derive(Debug)]
enum State {
    /// The machine that will run inside an upstream connection; for a client the protocol is negotiated.
    Handshake(Option<Launched>),
    Open(Inner),
    /// The client does not speak TLS and gets an answer in clear text.
    Clear(Http1),
}

/// Work of the driver for this layer itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Nothing,
    Sending,
    /// Reading a part of a file.
    Loading,
    /// Discarding input; counts the bytes.
    Discarding(u64),
}

impl TlsConnection {
    /// A connection just accepted from `peer`.
    pub fn new(peer: IpAddr, NewSession { session, client_order }: NewSession) -> TlsConnection {
        let connection = TlsConnection::with(peer, session.into(), State::Handshake(None));
        TlsConnection { client_order: Some(client_order), ..connection }
    }

    /// A connection to be made for a handler's `machine`.
    pub fn launched(session: ClientConnection, machine: Launched) -> TlsConnection {
        let nobody = Ipv4Addr::UNSPECIFIED.into();
        TlsConnection::with(nobody, session.into(), State::Handshake(Some(machine)))
    }

    fn with(peer: IpAddr, session: Connection, state: State) -> TlsConnection {
        TlsConnection {
            session: unbounded(session),
            client_order: None,
            peer,
            state,
            receiving: Buffer::default(),
            has_plaintext: false,
            sending: None,
            encrypted_bytes: 0,
            unsent: None,
            chunk: None,
            operation: Operation::Nothing,
            closing: None,
            owes_close_notify: true,
            holds_tickets: false,
            is_ended: false,
            undelivered_bytes: 0,
            is_polling: false,
            deliveries: 0,
        }
    }

    pub fn start(&self) -> Want {
        Want::Receive(Buffer::default())
    }

    /// Handles an event and returns the next want.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        if let State::Clear(http) = &mut self.state {
            return http.handle(event, context);
        }
        if self.is_to_upstream()
            && let Some(event) = self.failure(&event)
        {
            return self.abort(event, context);
        }
        let operation = self.operation;
        match (event, operation) {
            (Event::Woken, _) if matches!(self.state, State::Handshake(_)) => self.begin(context),
            (Event::Received(buffer), Operation::Discarding(discarded)) => {
                self.discard(buffer, discarded, context)
            }
            (Event::Received(buffer), _) => self.received(buffer, context),
            (Event::Ended, Operation::Discarding(_)) => Want::Close(Reason::Failed),
            (Event::Ended, _) => {
                self.is_ended = true;
                self.owes_close_notify = false;
                self.advance(context)
            }
            (Event::Sent(output), _) => self.sent(output, context),
            (Event::Done(Done::Loaded(loaded)), Operation::Loading) => {
                self.operation = Operation::Nothing;
                match loaded {
                    Ok(chunk) => {
                        self.chunk = chunk;
                        self.send_part(context)
                    }
                    Err(_) => Want::Close(Reason::Failed),
                }
            }
            // The head may have been sent already.
            (Event::Refused, Operation::Loading) => Want::Close(Reason::Failed),
            (Event::Expired, Operation::Discarding(_)) => Want::Close(Reason::Failed),
            (Event::Expired, Operation::Sending) if self.waits_for() == Wait::Tunnel => {
                // A part of a record may have left: close_notify would be no record.
                self.owes_close_notify = false;
                self.forward(Event::Expired, context)
            }
            (Event::Expired, Operation::Sending) => Want::Close(Reason::TimedOut),
            // Too late for outcomes that the inner connection has delegated.
            (Event::Delivered(..) | Event::Woken, _) if self.closing.is_some() => Want::Wait,
            // The server is stopping, which changes nothing here.
            (Event::NothingReceived, Operation::Discarding(_)) => Want::Receive(Buffer::default()),
            // close_notify is lost; everything before it was sent.
            (Event::Failed, _) => Want::Close(self.closing.unwrap_or(Reason::Failed)),
            (event, _) if matches!(self.state, State::Open(_)) => self.forward(event, context),
            _ => Want::Close(Reason::TimedOut),
        }
    }

    pub fn waits_for(&self) -> Wait {
        match (self.operation, &self.state) {
            (_, State::Clear(http)) => http.waits_for(),
            (_, State::Handshake(Some(_))) => Wait::UpstreamConnect,
            (_, State::Open(Inner::Launched(machine))) => machine.waits_for(),
            (Operation::Sending, State::Open(inner)) => match inner.waits_for() {
                // Both directions of a tunnel have the same timeout, and what is sent between two requests buys no time.
                wait @ (Wait::Tunnel | Wait::Quiet(_)) => wait,
                _ => Wait::Client,
            },
            (Operation::Sending, _) => Wait::Client,
            (Operation::Loading, _) => Wait::Disk,
            (Operation::Discarding(_), _) => Wait::End,
            (Operation::Nothing, State::Handshake(None)) if self.undelivered_bytes == 0 => Wait::Request,
            (Operation::Nothing, State::Handshake(None)) => Wait::Head(0),
            (Operation::Nothing, State::Open(inner)) => match inner.waits_for() {
                // A part of a TLS record is part of a request, unless other frames may come for ever. The inner connection
                // counts requests upwards from 0, this downwards.
                Wait::Request if self.undelivered_bytes > 0 => Wait::Head(!self.deliveries),
                wait => wait,
            },
        }
    }

    /// The share of body bytes among the bytes sent since the last call, before encryption.
    pub fn body_fraction(&mut self) -> f64 {
        match &mut self.state {
            State::Open(inner) => inner.body_fraction(),
            _ => 1.0,
        }
    }

    /// Returns true if the inner connection multiplexes requests.
    pub fn has_streams(&self) -> bool {
        matches!(&self.state, State::Open(inner) if inner.has_streams())
    }

    /// Called before the connection is dropped: ends whatever it has started.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        match &mut self.state {
            State::Handshake(Some(machine)) => {
                context.served.count(Counter::UpstreamTlsHandshakesFailed);
                machine.finish(context);
            }
            State::Handshake(None) if self.undelivered_bytes == 0 => {}
            State::Handshake(None) => context.served.count(Counter::TlsHandshakesFailed),
            State::Open(inner) => inner.finish(context),
            State::Clear(http) => http.finish(context),
        }
        context.pool.put_buffer(std::mem::take(&mut self.receiving));
        for output in [self.sending.take(), self.unsent.take()].into_iter().flatten() {
            context.pool.put(output.bytes);
        }
    }

    /// Continues after all output has been sent, or was given back.
    fn sent(&mut self, output: Output, context: &mut Context<'_>) -> Want {
        self.operation = Operation::Nothing;
        if self.closing.is_none() && self.sending.is_some() && !output.is_sent() {
            self.unsent = Some(output);
            let sending = self.sending.take().expect("only what the inner connection sends is given back");
            return self.forward(Event::Sent(sending), context);
        }
        context.pool.put(output.bytes);
        match (self.closing, &mut self.state, self.sending.take()) {
            (Some(_), ..) if output.is_last => {
                self.operation = Operation::Discarding(0);
                Want::Receive(Buffer::default())
            }
            (Some(reason), ..) => Want::Close(reason),
            (None, _, Some(mut sending)) => {
                sending.sent += std::mem::take(&mut self.encrypted_bytes);
                self.sending = Some(sending);
                self.send_on(context)
            }
            (None, _, None) => {
                // The inner connection could not be told meanwhile that the server is stopping.
                self.is_polling |= context.is_draining && self.has_streams();
                self.advance(context)
            }
        }
    }

    /// Continues after a receive: with the handshake, or with what has been decrypted for the inner connection.
    fn advance(&mut self, context: &mut Context<'_>) -> Want {
        if matches!(self.state, State::Handshake(_)) {
            if self.session.is_handshaking() {
                return self.continue_handshake(context);
            }
            self.open(context);
            if self.is_to_upstream() {
                // The upstream connection is established: the inner connection can start.
                return self.forward(Event::Woken, context);
            }
        }
        if self.is_polling && !self.has_plaintext && !self.is_ended {
            return self.forward(Event::NothingReceived, context);
        }
        let receiving = std::mem::take(&mut self.receiving);
        self.fulfil(Want::Receive(receiving), context)
    }

    /// Passes an event to the inner connection and performs its wants.
    fn forward(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        let want = self.inner_want(event, context);
        self.fulfil(want, context)
    }

    fn inner_want(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        // A delivered job or a wake-up does not answer what the inner connection wants from the client.
        self.is_polling &= matches!(event, Event::Delivered(..) | Event::Woken);
        let State::Open(inner) = &mut self.state else { unreachable!("only the inner wants") };
        inner.handle(event, context)
    }

    /// Performs a want of the inner connection as far as this layer can.
    fn fulfil(&mut self, mut want: Want, context: &mut Context<'_>) -> Want {
        loop {
            let event = match want {
                Want::Receive(buffer) if self.session.wants_write() && !self.holds_tickets => {
                    self.receiving = buffer;
                    return self.flush(context);
                }
                Want::Receive(buffer) => match self.receive(buffer, context) {
                    Some(event) => event,
                    None => return Want::Receive(Buffer::default()),
                },
                Want::Look(buffer) => match self.receive(buffer, context) {
                    Some(event) => event,
                    None => {
                        self.is_polling = true;
                        return Want::Look(Buffer::default());
                    }
                },
                Want::CancelReceive => {
                    self.is_polling = true;
                    // While this layer sends something of its own, there is nothing to cancel.
                    let is_own = self.operation == Operation::Sending && self.sending.is_none();
                    return if is_own { Want::Wait } else { Want::CancelReceive };
                }
                Want::Send(output) => {
                    self.sending = Some(output);
                    return self.begin_sending(context);
                }
                Want::Close(reason) => return self.close(reason, context),
                // All other wants need no client, and therefore no TLS.
                want => return want,
            };
            want = self.inner_want(event, context);
        }
    }
}

/// The session without a limit of its own: this layer bounds what it is given.
fn unbounded(mut session: Connection) -> Connection {
    session.set_buffer_limit(None);
    session
}

#[cfg(test)]
mod tests;
