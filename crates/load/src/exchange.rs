//! The life of a connection: open, send, receive, close, and what each can fail with.
//!
//! Sockets are watched edge-triggered, so a wait reports each arrival once and costs no re-arming. The
//! time of an arrival is the time the wait returned: the bytes were there by then, and what the generator
//! takes to reach them is not the server's doing.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    event::epoll::{self, EventData, EventFlags},
    io::Errno,
    net::{RecvFlags, recv},
};
use sojourn_measure::{Nanos, clock};

use crate::{
    Cause, Connections,
    connection::{Connection, Exchange, State},
    connector,
    reader::Reader,
    reception::{Progress, Reception, Response},
    run::{BUFFER_BYTES, Run},
    secured::{Secured, Trouble},
    stamped,
};

/// Bodies longer than this, beyond what came with the head, are thrown away inside the kernel.
pub(crate) const DISCARD_BYTES_MIN: u64 = 4096;
/// The most that is thrown away at once.
const DISCARD_BYTES_MAX: u64 = 1 << 30;
/// Reads of one connection before others have their turn: a server that never stops sending holds up none.
const READS_MAX: usize = 16;

const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
const ARRIVALS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// The memory of event data: a connection's key below, its serial above.
pub fn event_data(key: usize, serial: u32) -> EventData {
    EventData::new_u64(u64::from(serial) << 32 | key as u64)
}

/// Whether a connection has more to read now.
enum Next {
    Read,
    Wait,
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
        let established = clock::now();
        let secured = match self.tls.as_ref().map(|tls| tls.session()).transpose() {
            Ok(session) => session.map(|session| Box::new(Secured::new(session, established))),
            Err(cause) => {
                self.connector.closed(source, false);
                return self.fail_client(key, cause, opened);
            }
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
            requests_max: match self.plan_connections {
                Connections::KeepAlive => u32::MAX,
                Connections::Close => 1,
                Connections::Requests(count) => count.draw(&mut self.random),
            },
            exchange: Exchange::default(),
            piped: VecDeque::new(),
            unsent: Vec::new(),
            reception: Reception::new(self.catalogue.verifies()),
            secured,
            reader: self.transport.read_bytes_per_second.map(Reader::new),
        });
        self.clients[key].connection = Some(connection);
        let begun = self.clients[key].errand.is_some_and(|errand| errand.acted > Nanos::ZERO);
        if self.tls.is_some() {
            self.shake(connection, established);
        } else if begun {
            self.send(connection, clock::now());
        }
        // It may have failed at once, and the client have opened another.
        let live = self.connections.get(connection).filter(|live| live.serial == serial);
        let Some(Connection { socket, state, .. }) = live else { return };
        let is_written = matches!(state, State::Receiving | State::Shaking);
        let writable = if is_written { EventFlags::empty() } else { EventFlags::OUT };
        let added = epoll::add(&self.epoll, socket, event_data(connection, serial), ARRIVALS | writable);
        if let Err(error) = added {
            self.fail(connection, connector::cause(error), opened);
        }
    }

    /// Sends the errand of a connection's client, and with it what may go together with it.
    pub(crate) fn send(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.connections[key];
        let Some(errand) = connection.owner.and_then(|owner| self.clients[owner].errand) else { return };
        connection.reception.reset(self.catalogue.is_bodiless(errand.document));
        connection.exchange = Exchange { errand, sent: now, first_byte: None };
        if self.transport.pipeline > 1 && connection.state == State::Idle {
            return self.send_together(key, now);
        }
        let request = self.catalogue.request(errand.document);
        match connection.transmit(request) {
            Ok(sent) => {
                if sent < request.len() {
                    connection.unsent.extend_from_slice(&request[sent..]);
                }
                self.sent(key, now);
            }
            // Not yet connected: the socket will report when it is writable.
            Err(Errno::AGAIN) => {}
            Err(error) => self.fail_or_retry(key, connector::cause(error), now),
        }
    }

    /// Sends a connection's first exchange and those beside it in one piece.
    fn send_together(&mut self, key: usize, now: Nanos) {
        let first = self.connections[key].exchange.errand;
        let mut bytes = self.catalogue.request(first.document).to_vec();
        let Some(owner) = self.connections[key].owner else { return };
        let room = {
            let Connection { requests_max, answered, .. } = self.connections[key];
            (requests_max - answered).min(self.transport.pipeline) - 1
        };
        for _ in 0..room {
            let Some(due) = self.agenda.beside(&mut self.clients[owner].itinerary, first.intended) else {
                break;
            };
            let mut errand = self.errand(due, first.intended);
            errand.acted = now;
            self.ledger.begin(errand.step, now);
            bytes.extend_from_slice(self.catalogue.request(errand.document));
            self.connections[key].piped.push_back(Exchange { errand, sent: now, first_byte: None });
        }
        let connection = &mut self.connections[key];
        match connection.transmit(&bytes) {
            Ok(sent) => {
                bytes.drain(..sent);
                connection.unsent = bytes;
                self.sent(key, now);
            }
            Err(error) => self.fail_or_retry(key, connector::cause(error), now),
        }
    }

    /// The requests under way are the connection's now, even if the socket has not taken all of them.
    fn sent(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.connections[key];
        if connection.state == State::Connecting {
            self.ledger.connected(connection.exchange.errand.step, connection.opened, now);
        }
        if let Some(owner) = connection.owner {
            self.clients[owner].errand = None;
        }
        connection.state = State::Receiving;
        if connection.has_unsent() {
            connection.state = State::Sending;
            // Not registered yet when it was just opened: it will be, for this too.
            let data = event_data(key, connection.serial);
            let _ = epoll::modify(&self.epoll, &connection.socket, data, ARRIVALS | EventFlags::OUT);
        }
    }

    fn send_rest(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.connections[key];
        match connection.transmit_rest() {
            Ok(()) if connection.has_unsent() => {}
            Ok(()) => connection.state = State::Receiving,
            Err(error) => self.fail_or_retry(key, connector::cause(error), now),
        }
    }

    /// Something happened on a socket, at `at` or before.
    pub(crate) fn on_event(&mut self, key: usize, serial: u32, flags: EventFlags, at: Nanos) {
        let live = self.connections.get_mut(key).filter(|connection| connection.serial == serial);
        let Some(connection) = live else { return };
        let ended = flags.intersects(ENDED);
        connection.closed_by_server |= ended;
        let state = connection.state;
        match state {
            State::Connecting => self.on_connected(key, at),
            State::Shaking => self.shake(key, at),
            State::Sending | State::Receiving => {
                if state == State::Sending && flags.contains(EventFlags::OUT) && !ended {
                    self.send_rest(key, at);
                }
                // The rest may have failed to go, and with it the connection.
                let live = self.connections.get(key).is_some_and(|connection| connection.serial == serial);
                if live && (ended || flags.contains(EventFlags::IN)) {
                    self.receive(key, serial, at);
                }
            }
            State::Idle if ended || self.has_unsolicited(key) => self.lose(key),
            State::Lingering if ended => drop(self.close(key)),
            _ => {}
        }
    }

    fn on_connected(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.connections[key];
        if connection.closed_by_server
            && let Some(error) = connector::socket_error(&connection.socket)
        {
            let cause = connector::cause(error);
            self.fail(key, if cause == Cause::Reset { Cause::ConnectRefused } else { cause }, at);
            return;
        }
        if connection.secured.is_some() {
            return self.shake(key, at);
        }
        let Some(owner) = connection.owner else { return };
        connection.state = State::Idle;
        let errand = self.clients[owner].errand;
        self.ledger.connected(errand.and_then(|errand| errand.step), connection.opened, at);
        if errand.is_some_and(|errand| errand.acted > Nanos::ZERO) {
            self.send(key, clock::now());
        }
    }

    /// Goes on with the handshake of TLS; the connection was there by `at`, if it is.
    fn shake(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.connections[key];
        let (Some(secured), Some(owner)) = (&mut connection.secured, connection.owner) else { return };
        let done = match secured.shake(&connection.socket) {
            Ok(done) => done,
            Err(trouble) => return self.fail(key, self.cause_in_handshake(key, &trouble), clock::now()),
        };
        let errand = self.clients[owner].errand;
        let step = errand.and_then(|errand| errand.step);
        if connection.state == State::Connecting && !secured.has_unsent() {
            // What was said first could only go once the connection was there.
            connection.state = State::Shaking;
            secured.shaking_since = at;
            self.ledger.connected(step, connection.opened, at);
        }
        if done {
            let now = clock::now();
            connection.state = State::Idle;
            self.ledger.secured(step, now - secured.shaking_since, secured.is_resumed());
            if errand.is_some_and(|errand| errand.acted > Nanos::ZERO) {
                self.send(key, now);
            }
        }
    }

    /// A connection that is refused fails as any other, whatever was to be said on it.
    fn cause_in_handshake(&self, key: usize, trouble: &Trouble) -> Cause {
        match trouble.cause() {
            Cause::Reset if self.connections[key].state == State::Connecting => Cause::ConnectRefused,
            cause => cause,
        }
    }

    /// Takes what has arrived by `at`. A short read means that there is no more, and saves asking.
    pub(crate) fn receive(&mut self, key: usize, serial: u32, at: Nanos) {
        let mut now = at;
        for _ in 0..READS_MAX {
            let Connection { socket, secured, reception, exchange, reader, closed_by_server, .. } =
                &mut self.connections[key];
            let discardable = reception.discardable().filter(|&bytes| bytes >= DISCARD_BYTES_MIN);
            let discardable = discardable.filter(|_| secured.is_none());
            let mut asked =
                discardable.map_or(self.buffer.len() as u64, |bytes| bytes.min(DISCARD_BYTES_MAX));
            if let Some(reader) = reader {
                asked = asked.min(reader.allowed(now));
                if asked == 0 {
                    if !std::mem::replace(&mut reader.waiting, true) {
                        self.readers.set(reader.free_at(), key, serial);
                    }
                    return;
                }
            }
            let room = &mut self.buffer[..(asked as usize).min(BUFFER_BYTES)];
            let stamps = self.transport.timestamps;
            let result = match (secured.as_mut(), discardable) {
                (Some(secured), _) => secured.receive(socket, room, asked as usize, stamps),
                (None, Some(_)) => discard(socket, asked as usize, stamps).map_err(Trouble::System),
                (None, None) => receive(socket, room, stamps).map_err(Trouble::System),
            };
            let is_secured = secured.is_some();
            let mut time = now;
            if let Ok((_, Some(arrived))) = result {
                let looked = clock::now();
                time = (arrived - self.wall_ahead).clamp(exchange.sent, looked);
                let step = exchange.errand.step.filter(|_| exchange.first_byte.is_none());
                if let Some(step) = step.and_then(|step| self.ledger.steps.get_mut(step)) {
                    step.receive_lag.record(looked - time);
                }
            }
            let received = match result.map(|(received, _)| received) {
                Ok(0) => {
                    *closed_by_server = true;
                    return match reception.end() {
                        Ok(response) => self.complete(key, &response, time),
                        Err(cause) => self.fail_or_retry(key, cause, time),
                    };
                }
                Ok(received) => received,
                Err(Trouble::System(Errno::AGAIN)) => return,
                Err(Trouble::System(Errno::INTR)) => continue,
                Err(trouble) => return self.fail_or_retry(key, trouble.cause(), time),
            };
            if let Some(reader) = reader {
                reader.took(received as u64, now);
            }
            // Of sealed bytes there may be more however few plain ones they were.
            let whole = (received as u64) < asked && !*closed_by_server && !is_secured;
            match self.take_in(key, received, discardable.is_some(), time) {
                Next::Read if !whole => now = clock::now(),
                _ => return,
            }
        }
        self.unread.push((key, serial));
    }

    /// Does what received bytes amount to.
    fn take_in(&mut self, key: usize, received: usize, discarded: bool, at: Nanos) -> Next {
        self.ledger.totals.received_bytes += received as u64;
        let connection = &mut self.connections[key];
        if let Some(owner) = connection.owner {
            self.clients[owner].received_bytes += received as u64;
        }
        connection.exchange.first_byte.get_or_insert(at);
        if discarded {
            return match connection.reception.discarded(received as u64) {
                Progress::More => Next::Read,
                Progress::Complete(response) if connection.piped.is_empty() => {
                    self.complete(key, &response, at);
                    Next::Wait
                }
                Progress::Complete(response) => self.complete_one(key, &response, false, at),
            };
        }
        let mut from = 0;
        loop {
            let connection = &mut self.connections[key];
            let response = match connection.reception.feed(&self.buffer[from..received]) {
                Ok((_, Progress::More)) => return Next::Read,
                Ok((used, Progress::Complete(response))) => {
                    from += used;
                    response
                }
                Err(cause) => {
                    self.fail_or_retry(key, cause, at);
                    return Next::Wait;
                }
            };
            let more = from < received;
            if connection.piped.is_empty() {
                // More than was asked for: the framing is lost, and so is the connection.
                match more {
                    true => self.fail_or_retry(key, Cause::BadResponse, at),
                    false => self.complete(key, &response, at),
                }
                return Next::Wait;
            }
            match self.complete_one(key, &response, more, at) {
                Next::Read if more => {}
                next => return next,
            }
        }
    }

    /// One of several answers is complete; the next is already coming if there are `more` bytes.
    fn complete_one(&mut self, key: usize, response: &Response, more: bool, at: Nanos) -> Next {
        let connection = &mut self.connections[key];
        let content = connection.reception.digest();
        let failure = self.ledger.answer(&connection.exchange, response, content, at, &mut self.catalogue);
        connection.answered += 1;
        self.refused_since = None;
        if let Some(owner) = connection.owner {
            self.clients[owner].failure = self.clients[owner].failure.or(failure);
        }
        if let Some(next) = connection.piped.pop_front() {
            connection.reception.reset(self.catalogue.is_bodiless(next.errand.document));
            connection.exchange = Exchange { first_byte: more.then_some(at), ..next };
        }
        if response.keep_alive {
            return Next::Read;
        }
        // RFC 9112, 9.6: what follows a closing answer is not answered.
        self.fail(key, Cause::ClosedEarly, at);
        Next::Wait
    }

    /// The last of the answers under way is complete.
    fn complete(&mut self, key: usize, response: &Response, at: Nanos) {
        let connection = &mut self.connections[key];
        let content = connection.reception.digest();
        let failure = self.ledger.answer(&connection.exchange, response, content, at, &mut self.catalogue);
        self.refused_since = None;
        connection.answered += 1;
        let Some(owner) = connection.owner else { return };
        connection.state = State::Idle;
        connection.unsent.clear();
        let ended = connection.closed_by_server;
        let reusable = response.keep_alive && connection.answered < connection.requests_max;
        if reusable && ended {
            self.lose(key);
        } else if !reusable {
            self.part(key, owner, !ended && !response.keep_alive, at);
        }
        let failure = self.clients[owner].failure.take().or(failure);
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
            && connection.piped.is_empty()
            && !connection.reception.has_begun();
        match connection.owner {
            Some(owner) if stale && !connection.exchange.errand.retried => {
                let errand = connection.exchange.errand;
                self.lose(key);
                self.clients[owner].errand = Some(crate::client::Errand { retried: true, ..errand });
                self.open(owner);
            }
            _ => self.fail(key, cause, at),
        }
    }

    /// Gives up a connection and what was under way on it.
    pub(crate) fn fail(&mut self, key: usize, cause: Cause, at: Nanos) {
        let connection = self.close(key);
        let mut under_way = 0;
        for exchange in connection.under_way() {
            self.ledger.fail(&exchange.errand, cause, at);
            under_way += 1;
        }
        let Some(owner) = connection.owner else { return };
        self.clients[owner].connection = None;
        self.clients[owner].failure = None;
        if under_way > 0 {
            self.advance(owner, at, Some(cause));
        } else {
            self.fail_client(owner, cause, at);
        }
    }

    /// Gives up the errand of a client that has no connection.
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
        let Connection { socket, secured, .. } = &mut self.connections[key];
        let received = match secured {
            Some(secured) => secured.receive(socket, &mut self.buffer[..], BUFFER_BYTES, false),
            None => receive(socket, &mut self.buffer[..], false).map_err(Trouble::System),
        };
        !matches!(received, Err(Trouble::System(Errno::AGAIN | Errno::INTR)))
    }

    /// Closes a connection, the normal way.
    pub(crate) fn close(&mut self, key: usize) -> Connection {
        let mut connection = self.connections.remove(key);
        if let Some(secured) = &mut connection.secured
            && !connection.closed_by_server
        {
            secured.say_goodbye(&connection.socket);
        }
        self.connector.closed(connection.source, connection.closed_by_server);
        self.ledger.totals.connections_open.down(clock::now());
        connection
    }
}

/// Receives; answers also when the last byte came, if the kernel is asked and says.
fn receive(socket: &OwnedFd, room: &mut [u8], stamps: bool) -> Result<(usize, Option<Nanos>), Errno> {
    match stamps {
        true => stamped::receive(socket.as_fd(), room),
        false => recv(socket, room, RecvFlags::empty()).map(|(received, _)| (received, None)),
    }
}

/// Receives up to `bytes` bytes and throws them away: tcp(7), MSG_TRUNC. Nothing is copied.
fn discard(socket: &OwnedFd, bytes: usize, stamps: bool) -> Result<(usize, Option<Nanos>), Errno> {
    if stamps {
        return stamped::discard(socket.as_fd(), bytes);
    }
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, so that none is needed.
    let received = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), bytes, libc::MSG_TRUNC) };
    usize::try_from(received).map(|received| (received, None)).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}
