//! Requests on a connection: one alone, or several in one piece, and the rest of what the socket did not take.

use rustix::{
    event::epoll::{self, EventFlags},
    io::Errno,
};
use sojourn_measure::Nanos;

use crate::{
    clients::{
        connection::{ARRIVALS, Connection, State, event_data},
        run::Run,
    },
    http::cause,
    statistics::recorder::Exchange,
};

impl Run<'_> {
    /// Sends the pending request of a connection's client, and with it what may go together with it.
    pub(crate) fn send(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.table.connections[key];
        let Some(pending) = connection.owner.and_then(|owner| self.table.clients[owner].pending) else {
            return;
        };
        connection.reception.reset(self.catalogue.is_bodiless(pending.document));
        connection.exchange = Exchange { pending, sent: now, first_byte: None };
        if self.settings.transport.pipeline > 1 && connection.state == State::Idle {
            return self.send_together(key, now);
        }
        let request = self.catalogue.request(pending.document);
        match connection.transmit(request) {
            Ok(sent) => {
                if sent < request.len() {
                    connection.unsent.extend_from_slice(&request[sent..]);
                }
                self.sent(key, now);
            }
            // Not yet connected: the socket will report when it is writable.
            Err(Errno::AGAIN) => {}
            Err(error) => self.fail_or_retry(key, cause::cause(error), now),
        }
    }

    /// Sends a connection's first exchange and those beside it in one piece.
    fn send_together(&mut self, key: usize, now: Nanos) {
        let first = self.table.connections[key].exchange.pending;
        let mut bytes = self.catalogue.request(first.document).to_vec();
        let Some(owner) = self.table.connections[key].owner else { return };
        let room = {
            let Connection { requests_max, answered, .. } = self.table.connections[key];
            (requests_max - answered).min(self.settings.transport.pipeline) - 1
        };
        for _ in 0..room {
            let Some(due) = self.workload.beside(&mut self.table.clients[owner].itinerary, first.intended)
            else {
                break;
            };
            let mut pending = self.pending(due, first.intended);
            pending.acted = now;
            self.recorder.begin(pending.step, now);
            bytes.extend_from_slice(self.catalogue.request(pending.document));
            self.table.connections[key].piped.push_back(Exchange { pending, sent: now, first_byte: None });
        }
        let connection = &mut self.table.connections[key];
        match connection.transmit(&bytes) {
            Ok(sent) => {
                bytes.drain(..sent);
                connection.unsent = bytes;
                self.sent(key, now);
            }
            Err(error) => self.fail_or_retry(key, cause::cause(error), now),
        }
    }

    /// The requests under way are the connection's now, even if the socket has not taken all of them.
    fn sent(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.table.connections[key];
        if connection.state == State::Connecting {
            self.recorder.connected(connection.exchange.pending.step, connection.opened, now);
        }
        if let Some(owner) = connection.owner {
            self.table.clients[owner].pending = None;
        }
        connection.state = State::Receiving;
        if connection.has_unsent() {
            connection.state = State::Sending;
            // Not registered yet when it was just opened: it will be, for this too.
            let data = event_data(key, connection.serial);
            let _ = epoll::modify(&self.wakeups.epoll, &connection.socket, data, ARRIVALS | EventFlags::OUT);
        }
    }

    /// Sends what the socket did not take before.
    pub(super) fn send_rest(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.table.connections[key];
        match connection.transmit_rest() {
            Ok(()) if connection.has_unsent() => {}
            Ok(()) => connection.state = State::Receiving,
            Err(error) => self.fail_or_retry(key, cause::cause(error), now),
        }
    }
}
