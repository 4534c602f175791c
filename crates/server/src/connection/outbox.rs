//! A handler's own connections, for example to upstreams: the event loop makes them, and wakes connections for it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

use rustls::client::ClientConnection;

use super::waker_queue::WakerQueue;
use super::{Context, Event, Wait, Want};
use crate::counters::Counter;

/// The state machine of a connection that a handler made; the handler chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineId(pub usize);

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
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
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
    pub fn finish(&mut self, context: &mut Context<'_>) -> u64 {
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
