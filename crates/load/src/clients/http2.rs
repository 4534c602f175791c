//! Clients that share connections of HTTP/2: each has a place on one, and at most one stream at a time.
//!
//! A connection is opened when no other has a place left. Requests wait for its handshakes, and for the server's limit on
//! streams. What a request is and what its answer means is as with HTTP/1; the first byte is the head of the response.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    os::fd::OwnedFd,
};

use rustix::{
    event::epoll::{self, EventFlags},
    io::Errno,
    net::{SendFlags, send},
};
use slab::Slab;
use sojourn_measure::{Nanos, clock};

use crate::{
    clients::{
        Ended, Run,
        connection::{ARRIVALS, ENDED, event_data},
    },
    http::{
        cause::{self, Cause},
        http2::{Http2, StreamEvent},
        response_reader::{Progress, Response, ResponseReader},
        tls_stream::{TlsStream, TransportError},
    },
    plan::scenario::{BODY_KEPT_BYTES_MAX, user::Next as Judged},
    runtime::{connector, receive},
    statistics::step::{Exchange, PendingRequest},
};

/// Marks a shared connection's key in the data of an event.
pub(crate) const SHARED: usize = 1 << 31;
/// Reads of one connection before others are read.
const READS_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct SharedConnections {
    connections: Slab<Shared>,
    /// Those with places left, with their serials; the one that has waited longest is first.
    with_places: VecDeque<(usize, u32)>,
}

/// A client's place on a connection: its key and serial.
pub(crate) type Place = (usize, u32);

struct Shared {
    socket: OwnedFd,
    tls: Option<Box<TlsStream>>,
    state: State,
    opened: Nanos,
    serial: u32,
    source: usize,
    /// Clients that have a place.
    clients: u32,
    /// Requests that it may still serve.
    requests_left: u32,
    answered: u32,
    protocol: Http2,
    under_way: HashMap<usize, UnderWay>,
    /// Clients whose requests wait for the connection, or for a stream.
    waiting: VecDeque<usize>,
    /// Bytes that the socket has not taken.
    unsent: Vec<u8>,
    /// When the bytes read last were read, if the kernel says when they arrived.
    read_at: Option<Nanos>,
    closed_by_server: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Handshaking,
    Open,
}

struct UnderWay {
    owner: usize,
    exchange: Exchange,
    reader: ResponseReader,
}

impl SharedConnections {
    fn live(&mut self, (key, serial): Place) -> Option<&mut Shared> {
        self.connections.get_mut(key).filter(|shared| shared.serial == serial)
    }

    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Exchange> {
        self.connections.iter().flat_map(|(_, shared)| shared.under_way.values().map(|one| &one.exchange))
    }
}

impl Shared {
    /// Returns true if a further client may have a place.
    fn has_place(&self, streams: u32) -> bool {
        self.clients < streams && self.takes_requests() && !self.closed_by_server
    }

    fn takes_requests(&self) -> bool {
        self.requests_left > 0 && self.protocol.takes_requests()
    }

    /// Sends what the protocol has to say, as far as the socket takes it.
    fn flush(&mut self) -> Result<(), Errno> {
        let output = self.protocol.take_output();
        match &mut self.tls {
            Some(tls) => tls.send(&self.socket, &output),
            None => {
                self.unsent.extend_from_slice(&output);
                while !self.unsent.is_empty() {
                    match send(&self.socket, &self.unsent, SendFlags::NOSIGNAL) {
                        Ok(sent) => drop(self.unsent.drain(..sent)),
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
        }
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }
}

impl Run<'_> {
    /// Gives a client a place on a connection, and makes its request there if that has begun.
    pub(super) fn open_shared(&mut self, client: usize) {
        let streams = self.settings.transport.streams.unwrap_or(1);
        let own = self.table.clients[client]
            .place
            .filter(|&place| self.shared.live(place).is_some_and(|shared| shared.takes_requests()));
        let place = match own {
            Some(place) => Some(place),
            None => {
                self.leave_shared(client);
                self.find_place(client, streams)
            }
        };
        let Some(place) = place else { return };
        self.table.clients[client].place = Some(place);
        if self.table.clients[client].pending.is_some_and(|pending| pending.acted > Nanos::ZERO) {
            self.shared.connections[place.0].waiting.push_back(client);
            self.make_requests(place, clock::now());
        }
    }

    /// A place on a connection that has one, or on a new one; none if that cannot be opened.
    fn find_place(&mut self, client: usize, streams: u32) -> Option<Place> {
        while let Some(&place) = self.shared.with_places.front() {
            if let Some(shared) = self.shared.live(place).filter(|shared| shared.has_place(streams)) {
                shared.clients += 1;
                if !shared.has_place(streams) {
                    self.shared.with_places.pop_front();
                }
                return Some(place);
            }
            self.shared.with_places.pop_front();
        }
        let opened = clock::now();
        let (socket, source) = match self.opener.connector.open() {
            Ok(open) => open,
            Err(error) => {
                self.fail_client(client, cause::cause(error), opened);
                return None;
            }
        };
        let tls = match self.opener.tls.as_ref().map(|tls| tls.session()).transpose() {
            Ok(session) => session.map(|session| Box::new(TlsStream::new(session, clock::now()))),
            Err(cause) => {
                self.opener.connector.closed(source, false);
                self.fail_client(client, cause, opened);
                return None;
            }
        };
        self.recorder.totals.connections_opened += 1;
        self.recorder.totals.connections_open.up(opened);
        let serial = self.table.next_serial();
        let key = self.shared.connections.insert(Shared {
            socket,
            state: State::Connecting,
            opened,
            serial,
            source,
            clients: 1,
            requests_left: self.opener.requests_max(self.settings.connections),
            answered: 0,
            protocol: Http2::new(tls.is_some()),
            tls,
            under_way: HashMap::new(),
            waiting: VecDeque::new(),
            unsent: Vec::new(),
            read_at: None,
            closed_by_server: false,
        });
        let (place, shared) = ((key, serial), &self.shared.connections[key]);
        if streams > 1 {
            self.shared.with_places.push_back(place);
        }
        let data = event_data(key | SHARED, serial);
        if let Err(error) = epoll::add(&self.wakeups.epoll, &shared.socket, data, ARRIVALS | EventFlags::OUT)
        {
            self.close_shared(place);
            self.fail_client(client, cause::cause(error), opened);
            return None;
        }
        Some(place)
    }

    /// A client gives up its place.
    pub(super) fn leave_shared(&mut self, client: usize) {
        let Some(place) = self.table.clients[client].place.take() else { return };
        self.free_place(place);
    }

    pub(super) fn free_place(&mut self, place: Place) {
        let streams = self.settings.transport.streams.unwrap_or(1);
        let draining = self.draining.is_some();
        let Some(shared) = self.shared.live(place) else { return };
        let had_none = !shared.has_place(streams);
        shared.clients -= 1;
        let is_useless = shared.clients == 0 && (draining || shared.requests_left == 0);
        let has_place = shared.has_place(streams);
        if is_useless && shared.under_way.is_empty() {
            self.close_shared(place);
        } else if had_none && has_place {
            self.shared.with_places.push_back(place);
        }
    }

    /// Something happened on a shared connection, at `at` or before.
    pub(super) fn on_shared_event(&mut self, key: usize, serial: u32, flags: EventFlags, at: Nanos) {
        let place = (key & !SHARED, serial);
        let Some(shared) = self.shared.live(place) else { return };
        let ended = flags.intersects(ENDED);
        shared.closed_by_server |= ended;
        match shared.state {
            State::Connecting => self.on_shared_connected(place, at),
            State::Handshaking => self.shake_hands(place, at),
            State::Open => {
                if flags.contains(EventFlags::OUT) && !ended {
                    self.advance_shared(place, at);
                }
                if ended || flags.contains(EventFlags::IN) {
                    self.receive_shared(place, at);
                }
            }
        }
    }

    fn on_shared_connected(&mut self, place: Place, at: Nanos) {
        let step = self.step_of_first(place);
        let Some(shared) = self.shared.live(place) else { return };
        if let Some(error) = connector::socket_error(&shared.socket).filter(|_| shared.closed_by_server) {
            let cause = match cause::cause(error) {
                Cause::Reset => Cause::ConnectRefused,
                cause => cause,
            };
            return self.fail_shared(place, cause, at);
        }
        self.recorder.connected(step, shared.opened, at);
        match &mut shared.tls {
            Some(tls) => {
                tls.handshake_since = at;
                shared.state = State::Handshaking;
                self.shake_hands(place, at);
            }
            None => {
                shared.state = State::Open;
                self.make_requests(place, clock::now());
            }
        }
    }

    /// Continues the handshake of TLS.
    fn shake_hands(&mut self, place: Place, at: Nanos) {
        let step = self.step_of_first(place);
        let Some(Shared { tls: Some(tls), socket, state, .. }) = self.shared.live(place) else { return };
        match tls.handshake(socket) {
            Err(error) => self.fail_shared(place, error.cause(), at),
            Ok(false) => {}
            Ok(true) if !tls.is_http2() => self.fail_shared(place, Cause::Http2NotSpoken, at),
            Ok(true) => {
                let now = clock::now();
                self.recorder.secured(step, now - tls.handshake_since, tls.is_resumed());
                *state = State::Open;
                self.make_requests(place, now);
                // What came with the end of the handshake is in memory already.
                self.receive_shared(place, now);
            }
        }
    }

    /// The step of the first request that waits for a connection.
    fn step_of_first(&mut self, place: Place) -> Option<usize> {
        let first = *self.shared.live(place)?.waiting.front()?;
        self.table.clients.get(first)?.pending?.step
    }

    /// Makes the requests that wait, as far as the connection takes them.
    fn make_requests(&mut self, place: Place, now: Nanos) {
        loop {
            let Some(shared) = self.shared.live(place).filter(|shared| shared.state == State::Open) else {
                return;
            };
            if shared.waiting.is_empty() || !shared.takes_requests() || shared.protocol.room() == 0 {
                break;
            }
            let Some(client) = shared.waiting.pop_front() else { break };
            self.make_request(place, client, now);
        }
        if let Some(shared) = self.shared.live(place).filter(|shared| !shared.takes_requests()) {
            // Those who wait need another connection.
            for client in mem::take(&mut shared.waiting) {
                self.leave_shared(client);
                self.open_shared(client);
            }
        }
        self.advance_shared(place, now);
    }

    fn make_request(&mut self, place: Place, client: usize, now: Nanos) {
        let Some(pending) = self.table.clients.get(client).and_then(|client| client.pending) else { return };
        let Some(shared) = self.shared.live(place) else { return };
        let (bytes, reader) = match (&self.users, &self.table.clients[client].user) {
            (Some(users), Some(user)) => {
                let mut reader = ResponseReader::keeping(BODY_KEPT_BYTES_MAX);
                reader.reset_keeping_head(
                    user.is_bodiless(),
                    user.needs_body(&users.scenario, pending.document),
                );
                (user.bytes(), reader)
            }
            _ => {
                let mut reader = ResponseReader::new(self.catalogue.verifies());
                reader.reset(self.catalogue.is_bodiless(pending.document));
                (self.catalogue.whole_request(pending.document, &mut self.request_space), reader)
            }
        };
        match shared.protocol.request(bytes) {
            Ok(stream) => {
                shared.requests_left -= 1;
                let exchange = Exchange { pending, sent: now, first_byte: None };
                shared.under_way.insert(stream, UnderWay { owner: client, exchange, reader });
                self.table.clients[client].pending = None;
            }
            Err(cause) => {
                self.recorder.fail(&pending, cause, now);
                self.advance(client, now, Ended::Failed);
            }
        }
    }

    fn receive_shared(&mut self, place: Place, at: Nanos) {
        let mut now = at;
        for _ in 0..READS_MAX {
            let stamps = self.settings.transport.timestamps;
            let Some(shared) = self.shared.live(place).filter(|shared| shared.state == State::Open) else {
                return;
            };
            let buffer = &mut self.buffer[..];
            let room = buffer.len();
            let received = match &mut shared.tls {
                Some(tls) => tls.receive(&shared.socket, buffer, room, stamps),
                None => receive::receive(&shared.socket, buffer, stamps).map_err(TransportError::from),
            };
            let (bytes, stamp) = match received {
                Ok(received) => received,
                Err(TransportError::System(Errno::INTR)) => continue,
                Err(TransportError::System(Errno::AGAIN)) => return,
                Err(error) => return self.fail_shared(place, error.cause(), now),
            };
            let looked = clock::now();
            // A stamp is of the wall clock, which may be set while the bytes wait.
            let time = stamp.map_or(now, |stamp| (stamp - self.wakeups.wall_ahead).min(looked));
            shared.read_at = stamp.map(|_| looked);
            self.recorder.totals.received_bytes += bytes as u64;
            if bytes == 0 {
                shared.closed_by_server = true;
                shared.protocol.end();
            } else {
                shared.protocol.receive(&self.buffer[..bytes]);
            }
            self.advance_shared(place, time);
            if bytes == 0 {
                return self.fail_shared(place, self.cause_of_end(place), time);
            }
            now = looked;
        }
        self.wakeups.unread.push((place.0 | SHARED, place.1));
    }

    /// Continues to read a connection that had more to read than one turn takes.
    pub(super) fn read_on_shared(&mut self, key: usize, serial: u32, now: Nanos) {
        if key & SHARED != 0 {
            self.receive_shared((key & !SHARED, serial), now);
        }
    }

    fn cause_of_end(&self, (key, _): Place) -> Cause {
        self.shared.connections.get(key).map_or(Cause::ClosedEarly, |shared| shared.protocol.cause_of_end())
    }

    /// Lets the protocol work: what it has to say is sent, what it has to tell happened at `at`.
    fn advance_shared(&mut self, place: Place, at: Nanos) {
        let Some(shared) = self.shared.live(place) else { return };
        let had_unsent = shared.has_unsent();
        let mut events = Vec::new();
        shared.protocol.poll(&mut events);
        if let Err(error) = shared.flush() {
            return self.fail_shared(place, cause::cause(error), at);
        }
        if shared.has_unsent() != had_unsent || shared.state == State::Open && shared.answered == 0 {
            let writable = if shared.has_unsent() { EventFlags::OUT } else { EventFlags::empty() };
            let data = event_data(place.0 | SHARED, place.1);
            let _ = epoll::modify(&self.wakeups.epoll, &shared.socket, data, ARRIVALS | writable);
        }
        let is_over = shared.protocol.is_over();
        for (stream, event) in events {
            self.on_stream_event(place, stream, event, at);
        }
        if is_over {
            self.fail_shared(place, self.cause_of_end(place), at);
        }
    }

    fn on_stream_event(&mut self, place: Place, stream: usize, event: StreamEvent, at: Nanos) {
        let Some(shared) = self.shared.live(place) else { return };
        let Some(one) = shared.under_way.get_mut(&stream) else { return };
        let arrived = at.max(one.exchange.sent);
        let progress = match event {
            StreamEvent::Head(head) => {
                let step = one.exchange.pending.step.filter(|_| one.exchange.first_byte.is_none());
                let record = step.and_then(|step| self.recorder.steps.get_mut(step));
                if let (Some(record), Some(read_at)) = (record, shared.read_at) {
                    record.receive_lag.record(read_at - arrived);
                }
                one.exchange.first_byte.get_or_insert(arrived);
                one.reader.feed(&head).map(|(_, progress)| progress)
            }
            StreamEvent::Body(body) => one.reader.feed(&body).map(|(_, progress)| progress),
            StreamEvent::End => one.reader.end().map(Progress::Complete),
            StreamEvent::Failed(cause) => Err(cause),
            StreamEvent::Reset => {
                if let Some(one) = shared.under_way.remove(&stream) {
                    self.fail_request(&one, Cause::Reset, arrived);
                }
                return self.make_waiting_requests(place);
            }
            StreamEvent::Refused => return self.make_elsewhere(place, stream, arrived),
        };
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Complete(response)) => self.complete_shared(place, stream, &response, arrived),
            Err(cause) => {
                shared.protocol.cancel(stream);
                if let Some(one) = shared.under_way.remove(&stream) {
                    self.fail_or_retry_shared(place, &one, cause, arrived);
                }
            }
        }
    }

    fn complete_shared(&mut self, place: Place, stream: usize, response: &Response, at: Nanos) {
        let Some(shared) = self.shared.live(place) else { return };
        let Some(UnderWay { owner, exchange, mut reader }) = shared.under_way.remove(&stream) else { return };
        shared.answered += 1;
        self.opener.refused_since = None;
        self.table.clients[owner].received_bytes += response.body_bytes;
        let (head, body) = (reader.take_kept_head(), reader.take_kept());
        let judged = self.judged(owner, &exchange.pending, response, &head, &body);
        if judged == Some(Judged::Follow) {
            self.follow(owner, exchange.pending, clock::now());
        } else {
            let failure = match judged {
                Some(Judged::Over(failure)) => failure,
                _ => self.catalogue.judge(exchange.pending.document, response, reader.digest()),
            };
            self.recorder.answer(&exchange, response, failure, at);
            self.advance(owner, at, Ended::answered(failure));
        }
        self.make_waiting_requests(place);
    }

    /// Makes requests that have waited for the stream that has just ended.
    fn make_waiting_requests(&mut self, place: Place) {
        if self.shared.live(place).is_some_and(|shared| !shared.waiting.is_empty()) {
            self.make_requests(place, clock::now());
        }
    }

    /// Makes a request that the server has refused over another connection, within the response timeout.
    fn make_elsewhere(&mut self, place: Place, stream: usize, at: Nanos) {
        let Some(shared) = self.shared.live(place) else { return };
        let Some(one) = shared.under_way.remove(&stream) else { return };
        // An end was announced: nothing more goes over it.
        shared.requests_left = 0;
        let UnderWay { owner, exchange, .. } = one;
        if at - exchange.pending.acted > self.settings.limits.response_timeout {
            return self.fail_or_retry_shared(place, &one, Cause::Reset, at);
        }
        self.table.clients[owner].pending = Some(exchange.pending);
        self.leave_shared(owner);
        self.open_shared(owner);
    }

    /// A request that most likely met a connection that was just closed is made once more, as browsers do.
    fn fail_or_retry_shared(&mut self, place: Place, one: &UnderWay, cause: Cause, at: Nanos) {
        let answered = self.shared.live(place).is_some_and(|shared| shared.answered > 0);
        let UnderWay { owner, exchange, .. } = *one;
        let stale = matches!(cause, Cause::Reset | Cause::ClosedEarly) && exchange.first_byte.is_none();
        if answered && stale && !exchange.pending.retried {
            self.table.clients[owner].pending = Some(PendingRequest { retried: true, ..exchange.pending });
            self.leave_shared(owner);
            return self.open_shared(owner);
        }
        self.fail_request(one, cause, at);
    }

    fn fail_request(&mut self, one: &UnderWay, cause: Cause, at: Nanos) {
        self.recorder.fail(&one.exchange.pending, cause, at);
        self.advance(one.owner, at, Ended::Failed);
    }

    /// Gives up a connection, and what was under way on it.
    fn fail_shared(&mut self, place: Place, cause: Cause, at: Nanos) {
        let Some(shared) = self.shared.live(place) else { return };
        let was_open = shared.state == State::Open;
        let (under_way, waiting) = (mem::take(&mut shared.under_way), mem::take(&mut shared.waiting));
        shared.requests_left = 0;
        if was_open && under_way.is_empty() {
            self.recorder.totals.reconnects += 1;
        }
        for one in under_way.values() {
            self.fail_or_retry_shared(place, one, cause, at);
        }
        self.close_shared(place);
        for client in waiting {
            if !self.table.clients.contains(client) {
                continue;
            }
            self.table.clients[client].place = None;
            match was_open && cause != Cause::Http2NotSpoken {
                true => self.open_shared(client),
                false => self.fail_client(client, cause, at),
            }
        }
    }

    fn close_shared(&mut self, place: Place) {
        if self.shared.live(place).is_none() {
            return;
        }
        let mut shared = self.shared.connections.remove(place.0);
        if let Some(tls) = shared.tls.as_mut().filter(|_| !shared.closed_by_server) {
            tls.close_notify(&shared.socket);
        }
        self.opener.connector.closed(shared.source, shared.closed_by_server);
        self.recorder.totals.connections_open.down(clock::now());
    }

    /// Ends what has met a timeout.
    pub(super) fn expire_shared(&mut self, now: Nanos) {
        let limits = self.settings.limits;
        let mut late: Vec<(Place, Option<usize>, Cause)> = Vec::new();
        for (key, shared) in &self.shared.connections {
            let place = (key, shared.serial);
            let since = shared.tls.as_ref().map_or(shared.opened, |tls| tls.handshake_since);
            match shared.state {
                State::Connecting if now - shared.opened > limits.connect_timeout => {
                    late.push((place, None, Cause::ConnectTimeout));
                }
                State::Handshaking if now - since > limits.connect_timeout => {
                    late.push((place, None, Cause::HandshakeTimeout));
                }
                _ => late.extend(shared.under_way.iter().filter_map(|(stream, one)| {
                    let cause = match one.exchange.first_byte {
                        Some(_) => Cause::TransferTimeout,
                        None => Cause::ResponseTimeout,
                    };
                    (now - one.exchange.sent > limits.response_timeout).then_some((
                        place,
                        Some(*stream),
                        cause,
                    ))
                })),
            }
        }
        for (place, stream, cause) in late {
            match stream {
                None => self.fail_shared(place, cause, now),
                Some(stream) => self.on_stream_event(place, stream, StreamEvent::Failed(cause), now),
            }
        }
    }
}
