//! The seam to handlers: a connection gives a [`Handler`] the heads and bodies of requests and the events
//! that they wait for; the handler gives heads and bodies to send.
//!
//! The connection keeps framing, keep-alive, pipelining, limits and the log, and knows no handler; a handler
//! does not know which version of HTTP carries a request. A handler keeps its own state of a request, under
//! an [`ExchangeId`]. A request that cannot be answered at once stays in the connection's input buffer and is
//! read once more when the handler can go on: so an answer from memory needs no state, and waiting needs no
//! copy of the request.
//!
//! A handler may make connections of its own, to upstreams for instance. What is spoken on them it keeps too, under a
//! [`MachineId`]; an [`Outbox`] tells the event loop of them.

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

/// A request that a handler has under way. The handler chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeId(pub usize);

/// A connection machine of a handler's own. The handler chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineId(pub usize);

/// Answers the requests of one event loop or worker. Only [`begin`](Handler::begin) is required; the other methods are
/// for handlers that wait, stream bodies, take request bodies or make connections.
pub trait Handler: Debug + Send {
    /// Answers `request`, or says what has to happen first.
    fn begin(&mut self, request: &Request<'_>, response: &mut Response<'_, '_>) -> Step;

    /// The same once the exchange can go on; its number is free again.
    fn resume(
        &mut self,
        exchange: ExchangeId,
        news: News,
        request: &Request<'_>,
        response: &mut Response<'_, '_>,
    ) -> Step {
        let _ = (exchange, news);
        self.begin(request, response)
    }

    /// Returns true if it wants the bodies of requests. Otherwise they are thrown away, up to a limit, before
    /// [`begin`](Handler::begin).
    fn takes_bodies(&self) -> bool {
        false
    }

    /// Takes more of the request's body.
    fn upload(&mut self, _exchange: ExchangeId, _bytes: &[u8], _shared: &mut Shared<'_>) {}

    /// The request's body is complete.
    fn end_upload(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) {}

    /// How an exchange that waits is getting on: asked whenever its connection is woken or has given it a part of the
    /// request's body.
    fn progress(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) -> Progress {
        Progress::Ready
    }

    /// Appends the heads of interim responses (1xx) that have come for an exchange that waits.
    fn interim(&mut self, _exchange: ExchangeId, _heads: &mut Vec<u8>, _shared: &mut Shared<'_>) {}

    /// Gives the next piece of the response's body.
    fn body(
        &mut self,
        _exchange: ExchangeId,
        _news: News,
        _body: &mut BodyWriter<'_>,
        _shared: &mut Shared<'_>,
    ) -> BodyStep {
        BodyStep::End
    }

    /// The exchange is over: its body is sent, or its client is gone.
    fn finish(&mut self, _exchange: ExchangeId, _shared: &mut Shared<'_>) {}

    /// Tells one of its own machines of an event; it says what it wants next and what it waits for.
    fn drive(&mut self, _machine: MachineId, _event: Event, _shared: &mut Shared<'_>) -> (Want, Wait) {
        unreachable!("a handler without connections has no machines")
    }

    /// A machine's connection is about to be forgotten. Returns the bytes that an upgraded connection has given its client.
    fn end(&mut self, _machine: MachineId, _shared: &mut Shared<'_>) -> u64 {
        0
    }

    /// Connections to make and to wake, for handlers that have such.
    fn outbox(&mut self) -> Option<&mut Outbox> {
        None
    }

    /// Returns true if anything is under way besides clients' connections.
    fn is_busy(&self) -> bool {
        false
    }

    /// A moment has passed, and perhaps somebody has waited long enough.
    fn tick(&mut self, _shared: &mut Shared<'_>) {}

    /// Writes what it counts itself to the table.
    fn report(&self, _now: Duration, _served: &mut Served) {}
}

/// How far a handler came with a request.
#[derive(Debug)]
pub enum Step {
    /// Head and body are written.
    Answered,
    /// The head is written, this is the body.
    AnsweredWith(Piece),
    /// The head is written, the [body](Handler::body) follows piece by piece.
    Body(ExchangeId),
    /// A document must be opened first.
    Open(ExchangeId, Opening),
    /// A small body must be loaded first.
    Load(ExchangeId, FileRange),
    /// The connection will be woken. Meanwhile the handler is given the request's body.
    Wait(ExchangeId),
    /// Earlier responses must be sent before this request may wait: then [`Handler::begin`] is called again.
    Flush,
    /// The head is written; from then on the connection speaks no HTTP, and this machine has it.
    Upgrade(MachineId),
}

/// An event for an exchange.
#[derive(Debug)]
pub enum News {
    /// It was woken, or all that was written is sent.
    Woken,
    /// The result of [`Step::Open`], [`Step::Load`] or [`BodyStep::Load`].
    Done(Done),
    /// The queue of disk jobs is full.
    Refused,
}

/// How an exchange that waits is getting on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// [`Handler::resume`] is to be called.
    Ready,
    /// [`Handler::interim`] is to be called, and progress asked for again when its heads are sent.
    Interim,
    Pending {
        /// More of the request's body may come.
        takes_body: bool,
        /// The client may be told to send the body (100 Continue).
        wants_body: bool,
    },
}

/// The next step of a response's body.
#[derive(Debug)]
pub enum BodyStep {
    /// Send the written bytes, then this piece.
    Send {
        piece: Option<Piece>,
        is_last: bool,
        /// Bytes from here to the end of the range, if holding back partial segments until then may pay.
        remaining: Option<u64>,
    },
    Load(FileRange),
    /// Send the written bytes. The connection will be woken for more.
    Wait,
    /// The body is complete.
    End,
    /// The rest cannot be had: the client must not take what it has for the whole.
    Broken,
}

/// Takes small pieces of a body, which are copied, and frames them.
#[derive(Debug)]
pub struct BodyWriter<'a> {
    pub(super) output: &'a mut Vec<u8>,
    pub(super) framing: &'a mut super::http1::Framing,
    /// Bytes of the body written since the last output was sent.
    pub(super) bytes: &'a mut u64,
}

impl BodyWriter<'_> {
    pub fn append(&mut self, part: &[u8]) {
        self.framing.begin_part(part.len(), self.output);
        self.output.extend_from_slice(part);
        *self.bytes += part.len() as u64;
    }

    /// Returns false once enough is gathered for one send.
    pub fn has_room(&self) -> bool {
        self.output.len() < super::http1::OUTPUT_BYTES_MAX
    }
}

/// A connection to be made for a handler's machine, which is woken first.
#[derive(Debug)]
pub struct Launch {
    pub to: Destination,
    pub machine: Launched,
    pub tls: Option<Box<ClientConnection>>,
}

/// Where a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Internet(SocketAddr),
    /// A socket in the file system.
    Unix(Arc<Path>),
}

/// The socket of a new connection.
#[derive(Debug)]
pub enum Destination {
    Address(Address),
    /// That of the connection behind this token too: one receives on it while the other sends.
    Beside(u64),
    Socket(OwnedFd),
}

/// A machine of a handler's own, as its connection holds it.
#[derive(Debug)]
pub struct Launched {
    machine: MachineId,
    wait: Wait,
    sent: Counter,
}

impl Launched {
    /// A machine that waits so before anything has happened, and whose sent bytes `sent` counts.
    pub fn new(machine: MachineId, wait: Wait, sent: Counter) -> Launched {
        Launched { machine, wait, sent }
    }

    /// Takes an event and returns the next want.
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

    /// It is about to be forgotten. Returns the bytes that an upgraded connection has given its client.
    pub fn finish(&mut self, context: &mut super::Context<'_>) -> u64 {
        context.handler.end(self.machine, &mut context.shared)
    }
}

/// A handler's requests to the event loop: connections to make, connections to wake.
#[derive(Debug)]
pub struct Outbox {
    launches: Vec<Launch>,
    wakes: Vec<u64>,
    /// Connections made from here that are open.
    open: usize,
    queue: Arc<WakerQueue>,
    /// The waker of the connection that asked for one last.
    waker: Option<(u64, Waker)>,
}

impl Outbox {
    /// An empty one.
    ///
    /// # Errors
    /// If there is no descriptor for the queue of wakers.
    pub fn new() -> io::Result<Outbox> {
        let queue = WakerQueue::new()?;
        Ok(Outbox { launches: Vec::new(), wakes: Vec::new(), open: 0, queue, waker: None })
    }

    pub fn launch(&mut self, launch: Launch) {
        self.open += 1;
        self.launches.push(launch);
    }

    /// A connection that was launched is over.
    pub fn forget(&mut self) {
        self.open -= 1;
    }

    /// Wakes the connection behind `token` in the next loop iteration. It may be gone by then.
    pub fn wake(&mut self, token: u64) {
        if self.wakes.last() != Some(&token) {
            self.wakes.push(token);
        }
    }

    pub fn wake_all(&mut self, tokens: impl IntoIterator<Item = u64>) {
        tokens.into_iter().for_each(|token| self.wake(token));
    }

    /// Wakes the connection behind `token` from any thread.
    pub fn waker(&mut self, token: u64) -> Waker {
        let (queue, known) = (&self.queue, self.waker.take().filter(|(known, _)| *known == token));
        let (_, waker) = self.waker.insert(known.unwrap_or_else(|| (token, queue.waker(token))));
        waker.clone()
    }

    /// Readable when other threads have connections to [wake](Outbox::collect).
    pub fn waker_fd(&self) -> BorrowedFd<'_> {
        self.queue.fd()
    }

    /// Takes over what other threads have put into the queue.
    pub fn collect(&mut self) {
        self.wakes.append(&mut self.queue.take());
    }

    /// Returns true if there is anything for the event loop to do.
    pub fn has_work(&self) -> bool {
        !self.launches.is_empty() || !self.wakes.is_empty()
    }

    /// Connections to make, then connections to wake.
    pub fn take(&mut self) -> (Vec<Launch>, Vec<u64>) {
        (std::mem::take(&mut self.launches), std::mem::take(&mut self.wakes))
    }

    /// Connections made from here that are open: all of the loop's that are no clients'.
    pub fn open(&self) -> usize {
        self.open
    }
}

/// An output of bytes alone.
impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Output {
        Output { bytes, ..Output::default() }
    }
}
