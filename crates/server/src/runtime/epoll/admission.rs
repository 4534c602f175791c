//! Accepts connections, and drains them when the server stops.

use rustix::event::epoll;
use rustix::io::Errno;

use super::client::{Client, Readiness};
use super::{Disk, LISTENERS, Loop};
use crate::connection::{Connection, Event, Reason, Want};
use crate::counters::Counter;
use crate::counters::scoreboard::Permit;
use crate::memory;
use crate::runtime::event_loop::EventLoop;
use crate::runtime::sockets::accept::{Accepted, Acceptor, Arrival};
use crate::runtime::sockets::rounds::ROUND_MAX;
use crate::runtime::timers::drain::Drain;

impl<D: Disk> Loop<'_, D> {
    /// Accepts a round of waiting connections, a small one while fewer may wait than usual.
    pub(super) fn accept(&mut self, listener: usize) {
        let is_overloaded = self.acceptors.get(listener).is_some_and(Acceptor::has_short_queue);
        let size = if is_overloaded {
            self.rounds[listener].next_beside(self.events, self.state.clock.now)
        } else {
            ROUND_MAX
        };
        self.accept_up_to(size, listener);
    }

    /// Accepts at most `count` waiting connections.
    fn accept_up_to(&mut self, count: usize, listener: usize) {
        for _ in 0..count {
            let Some(acceptor) = self.acceptors.get(listener) else { return };
            match acceptor.accept() {
                Accepted::Connection(arrival) => {
                    self.state.served.add(Counter::LimitAcceptWait, acceptor.take_shortened());
                    self.admit(arrival);
                }
                Accepted::Shed => self.state.served.count(Counter::ConnectionsShed),
                Accepted::Failed => self.state.served.count(Counter::AcceptErrors),
                Accepted::Nobody => return,
                Accepted::Exhausted => {
                    self.state.served.count(Counter::AcceptErrors);
                    self.pause_accepting();
                    return;
                }
            }
        }
    }

    /// Serves the new connection immediately, if it is admitted: its request is often there already, and a connection
    /// with a single request never needs epoll.
    fn admit(&mut self, arrival: Arrival) {
        if let Some(permit) = self.state.permit(&arrival) {
            self.add_client(arrival, permit);
        }
    }

    /// Serves a new connection that has a permit or needs none here.
    pub(super) fn add_client(&mut self, Arrival { socket, peer, transport, .. }: Arrival, permit: Permit) {
        let token = self.state.clients.vacant();
        let connection = Connection::new(peer, self.state.site.tls_session(transport));
        let progress = Readiness::of(&connection);
        self.state.add_client(Client::new(socket, connection, permit, progress));
        self.drive_parked(token);
    }

    /// Registers the client's socket with epoll; false if that fails.
    pub(super) fn watch(&mut self, token: u64) -> bool {
        use epoll::EventFlags as F;
        let client = self.state.clients.at(token);
        if !client.progress.is_watched {
            let flags = F::IN | F::OUT | F::RDHUP | F::ET;
            let data = epoll::EventData::new_u64(token);
            client.progress.is_watched = epoll::add(&self.epoll, &client.socket, data, flags).is_ok();
        }
        client.progress.is_watched
    }

    /// Stops waiting for the listeners, because the wait would return at once, over and over.
    fn pause_accepting(&mut self) {
        for acceptor in &self.acceptors {
            let _ = epoll::delete(&self.epoll, acceptor.fd());
        }
        self.accepting_is_paused = true;
    }

    /// Waits for the listeners again, in case descriptors have become free.
    pub(super) fn resume_accepting(&mut self) {
        if !self.accepting_is_paused {
            return;
        }
        self.accepting_is_paused = false;
        for (acceptor, token) in self.acceptors.iter().zip(LISTENERS..) {
            let data = epoll::EventData::new_u64(token);
            let added = epoll::add(&self.epoll, acceptor.fd(), data, epoll::EventFlags::IN);
            // On failure the next tick tries again; EEXIST means that it is registered already.
            self.accepting_is_paused |= !matches!(added, Ok(()) | Err(Errno::EXIST));
        }
    }

    /// Stops listening and starts draining: connections without a request in progress close soon, the others after
    /// their request.
    pub(super) fn begin_drain(&mut self) {
        debug_assert!(self.stop.is_requested(), "woken without a stop");
        let _ = epoll::delete(&self.epoll, self.stop.fd());
        // Connections already in the backlog are served, and a few that come meanwhile. Under overload these come without end.
        for listener in 0..self.acceptors.len() {
            self.accept_up_to(self.acceptors[listener].queued() + ROUND_MAX, listener);
        }
        self.acceptors.clear();
        self.accepting_is_paused = false;
        self.state.drain = Some(Drain::begin(self.state.clock.now, self.state.site));
        for token in self.state.clients.tokens() {
            if let Some(client) = self.state.clients.find(token)
                && matches!(client.progress.parked, Some(Want::Receive(_)))
                && client.connection.has_streams()
            {
                // Its next want decides.
                client.progress.parked = None;
                self.dispatch(token, Event::NothingReceived);
            }
        }
        self.end_drain();
    }

    /// Closes connections without a request in progress.
    fn close_idle(&mut self) {
        for token in self.state.clients.tokens() {
            if let Some(client) = self.state.clients.find(token)
                && matches!(client.progress.parked, Some(Want::Receive(_)))
            {
                // A request may have arrived without an event so far; otherwise the connection parks and closes.
                client.progress.is_readable = true;
                self.drive_parked(token);
            }
        }
    }

    /// Sheds load when memory is short: closes connections without a request in progress, and in a critical shortage
    /// those whose clients keep the server waiting.
    pub(super) fn save_memory(&mut self) {
        if memory::is_short() {
            self.close_idle();
        }
        if memory::is_critical() {
            // Their clients do not keep the server waiting.
            self.send_gathered();
            for token in self.state.stalled() {
                self.close(token, Reason::TimedOut);
            }
            memory::look_again(self.state.site.limits.memory_limit);
        }
    }

    /// Closes idle connections if most of those allowed are open.
    pub(super) fn close_surplus(&mut self) {
        for token in self.state.choose_surplus() {
            // A request may have arrived without an event so far.
            self.state.clients.at(token).progress.is_readable = true;
            self.drive_parked(token);
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
                self.close(token, Reason::TimedOut);
            }
        }
    }
}
