//! Opens connections: the TCP handshake, then the TLS handshake for https.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::epoll::{self, EventFlags};
use sojourn_measure::{Nanos, clock};

use crate::{
    clients::{
        Run,
        connection::{ARRIVALS, Connection, event_data},
    },
    http::{
        cause::{self, Cause},
        connection::{HttpConnection, State},
        response_reader::ResponseReader,
        tls::Tls,
        tls_stream::{TlsStream, TransportError},
    },
    plan::{Connections, scenario::BODY_KEPT_BYTES_MAX},
    runtime::{connector::Connector, read_rate::ReadRate},
    statistics::step::Exchange,
};

/// Opens connections to the server under test.
pub(crate) struct Opener {
    pub(crate) connector: Connector,
    pub(crate) tls: Option<Tls>,
    /// Draws how many requests a connection carries.
    pub(crate) random: Xoshiro256PlusPlus,
    /// Since when the server has refused every connection.
    pub(crate) refused_since: Option<Nanos>,
}

impl Opener {
    pub(crate) fn requests_max(&mut self, connections: Connections) -> u32 {
        match connections {
            Connections::KeepAlive => u32::MAX,
            Connections::Close => 1,
            Connections::Requests(count) => count.draw(&mut self.random),
        }
    }
}

impl Run<'_> {
    /// Opens a connection for a client. If it is established at once, as on a short path, a pending request is sent
    /// immediately, which saves a wait.
    pub(crate) fn open(&mut self, key: usize) {
        if self.settings.transport.streams.is_some() {
            return self.open_shared(key);
        }
        let opened = clock::now();
        let (socket, source) = match self.opener.connector.open() {
            Ok(open) => open,
            Err(error) => return self.fail_client(key, cause::cause(error), opened),
        };
        let established = clock::now();
        let reader = match &self.users {
            Some(_) => ResponseReader::keeping(BODY_KEPT_BYTES_MAX),
            None => ResponseReader::new(self.catalogue.verifies()),
        };
        let mut http = HttpConnection::new(socket, opened, reader);
        http.read_rate = self.settings.transport.read_bytes_per_second.map(ReadRate::new);
        http.tls = match self.opener.tls.as_ref().map(|tls| tls.session()).transpose() {
            Ok(session) => session.map(|session| Box::new(TlsStream::new(session, established))),
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
            pipelined: VecDeque::new(),
        });
        self.table.clients[key].connection = Some(connection);
        let begun = self.table.clients[key].pending.is_some_and(|pending| pending.acted > Nanos::ZERO);
        if self.opener.tls.is_some() {
            self.handshake(connection, established);
        } else if begun {
            self.send(connection, clock::now());
        }
        self.watch(connection, serial, opened);
    }

    /// Registers a new connection with epoll, if it still exists: it may have failed at once and been replaced.
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

    /// Handles the result of the TCP handshake.
    pub(super) fn on_connected(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.table.connections[key];
        if let Some(cause) = connection.http.connect_error() {
            return self.fail(key, cause, at);
        }
        if connection.http.tls.is_some() {
            return self.handshake(key, at);
        }
        let Some(owner) = connection.owner else { return };
        connection.http.state = State::Idle;
        let pending = self.table.clients[owner].pending;
        self.recorder.connected(pending.and_then(|pending| pending.step), connection.http.opened, at);
        if pending.is_some_and(|pending| pending.acted > Nanos::ZERO) {
            self.send(key, clock::now());
        }
    }

    /// Continues the TLS handshake. If the connection is established, it was so by `at`.
    pub(super) fn handshake(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.table.connections[key];
        let HttpConnection { tls, socket, state, opened, .. } = &mut connection.http;
        let (Some(tls), Some(owner)) = (tls, connection.owner) else { return };
        let done = match tls.handshake(socket) {
            Ok(done) => done,
            Err(error) => return self.fail(key, self.cause_in_handshake(key, &error), clock::now()),
        };
        let pending = self.table.clients[owner].pending;
        let step = pending.and_then(|pending| pending.step);
        if *state == State::Connecting && !tls.has_unsent() {
            // The first handshake message could only be sent once the connection was established.
            *state = State::Handshaking;
            tls.handshake_since = at;
            self.recorder.connected(step, *opened, at);
        }
        if done {
            let now = clock::now();
            *state = State::Idle;
            self.recorder.secured(step, now - tls.handshake_since, tls.is_resumed());
            if pending.is_some_and(|pending| pending.acted > Nanos::ZERO) {
                self.send(key, now);
            }
        }
    }

    /// The cause of a failed TLS handshake: a reset before the connection is established means refused.
    fn cause_in_handshake(&self, key: usize, error: &TransportError) -> Cause {
        match error.cause() {
            Cause::Reset if self.table.connections[key].http.state == State::Connecting => {
                Cause::ConnectRefused
            }
            cause => cause,
        }
    }
}
