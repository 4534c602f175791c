//! A connection's beginning: the handshake of TCP, then that of TLS where it is spoken.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::epoll::{self, EventFlags};
use sojourn_measure::{Nanos, clock};

use crate::{
    clients::{
        connection::{ARRIVALS, Connection, State, event_data},
        run::Run,
    },
    http::{
        cause::{self, Cause},
        response_reader::Reception,
        tls::Tls,
        tls_stream::{Secured, Trouble},
    },
    plan::Connections,
    runtime::{
        connector::{self, Connector},
        read_rate::Reader,
    },
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
        let secured = match self.opener.tls.as_ref().map(|tls| tls.session()).transpose() {
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
            socket,
            serial,
            owner: Some(key),
            state: State::Connecting,
            opened,
            source,
            closed_by_server: false,
            answered: 0,
            requests_max: self.opener.requests_max(self.settings.connections),
            exchange: Exchange::default(),
            piped: VecDeque::new(),
            unsent: Vec::new(),
            reception: Reception::new(self.catalogue.verifies()),
            secured,
            reader: self.settings.transport.read_bytes_per_second.map(Reader::new),
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
        let Some(Connection { socket, state, .. }) = live else { return };
        let is_written = matches!(state, State::Receiving | State::Shaking);
        let writable = if is_written { EventFlags::empty() } else { EventFlags::OUT };
        let added = epoll::add(&self.wakeups.epoll, socket, event_data(key, serial), ARRIVALS | writable);
        if let Err(error) = added {
            self.fail(key, cause::cause(error), opened);
        }
    }

    /// The handshake of TCP is over, one way or the other.
    pub(super) fn on_connected(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.table.connections[key];
        if connection.closed_by_server
            && let Some(error) = connector::socket_error(&connection.socket)
        {
            let cause = cause::cause(error);
            self.fail(key, if cause == Cause::Reset { Cause::ConnectRefused } else { cause }, at);
            return;
        }
        if connection.secured.is_some() {
            return self.shake(key, at);
        }
        let Some(owner) = connection.owner else { return };
        connection.state = State::Idle;
        let pending = self.table.clients[owner].pending;
        self.recorder.connected(pending.and_then(|pending| pending.step), connection.opened, at);
        if pending.is_some_and(|pending| pending.acted > Nanos::ZERO) {
            self.send(key, clock::now());
        }
    }

    /// Goes on with the handshake of TLS; the connection was there by `at`, if it is.
    pub(super) fn shake(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.table.connections[key];
        let (Some(secured), Some(owner)) = (&mut connection.secured, connection.owner) else { return };
        let done = match secured.shake(&connection.socket) {
            Ok(done) => done,
            Err(trouble) => return self.fail(key, self.cause_in_handshake(key, &trouble), clock::now()),
        };
        let pending = self.table.clients[owner].pending;
        let step = pending.and_then(|pending| pending.step);
        if connection.state == State::Connecting && !secured.has_unsent() {
            // What was said first could only go once the connection was there.
            connection.state = State::Shaking;
            secured.shaking_since = at;
            self.recorder.connected(step, connection.opened, at);
        }
        if done {
            let now = clock::now();
            connection.state = State::Idle;
            self.recorder.secured(step, now - secured.shaking_since, secured.is_resumed());
            if pending.is_some_and(|pending| pending.acted > Nanos::ZERO) {
                self.send(key, now);
            }
        }
    }

    /// A connection that is refused fails as any other, whatever was to be said on it.
    fn cause_in_handshake(&self, key: usize, trouble: &Trouble) -> Cause {
        match trouble.cause() {
            Cause::Reset if self.table.connections[key].state == State::Connecting => Cause::ConnectRefused,
            cause => cause,
        }
    }
}
