//! A connection's beginning: the handshake of TCP, then that of TLS where it is spoken.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::epoll::{self, EventFlags};
use sojourn_measure::{Nanos, clock};

use crate::{
    clients::{
        connection::{ARRIVALS, Connection, event_data},
        run::Run,
    },
    http::{
        cause::{self, Cause},
        connection::{HttpConnection, State},
        response_reader::Reception,
        tls::Tls,
        tls_stream::{Secured, Trouble},
    },
    plan::Connections,
    runtime::{connector::Connector, read_rate::Reader},
    statistics::recorder::Exchange,
};

/// Opens connections to the server under test.
pub(crate) struct Opener {
    pub(crate) connector: Connector,
    pub(crate) tls: Option<Tls>,
    /// Draws how many requests a connection serves.
    pub(crate) random: Xoshiro256PlusPlus,
    /// Since when the server has refused every connection.
    pub(crate) refused_since: Option<Nanos>,
}

impl Opener {
    fn requests_max(&mut self, connections: Connections) -> u32 {
        match connections {
            Connections::KeepAlive => u32::MAX,
            Connections::Close => 1,
            Connections::Requests(count) => count.draw(&mut self.random),
        }
    }
}

impl Run<'_> {
    /// Opens a connection for a client. If its pending request has begun, the request is tried at once: on a short
    /// way the handshake is done by then, and a wait is saved.
    pub(crate) fn open(&mut self, key: usize) {
        let opened = clock::now();
        let (socket, source) = match self.opener.connector.open() {
            Ok(open) => open,
            Err(error) => return self.fail_client(key, cause::cause(error), opened),
        };
        let established = clock::now();
        let mut http = HttpConnection::new(socket, opened, Reception::new(self.catalogue.verifies()));
        http.read_rate = self.settings.transport.read_bytes_per_second.map(Reader::new);
        http.tls = match self.opener.tls.as_ref().map(|tls| tls.session()).transpose() {
            Ok(session) => session.map(|session| Box::new(Secured::new(session, established))),
            Err(cause) => {
                self.opener.connector.closed(source, false);
                return self.fail_client(key, cause, opened);
            }
        };
        self.recorder.totals.connections_opened += 1;
        self.recorder.totals.connections_open.up(opened);
        let serial = self.table.next_serial();
        let connection = self.table.connections.insert(Connection {
            http,
            serial,
            owner: Some(key),
            source,
            requests_max: self.opener.requests_max(self.settings.connections),
            exchange: Exchange::default(),
            piped: VecDeque::new(),
        });
        self.table.clients[key].connection = Some(connection);
        let begun = self.table.clients[key].pending.is_some_and(|pending| pending.acted > Nanos::ZERO);
        if self.opener.tls.is_some() {
            self.shake(connection, established);
        } else if begun {
            self.send(connection, clock::now());
        }
        self.watch(connection, serial, opened);
    }

    /// Registers a new connection with epoll, if it still exists: it may have failed at once, and the client may have
    /// opened another.
    fn watch(&mut self, key: usize, serial: u32, opened: Nanos) {
        let live = self.table.live_connection(key, serial);
        let Some(Connection { http, .. }) = live else { return };
        let is_written = matches!(http.state, State::Receiving | State::Handshaking);
        let writable = if is_written { EventFlags::empty() } else { EventFlags::OUT };
        let data = event_data(key, serial);
        let added = epoll::add(&self.wakeups.epoll, &http.socket, data, ARRIVALS | writable);
        if let Err(error) = added {
            self.fail(key, cause::cause(error), opened);
        }
    }

    /// The handshake of TCP is over, one way or the other.
    pub(super) fn on_connected(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.table.connections[key];
        if let Some(cause) = connection.http.connect_error() {
            return self.fail(key, cause, at);
        }
        if connection.http.tls.is_some() {
            return self.shake(key, at);
        }
        let Some(owner) = connection.owner else { return };
        connection.http.state = State::Idle;
        let pending = self.table.clients[owner].pending;
        self.recorder.connected(pending.and_then(|pending| pending.step), connection.http.opened, at);
        if pending.is_some_and(|pending| pending.acted > Nanos::ZERO) {
            self.send(key, clock::now());
        }
    }

    /// Goes on with the handshake of TLS; the connection was there by `at`, if it is.
    pub(super) fn shake(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.table.connections[key];
        let HttpConnection { tls, socket, state, opened, .. } = &mut connection.http;
        let (Some(tls), Some(owner)) = (tls, connection.owner) else { return };
        let done = match tls.shake(socket) {
            Ok(done) => done,
            Err(trouble) => return self.fail(key, self.cause_in_handshake(key, &trouble), clock::now()),
        };
        let pending = self.table.clients[owner].pending;
        let step = pending.and_then(|pending| pending.step);
        if *state == State::Connecting && !tls.has_unsent() {
            // What was said first could only go once the connection was there.
            *state = State::Handshaking;
            tls.shaking_since = at;
            self.recorder.connected(step, *opened, at);
        }
        if done {
            let now = clock::now();
            *state = State::Idle;
            self.recorder.secured(step, now - tls.shaking_since, tls.is_resumed());
            if pending.is_some_and(|pending| pending.acted > Nanos::ZERO) {
                self.send(key, now);
            }
        }
    }

    /// A connection that is refused fails as any other, whatever was to be said on it.
    fn cause_in_handshake(&self, key: usize, trouble: &Trouble) -> Cause {
        match trouble.cause() {
            Cause::Reset if self.table.connections[key].http.state == State::Connecting => {
                Cause::ConnectRefused
            }
            cause => cause,
        }
    }
}
