//! Accepts connections, and drains them when the server stops.
//!
//! One multishot operation accepts connections until an error ends it, usually because descriptors run out. Then the
//! ring only polls the listener, and connections are accepted by system calls, with the reserved descriptor if
//! necessary, until descriptors are available again.
//!
//! The multishot operation accepts whoever waits, however many. Under overload all would wait here instead of in the kernel,
//! where the accept queue bounds them. So after a rush connections are accepted by system calls, too, in rounds of as many as
//! are served in a short time, until nobody waits and the queue is as long as usual.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use io_uring::{opcode, types};
use rustix::io::Errno;
use rustix::net::getpeername;

use super::Ring;
use super::client::{Client, Interruption, Operation, Pending};
use super::queue::{Completion, Purpose};
use crate::connection::{Connection, Reason};
use crate::counters::Counter;
use crate::counters::scoreboard::Permit;
use crate::limits::Limits;
use crate::memory;
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::accept::{self, Accepted, Acceptor, Arrival};
use crate::runtime::sockets::rounds::{ROUND_MAX, Rounds};
use crate::runtime::timers::drain::Drain;

/// If the multishot operation has accepted more connections in one iteration, rounds begin.
const RUSH: usize = 16;

/// A listening socket of the ring; its index is the token of its operations.
pub struct RingListener {
    /// `None` once the server is stopping.
    acceptor: Option<Acceptor>,
    accepting: Accepting,
    rounds: Rounds,
}

/// How the ring accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepting {
    Multishot,
    /// By system calls, once the listener is readable.
    Poll,
    /// Paused until the next tick: not even a refusal has a descriptor.
    Paused,
}

impl RingListener {
    /// A listener that does not accept yet.
    pub fn new(listener: Listener, limits: &Limits) -> io::Result<RingListener> {
        let acceptor = Acceptor::new(listener, limits.accept_wait)?;
        let rounds = Rounds::default();
        Ok(RingListener { acceptor: Some(acceptor), accepting: Accepting::Multishot, rounds })
    }

    pub fn is_closed(&self) -> bool {
        self.acceptor.is_none()
    }

    /// Returns true while fewer connections may wait than usual.
    pub fn has_short_queue(&self) -> bool {
        self.acceptor.as_ref().is_some_and(Acceptor::has_short_queue)
    }

    /// Returns true if accepting is paused until the next tick.
    pub fn is_paused(&self) -> bool {
        self.accepting == Accepting::Paused
    }
}

impl Ring<'_> {
    /// Starts accepting, unless the server is stopping.
    pub(super) fn accept(&mut self, listener: usize, how: Accepting) {
        let RingListener { acceptor: Some(acceptor), accepting, .. } = &mut self.listeners[listener] else {
            return;
        };
        *accepting = how;
        let socket = types::Fd(acceptor.fd().as_raw_fd());
        let (operation, purpose) = match how {
            Accepting::Multishot => {
                let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
                (opcode::AcceptMulti::new(socket).flags(flags).build(), Purpose::Accept)
            }
            Accepting::Poll => {
                (opcode::PollAdd::new(socket, libc::POLLIN as u32).build(), Purpose::ListenerReady)
            }
            Accepting::Paused => return,
        };
        // SAFETY: neither operation points to memory.
        unsafe { self.queue.push(operation, purpose, listener as u64) };
    }

    /// The ring has accepted a connection, and `after` it as many whose completions follow, or failed.
    pub(super) fn accepted(&mut self, completion: &Completion, after: usize) {
        let listener = completion.token as usize;
        let next = match completion.result {
            Ok(socket) => {
                // SAFETY: a new descriptor that is used nowhere else.
                let socket = unsafe { OwnedFd::from_raw_fd(socket as i32) };
                let peer = self.peer(&socket);
                if let Some(acceptor) = &self.listeners[listener].acceptor {
                    let transport = acceptor.transport();
                    acceptor.accepted(&socket);
                    self.state.served.add(Counter::LimitAcceptWait, acceptor.take_shortened());
                    self.admit(Arrival { socket, peer, transport, permit: Permit::default() });
                }
                if after >= RUSH && self.listeners[listener].accepting == Accepting::Multishot {
                    self.begin_rounds(listener);
                }
                self.listeners[listener].accepting
            }
            Err(Errno::MFILE | Errno::NFILE) => self.accept_round(listener),
            Err(Errno::CANCELED | Errno::AGAIN | Errno::INTR) => self.listeners[listener].accepting,
            Err(error) => {
                self.state.served.count(Counter::AcceptErrors);
                let is_short = matches!(error, Errno::NOBUFS | Errno::NOMEM);
                if is_short { Accepting::Paused } else { Accepting::Multishot }
            }
        };
        if !completion.has_more() {
            self.accept_next(listener, next);
        }
    }

    /// Connections wait, but there may be no descriptors for them, or more than can be served soon.
    pub(super) fn listener_ready(&mut self, completion: &Completion) {
        let listener = completion.token as usize;
        let next = self.accept_round(listener);
        self.accept_next(listener, next);
    }

    fn accept_next(&mut self, listener: usize, next: Accepting) {
        if self.state.drain.is_some() { self.end_accepting(listener) } else { self.accept(listener, next) }
    }

    /// Leaves those who still wait to the kernel's queue: ends the multishot operation, whose last completion starts polling.
    fn begin_rounds(&mut self, listener: usize) {
        let RingListener { accepting, rounds, .. } = &mut self.listeners[listener];
        *accepting = Accepting::Poll;
        *rounds = Rounds::begin(self.state.clock.now);
        self.queue.cancel(Purpose::Accept, listener as u64);
    }

    /// Accepts a round of waiting connections by system calls; returns how to go on.
    fn accept_round(&mut self, listener: usize) -> Accepting {
        let is_overloaded = self.listeners[listener].has_short_queue();
        let (rounds, now) = (&mut self.listeners[listener].rounds, self.state.clock.now);
        let size = if is_overloaded { rounds.next_beside(self.completions, now) } else { rounds.next(now) };
        self.accept_up_to(size, listener)
    }

    /// Accepts at most `count` waiting connections by system calls; returns how to go on.
    fn accept_up_to(&mut self, count: usize, listener: usize) -> Accepting {
        let mut next = Accepting::Poll;
        for _ in 0..count {
            let Some(acceptor) = &self.listeners[listener].acceptor else { return next };
            match acceptor.accept() {
                Accepted::Connection(arrival) => {
                    self.state.served.add(Counter::LimitAcceptWait, acceptor.take_shortened());
                    self.admit(arrival);
                    next = Accepting::Multishot;
                }
                Accepted::Shed => {
                    self.state.served.count(Counter::ConnectionsShed);
                    next = Accepting::Poll;
                }
                Accepted::Failed => self.state.served.count(Counter::AcceptErrors),
                // Soon many may wait again.
                Accepted::Nobody if acceptor.has_short_queue() => return Accepting::Poll,
                Accepted::Nobody => return next,
                Accepted::Exhausted => {
                    self.state.served.count(Counter::AcceptErrors);
                    return Accepting::Paused;
                }
            }
        }
        Accepting::Poll
    }

    fn admit(&mut self, arrival: Arrival) {
        let Some(permit) = self.state.permit(&arrival) else { return };
        let Arrival { socket, peer, transport, .. } = arrival;
        let token = self.state.clients.vacant();
        let connection = Connection::new(peer, self.state.site.tls_session(transport));
        let want = connection.start();
        self.state.add_client(Client::new(socket, connection, permit, Pending::default()));
        self.drive(token, want);
    }

    /// The client's address. Only the log, a limit and upstreams need it, and it costs a system call.
    fn peer(&self, socket: &OwnedFd) -> IpAddr {
        let is_needed = self.state.site.log.is_some()
            || self.state.site.limits.connections_per_address.is_some()
            || self.state.site.content.makes_connections();
        let known = is_needed.then(|| getpeername(socket).ok().flatten()).flatten();
        known.map_or(Ipv4Addr::UNSPECIFIED.into(), accept::address)
    }

    /// Accepts again, in case descriptors have become free.
    pub(super) fn resume_accepting(&mut self) {
        for listener in 0..self.listeners.len() {
            if self.listeners[listener].is_paused() {
                self.accept(listener, Accepting::Poll);
            }
        }
    }

    /// Stops listening and starts draining: connections without a request in progress close soon, the others after
    /// their request.
    pub(super) fn begin_drain(&mut self) {
        self.state.drain = Some(Drain::begin(self.state.clock.now, self.state.site));
        for listener in 0..self.listeners.len() {
            match self.listeners[listener].accepting {
                Accepting::Multishot => self.queue.cancel(Purpose::Accept, listener as u64),
                Accepting::Poll => self.queue.cancel(Purpose::ListenerReady, listener as u64),
                Accepting::Paused => self.end_accepting(listener),
            }
        }
        for token in self.state.clients.tokens() {
            let client = self.state.clients.at(token);
            if matches!(client.progress.operation, Operation::Receiving(_)) && client.connection.has_streams()
            {
                // Its next want decides.
                self.cancel_operation(token);
            }
        }
        self.end_drain();
    }

    /// Closes connections without a request in progress, unless one has just arrived.
    fn close_idle(&mut self) {
        for token in self.state.clients.tokens() {
            let client = self.state.clients.at(token);
            let is_idle = matches!(client.progress.operation, Operation::Receiving(_))
                && client.connection.waits_for().is_idle();
            if is_idle && client.progress.interruption.is_none() {
                self.interrupt(token, Interruption::Drained);
            }
        }
    }

    /// Accepts the connections already in the backlog and a few that come meanwhile, then closes the listener. Under overload
    /// these come without end.
    fn end_accepting(&mut self, listener: usize) {
        let waiting = self.listeners[listener].acceptor.as_ref().map_or(0, Acceptor::queued);
        self.accept_up_to(waiting + ROUND_MAX, listener);
        self.listeners[listener].acceptor = None;
    }

    /// Memory is short: connections without a request in progress close, and if it runs out, those whose clients keep the
    /// server waiting.
    pub(super) fn save_memory(&mut self) {
        if memory::is_short() {
            self.close_idle();
        }
        if memory::is_critical() {
            for token in self.state.stalled() {
                self.interrupt(token, Interruption::Closed(Reason::TimedOut));
            }
        }
    }

    /// Closes idle connections if most of those allowed are open, unless a request has just arrived.
    pub(super) fn close_surplus(&mut self) {
        for token in self.state.choose_surplus() {
            let progress = &self.state.clients.at(token).progress;
            if matches!(progress.operation, Operation::Receiving(_)) && progress.interruption.is_none() {
                self.interrupt(token, Interruption::Drained);
            }
        }
    }

    /// Closes the remaining connections when the drain timeout has passed.
    pub(super) fn end_drain(&mut self) {
        let Some(drain) = self.state.drain else { return };
        if drain.is_over_for_idle(self.state.clock.now) {
            self.close_idle();
        }
        if drain.is_over(self.state.clock.now) {
            for token in self.state.clients.tokens() {
                self.interrupt(token, Interruption::Closed(Reason::TimedOut));
            }
        }
    }
}
