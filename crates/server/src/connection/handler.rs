//! The interface of handlers: a connection passes request heads, bodies and events to a [`Handler`], which returns
//! response heads and bodies.
//!
//! The connection does framing, keep-alive, pipelining, limits and the access log, and knows no handler; a handler does
//! not know which version of HTTP is used. A handler keeps its own state of a request under an [`ExchangeId`]. A
//! request that cannot be answered at once stays in the connection's input buffer and is parsed again when the handler
//! can continue. So an immediate response needs no state, and waiting needs no copy of the request.
//!
//! A handler may make connections of its own, for example to upstreams. It keeps their protocol state under a
//! [`MachineId`], and asks the event loop for them through an [`Outbox`].

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use rustls::client::ClientConnection;
use sojourn_content::{Done, FileRange, Opening};
use sojourn_http::request::Request;

use super::waker_queue::WakerQueue;
use super::{Event, Output, Piece, Response, Shared, Wait, Want};
use crate::counters::{Counter, Served};

/// A request in progress; the handler chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeId(pub usize);

/// The state machine of a connection that a handler made; the handler chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineId(pub usize);

/// Answers the requests of one event loop or worker thread. Only [`begin`](Handler::begin) is required; the other
/// methods are for handlers that wait, stream bodies, take request bodies or make connections.
pub trait Handler: Debug + Send {
    /// Answers `request`, or says what must happen first.
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step;

    /// Continues a request after the event it waited for. Its exchange ID is free again.
    fn resume(
        &mut self,
        exchange: ExchangeId,
        event: ExchangeEvent,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let _ = (exchange, event);
        self.begin(request, response)
    }

    /// Returns true if the handler reads request bodies. Otherwise they are discarded, up to a limit, before
    /// [`begin`](Handler::begin).
    fn takes_bodies(&self) -> bool {
        false
    }

    /// Receives the next part of the request's body.
    fn upload(&mut self, _exchange: ExchangeId, _bytes: &[u8], _shared: &mut Shared<'_>) {}

    /// The request's body is complete.
    fn end_upload(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) {}

    /// The state of a waiting exchange; called when its connection was woken or has passed on a part of the request's
    /// body.
    fn progress(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) -> Progress {
        Progress::Ready
    }

    /// Appends the heads of interim responses (1xx) for a waiting exchange.
    fn interim(&mut self, _exchange: ExchangeId, _heads: &mut Vec<u8>, _shared: &mut Shared<'_>) {}

    /// Returns the next step of the response's body.
    fn body(
        &mut self,
        _exchange: ExchangeId,
        _event: ExchangeEvent,
        _body: &mut BodyWriter<'_>,
        _shared: &mut Shared<'_>,
    ) -> BodyStep {
        BodyStep::End
    }

    /// Ends an exchange: its body was sent, or its client has left.
    fn finish(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) {}

    /// Passes an event to one of its own connections. Returns the next want, and what that waits for.
    fn drive(&mut self, _machine: MachineId, _event: Event, _shared: &mut Shared<'_>) -> (Want, Wait) {
        unreachable!("a handler without connections has no machines")
    }

    /// Called before one of its connections is dropped. Returns the number of bytes sent to the client, for the log of
    /// an upgraded connection.
    fn end(&mut self, _machine: MachineId, _shared: &mut Shared<'_>) -> u64 {
        0
    }

    /// Connections to make and wake; `None` for handlers that make none.
    fn outbox(&mut self) -> Option<&mut Outbox> {
        None
    }

    /// Returns true if the handler has work in progress besides clients' requests.
    fn is_busy(&self) -> bool {
        false
    }

    /// Called regularly, to time out whatever has waited too long.
    fn tick(&mut self, _shared: &mut Shared<'_>) {}

    /// Adds the handler's own counters to the table.
    fn report(&self, _now: Duration, _served: &mut Served) {}
}

/// What `begin` and `resume` return.
#[derive(Debug)]
pub enum Step {
    /// Head and body have been written.
    Answered,
    /// The head has been written; this is the body.
    AnsweredWith(Piece),
    /// The head has been written; call [`body`](Handler::body) for the pieces of the body.
    Body(ExchangeId),
    /// Open a document first.
    Open(ExchangeId, Opening),
    /// Load a small body first.
    Load(ExchangeId, FileRange),
    /// Wait until the connection is woken. Meanwhile the handler receives the request's body.
    Wait(ExchangeId),
    /// Send earlier responses first, then call [`Handler::begin`] again, because this request will wait.
    Flush,
    /// The head has been written; afterwards this machine owns the connection, which no longer speaks HTTP.
    Upgrade(MachineId),
}

/// The event for which an exchange waited.
#[derive(Debug)]
pub enum ExchangeEvent {
    /// It was woken, or everything written has been sent.
    Woken,
    /// The outcome of [`Step::Open`], [`Step::Load`] or [`BodyStep::Load`].
    Done(Done),
    Refused,
}

/// The state of a waiting exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Call [`Handler::resume`].
    Ready,
    /// Call [`Handler::interim`], send its heads, then ask for progress again.
    Interim,
    Pending {
        /// More of the request's body may be passed on.
        takes_body: bool,
        /// The client may be told to send the body (100 Continue).
        wants_body: bool,
    },
}

/// The next step of a response's body.
#[derive(Debug)]
pub enum BodyStep {
    /// Send the bytes written, then this piece.
    Send {
        piece: Option<Piece>,
        is_last: bool,
        /// Bytes from here to the end of the range, if it may pay to cork the socket until then.
        remaining: Option<u64>,
    },
    Load(FileRange),
    /// Send the bytes written; the connection will be woken for more.
    Wait,
    End,
    /// The rest is unavailable: the connection is closed, so that the client notices that the body is incomplete.
    Broken,
}

/// Copies small pieces of a body into the output and frames them.
#[derive(Debug)]
pub struct BodyWriter<'a> {
    pub(super) output: &'a mut Vec<u8>,
    pub(super) framing: &'a mut super::http1::Framing,
    /// Body bytes written since the last send.
    pub(super) bytes: &'a mut u64,
}

impl BodyWriter<'_> {
    pub fn append(&mut self, part: &[u8]) {
        self.framing.begin_part(part.len(), self.output);
        self.output.extend_from_slice(part);
        *self.bytes += part.len() as u64;
    }

    /// Returns false once enough has been gathered for one send.
    pub fn has_room(&self) -> bool {
        self.output.len() < super::http1::OUTPUT_BYTES_MAX
    }
}

/// A connection to make for a handler's machine, which is woken first.
#[derive(Debug)]
pub struct Launch {
    pub to: Destination,
    pub machine: Launched,
    pub tls: Option<Box<ClientConnection>>,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Internet(SocketAddr),
    /// A Unix domain socket.
    Unix(Arc<Path>),
}

/// How a new connection gets its socket.
#[derive(Debug)]
pub enum Destination {
    Address(Address),
    /// Shares the socket of the connection with this token, so that one receives while the other sends.
    Beside(u64),
    Socket(OwnedFd),
}

/// The connection of a handler's own machine.
#[derive(Debug)]
pub struct Launched {
    machine: MachineId,
    wait: Wait,
    sent: Counter,
}

impl Launched {
    /// `wait` is what the machine waits for at first; `sent` counts the bytes sent on it.
    pub fn new(machine: MachineId, wait: Wait, sent: Counter) -> Launched {
        Launched { machine, wait, sent }
    }

    /// Handles an event and returns the next want.
    pub fn handle(&mut self, event: Event, context: &mut super::Context<'_>) -> Want {
        let (want, wait) = context.handler.drive(self.machine, event, &mut context.shared);
        self.wait = wait;
        want
    }

    pub fn waits_for(&self) -> Wait {
        self.wait
    }

    pub fn sent(&self) -> Counter {
        self.sent
    }

    /// Called before the connection is dropped. Returns the bytes sent to the client of an upgraded connection.
    pub fn finish(&mut self, context: &mut super::Context<'_>) -> u64 {
        context.handler.end(self.machine, &mut context.shared)
    }
}

/// A handler's requests to the event loop: connections to make and connections to wake.
#[derive(Debug)]
pub struct Outbox {
    launches: Vec<Launch>,
    wakes: Vec<u64>,
    spare: Vec<u64>,
    /// The number of open connections that this handler made.
    open: usize,
    queue: Arc<WakerQueue>,
    /// The waker of the connection that asked for one last.
    waker: Option<(u64, Waker)>,
}

impl Outbox {
    /// An empty outbox.
    ///
    /// # Errors
    /// If there is no descriptor for the queue of wakers.
    pub fn new() -> io::Result<Outbox> {
        let queue = WakerQueue::new()?;
        Ok(Outbox { launches: Vec::new(), wakes: Vec::new(), spare: Vec::new(), open: 0, queue, waker: None })
    }

    pub fn launch(&mut self, launch: Launch) {
        self.open += 1;
        self.launches.push(launch);
    }

    /// Records that a launched connection has ended.
    pub fn forget(&mut self) {
        self.open -= 1;
    }

    /// Wakes the connection with this token in the next loop iteration, if it still exists.
    pub fn wake(&mut self, token: u64) {
        if self.wakes.last() != Some(&token) {
            self.wakes.push(token);
        }
    }

    pub fn wake_all(&mut self, tokens: impl IntoIterator<Item = u64>) {
        tokens.into_iter().for_each(|token| self.wake(token));
    }

    /// A waker for the connection with this token, usable from any thread.
    pub fn waker(&mut self, token: u64) -> Waker {
        let (queue, known) = (&self.queue, self.waker.take().filter(|(known, _)| *known == token));
        let (_, waker) = self.waker.insert(known.unwrap_or_else(|| (token, queue.waker(token))));
        waker.clone()
    }

    /// Readable when other threads have queued connections to [wake](Outbox::collect).
    pub fn waker_fd(&self) -> BorrowedFd<'_> {
        self.queue.fd()
    }

    /// Takes over the wake-ups queued by other threads.
    pub fn collect(&mut self) {
        self.wakes.append(&mut self.queue.take());
    }

    /// Returns true if the event loop has something to do.
    pub fn has_work(&self) -> bool {
        !self.launches.is_empty() || !self.wakes.is_empty()
    }

    /// Returns connections to make, and connections to wake; give the latter's memory [back](Outbox::give_back).
    pub fn take(&mut self) -> (Vec<Launch>, Vec<u64>) {
        let wakes = std::mem::replace(&mut self.wakes, std::mem::take(&mut self.spare));
        (std::mem::take(&mut self.launches), wakes)
    }

    /// Takes memory for the next wakes: nearly every iteration has some.
    pub fn give_back(&mut self, mut wakes: Vec<u64>) {
        wakes.clear();
        self.spare = wakes;
    }

    /// The number of open connections made by this handler.
    pub fn open(&self) -> usize {
        self.open
    }
}

/// Output of bytes only.
impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Output {
        Output { bytes, ..Output::default() }
    }
}
