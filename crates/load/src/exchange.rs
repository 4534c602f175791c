//! The life of a connection: open, send, receive, close, and what each can fail with.
//!
//! Sockets are watched edge-triggered, so a wait reports each arrival once and costs no re-arming. The
//! time of an arrival is the time the wait returned: the bytes were there by then, and what the generator
//! takes to reach them is not the server's doing.

use std::os::fd::AsRawFd;

use rustix::{
    event::epoll::{self, EventData, EventFlags},
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};
use sojourn_measure::{Nanos, clock};

use crate::{
    Cause,
    connection::{Connection, Exchange, State},
    connector,
    reception::{Progress, Reception, Response},
    run::Run,
};

/// Bodies longer than this, beyond what came with the head, are thrown away inside the kernel.
const DISCARD_BYTES_MIN: u64 = 4096;

const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
const ARRIVALS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// The memory of event data: a connection's key below, its serial above.
pub fn event_data(key: usize, serial: u32) -> EventData {
    EventData::new_u64(u64::from(serial) << 32 | key as u64)
}

enum Received {
    Waiting,
    Complete(Response, Nanos),
    Failed(Cause),
}

impl Run<'_> {
    /// Opens a connection for a client. If its errand has begun, the request is tried at once: on a short
    /// way the handshake is done by then, and a wait is saved.
    pub(crate) fn open(&mut self, key: usize) {
        let opened = clock::now();
        let (socket, source) = match self.connector.open() {
            Ok(open) => open,
            Err(cause) => return self.fail_client(key, cause, opened),
        };
        self.ledger.totals.connections_opened += 1;
        self.ledger.totals.connections_open.up(opened);
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let connection = self.connections.insert(Connection {
            socket,
            serial,
            owner: Some(key),
            state: State::Connecting,
            opened,
            source,
            closed_by_server: false,
            answered: 0,
            exchange: Exchange::default(),
            reception: Reception::default(),
        });
        self.clients[key].connection = Some(connection);
        let begun = self.clients[key].errand.is_some_and(|errand| errand.acted > Nanos::ZERO);
        if begun {
            self.send(connection, clock::now());
        }
        let Some(Connection { socket, serial: current, state, .. }) = self.connections.get(connection) else {
            return;
        };
        if *current != serial {
            return; // it failed at once, and the client has opened another
        }
        let writable = if *state == State::Receiving { EventFlags::empty() } else { EventFlags::OUT };
        let added = epoll::add(&self.epoll, socket, event_data(connection, serial), ARRIVALS | writable);
        if let Err(error) = added {
            self.fail(connection, connector::cause(error), opened);
        }
    }

    /// Sends the errand of a connection's client from its first byte on.
    pub(crate) fn send(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.connections[key];
        let Some(errand) = connection.owner.and_then(|owner| self.clients[owner].errand) else { return };
        connection.reception.reset();
        connection.exchange = Exchange { errand, sent: now, first_byte: None };
        self.send_rest(key, 0, now);
    }

    fn send_rest(&mut self, key: usize, from: usize, now: Nanos) {
        let connection = &mut self.connections[key];
        let request = &self.catalogue.request(connection.exchange.errand.document)[from..];
        match send(&connection.socket, request, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                if connection.state == State::Connecting {
                    let step = connection.exchange.errand.step;
                    self.ledger.connected(step, connection.opened, now);
                }
                let whole = sent == request.len();
                connection.state = if whole { State::Receiving } else { State::Sending(from + sent) };
            }
            // Not yet connected, or no room: the socket will report when it is writable.
            Err(Errno::AGAIN) => {}
            Err(error) => self.fail_or_retry(key, connector::cause(error), now),
        }
    }

    /// Something happened on a socket, at `at` or before.
    pub(crate) fn on_event(&mut self, key: usize, serial: u32, flags: EventFlags, at: Nanos) {
        let Some(connection) = self.connections.get(key).filter(|connection| connection.serial == serial)
        else {
            return;
        };
        let (state, ended) = (connection.state, flags.intersects(ENDED));
        match state {
            State::Connecting => self.on_connected(key, ended, at),
            State::Sending(from) if !ended => self.send_rest(key, from, at),
            State::Receiving | State::Sending(_) if ended || flags.contains(EventFlags::IN) => {
                self.receive(key, ended, at);
            }
            State::Idle if ended || self.has_unsolicited(key) => self.lose(key),
            State::Lingering if ended => self.close(key),
            _ => {}
        }
    }

    fn on_connected(&mut self, key: usize, ended: bool, at: Nanos) {
        let connection = &mut self.connections[key];
        if ended && let Some(error) = connector::socket_error(&connection.socket) {
            let cause = connector::cause(error);
            return self.fail(key, if cause == Cause::Reset { Cause::ConnectRefused } else { cause }, at);
        }
        let Some(owner) = connection.owner else { return };
        connection.state = State::Idle;
        let errand = self.clients[owner].errand;
        self.ledger.connected(errand.and_then(|errand| errand.step), connection.opened, at);
        if errand.is_some_and(|errand| errand.acted > Nanos::ZERO) {
            self.send(key, clock::now());
        }
    }

    fn receive(&mut self, key: usize, ended: bool, at: Nanos) {
        match self.receive_available(key, ended, at) {
            Received::Waiting => {}
            Received::Complete(response, at) => self.complete(key, &response, ended, at),
            Received::Failed(cause) => self.fail_or_retry(key, cause, at),
        }
    }

    /// Takes what has arrived. A short read means that there is no more, and saves asking.
    fn receive_available(&mut self, key: usize, ended: bool, at: Nanos) -> Received {
        let Connection { socket, reception, exchange, .. } = &mut self.connections[key];
        let mut time = at;
        loop {
            let discardable = reception.discardable().filter(|&bytes| bytes >= DISCARD_BYTES_MIN);
            let asked = discardable.map_or(self.buffer.len() as u64, |bytes| bytes.min(1 << 30));
            let result = match discardable {
                Some(_) => discard(socket.as_raw_fd(), asked as usize),
                None => recv(&*socket, &mut self.buffer[..], RecvFlags::empty()).map(|(count, _)| count),
            };
            let received = match result {
                Ok(0) => {
                    return match reception.end() {
                        Ok(response) => Received::Complete(response, time),
                        Err(cause) => Received::Failed(cause),
                    };
                }
                Ok(received) => received,
                Err(Errno::AGAIN) => return Received::Waiting,
                Err(Errno::INTR) => continue,
                Err(error) => return Received::Failed(connector::cause(error)),
            };
            exchange.first_byte.get_or_insert(time);
            self.ledger.totals.received_bytes += received as u64;
            let progress = match discardable {
                Some(_) => Ok(reception.discarded(received as u64)),
                None => reception.feed(&self.buffer[..received]),
            };
            match progress {
                Ok(Progress::More) if (received as u64) < asked && !ended => return Received::Waiting,
                Ok(Progress::More) => time = clock::now(),
                Ok(Progress::Complete(response)) => return Received::Complete(response, time),
                Err(cause) => return Received::Failed(cause),
            }
        }
    }

    fn complete(&mut self, key: usize, response: &Response, ended: bool, at: Nanos) {
        let connection = &mut self.connections[key];
        let failure = self.ledger.answer(&connection.exchange, response, at, &mut self.catalogue);
        self.refused_since = None;
        connection.answered += 1;
        let answered = connection.answered;
        let Some(owner) = connection.owner else { return };
        connection.state = State::Idle;
        let reusable = response.keep_alive && self.may_reuse(answered);
        if reusable && ended {
            self.lose(key);
        } else if !reusable {
            self.part(key, owner, !ended && !response.keep_alive, at);
        }
        self.advance(owner, at, failure);
    }

    /// Separates a connection from its client. A server that said it closes is left to close first, as
    /// browsers do: whoever closes first keeps the port in TIME_WAIT.
    fn part(&mut self, key: usize, owner: usize, server_closes: bool, at: Nanos) {
        self.clients[owner].connection = None;
        if server_closes {
            let connection = &mut self.connections[key];
            connection.owner = None;
            connection.state = State::Lingering;
            connection.exchange.sent = at;
        } else {
            self.close(key);
        }
    }

    /// A failure of a connection that had served before, ahead of any byte of an answer, most likely met a
    /// server that had just closed it for idleness: the request is tried once more, as browsers do.
    fn fail_or_retry(&mut self, key: usize, cause: Cause, at: Nanos) {
        let connection = &mut self.connections[key];
        let stale = matches!(cause, Cause::Reset | Cause::ClosedEarly)
            && connection.answered > 0
            && !connection.reception.has_begun();
        match connection.owner {
            Some(owner) if stale && !connection.exchange.errand.retried => {
                if let Some(errand) = &mut self.clients[owner].errand {
                    errand.retried = true;
                }
                self.lose(key);
                self.open(owner);
            }
            _ => self.fail(key, cause, at),
        }
    }

    /// Gives up a connection and the errand that was on it.
    pub(crate) fn fail(&mut self, key: usize, cause: Cause, at: Nanos) {
        let owner = self.connections[key].owner;
        self.close(key);
        if let Some(owner) = owner {
            self.clients[owner].connection = None;
            self.fail_client(owner, cause, at);
        }
    }

    fn fail_client(&mut self, key: usize, cause: Cause, at: Nanos) {
        if cause == Cause::ConnectRefused {
            self.refused_since.get_or_insert(at);
        }
        match self.clients[key].errand {
            Some(errand) if errand.acted > Nanos::ZERO => {
                self.ledger.fail(&errand, cause, at);
                self.advance(key, at, Some(cause));
            }
            // Nothing was under way: it connects again when its request is due.
            _ => {}
        }
    }

    /// The server closed a connection between requests: the next one opens another.
    fn lose(&mut self, key: usize) {
        if let Some(owner) = self.connections[key].owner {
            self.clients[owner].connection = None;
        }
        self.ledger.totals.reconnects += 1;
        self.close(key);
    }

    fn has_unsolicited(&mut self, key: usize) -> bool {
        let received = recv(&self.connections[key].socket, &mut self.buffer[..], RecvFlags::empty());
        !matches!(received, Err(Errno::AGAIN | Errno::INTR))
    }

    /// Closes a connection, the normal way.
    pub(crate) fn close(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        self.connector.closed(connection.source, connection.closed_by_server);
        self.ledger.totals.connections_open.down(clock::now());
    }
}

/// Receives up to `bytes` bytes and throws them away: tcp(7), MSG_TRUNC. Nothing is copied.
fn discard(socket: i32, bytes: usize) -> Result<usize, Errno> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, so that none is needed.
    let received = unsafe { libc::recv(socket, std::ptr::null_mut(), bytes, libc::MSG_TRUNC) };
    usize::try_from(received).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}
