//! Sends requests on a connection, single or pipelined, and bytes that the socket did not accept at first.

use rustix::event::epoll::{self, EventFlags};
use sojourn_measure::Nanos;

use crate::{
    clients::{
        Run,
        connection::{ARRIVALS, Connection, event_data},
    },
    http::{cause, connection::State},
    plan::visitor::VisitorForm,
    statistics::step::Exchange,
};

impl Run<'_> {
    /// Sends the pending request of a connection's client, with pipelined ones.
    pub(crate) fn send(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.table.connections[key];
        let Some(pending) = connection.owner.and_then(|owner| self.table.clients[owner].pending) else {
            return;
        };
        connection.exchange = Exchange { pending, sent: now, first_byte: None };
        if self.users.is_some() {
            return self.send_of_user(key, now);
        }
        connection.http.response.reset(self.catalogue.is_bodiless(pending.document));
        if self.settings.transport.pipeline > 1 && connection.http.state == State::Idle {
            return self.send_together(key, now);
        }
        let was_connecting = connection.http.state == State::Connecting;
        let form = self.catalogue.visitor_form(pending.document);
        let bytes = match (form, connection.owner) {
            (Some(form), Some(owner)) => {
                if form == VisitorForm::ShownAdvertisement {
                    connection.http.response.reset_keeping_head(false, false);
                }
                let visitor = &self.table.clients[owner].visitor;
                self.catalogue.request_of(pending.document, form, visitor, &mut self.visitor_request)
            }
            _ => self.catalogue.request(pending.document),
        };
        match connection.http.send(bytes) {
            Ok(true) => self.sent(key, was_connecting, now),
            // The socket reports when it is connected.
            Ok(false) => {}
            Err(error) => self.fail_or_retry(key, cause::cause(error), now),
        }
    }

    /// Sends what the user of a connection's client has prepared.
    fn send_of_user(&mut self, key: usize, now: Nanos) {
        let connection = &mut self.table.connections[key];
        let user = connection.owner.and_then(|owner| self.table.clients[owner].user.as_ref());
        let (Some(users), Some(user)) = (&self.users, user) else { return };
        let keeps_body = user.needs_body(&users.scenario, connection.exchange.pending.document);
        connection.http.response.reset_keeping_head(user.is_bodiless(), keeps_body);
        let was_connecting = connection.http.state == State::Connecting;
        match connection.http.send(user.bytes()) {
            Ok(true) => self.sent(key, was_connecting, now),
            // The socket reports when it is connected.
            Ok(false) => {}
            Err(error) => self.fail_or_retry(key, cause::cause(error), now),
        }
    }

    /// Sends a connection's first exchange and those pipelined with it in one piece.
    fn send_together(&mut self, key: usize, now: Nanos) {
        let first = self.table.connections[key].exchange.pending;
        let mut bytes = self.catalogue.request(first.document).to_vec();
        let Some(owner) = self.table.connections[key].owner else { return };
        let room = {
            let Connection { requests_max, http, .. } = &self.table.connections[key];
            (requests_max - http.answered).min(self.settings.transport.pipeline) - 1
        };
        for _ in 0..room {
            let Some(due) =
                self.workload.next_in_burst(&mut self.table.clients[owner].visit_state, first.intended)
            else {
                break;
            };
            let mut pending = self.pending(due, first.intended);
            pending.acted = now;
            self.recorder.begin(pending.step, now);
            bytes.extend_from_slice(self.catalogue.request(pending.document));
            self.table.connections[key].pipelined.push_back(Exchange {
                pending,
                sent: now,
                first_byte: None,
            });
        }
        match self.table.connections[key].http.send(&bytes) {
            Ok(_) => self.sent(key, false, now),
            Err(error) => self.fail_or_retry(key, cause::cause(error), now),
        }
    }

    /// The requests now belong to the connection, even if the socket has not accepted all bytes.
    fn sent(&mut self, key: usize, was_connecting: bool, now: Nanos) {
        let connection = &mut self.table.connections[key];
        if was_connecting {
            self.recorder.connected(connection.exchange.pending.step, connection.http.opened, now);
        }
        if let Some(owner) = connection.owner {
            self.table.clients[owner].pending = None;
        }
        if connection.http.state == State::Sending {
            // A connection that was just opened is not registered yet; it will be, including this.
            let (data, flags) = (event_data(key, connection.serial), ARRIVALS | EventFlags::OUT);
            let _ = epoll::modify(&self.wakeups.epoll, &connection.http.socket, data, flags);
        }
    }

    /// Sends bytes that the socket did not accept before.
    pub(super) fn send_rest(&mut self, key: usize, now: Nanos) {
        if let Err(error) = self.table.connections[key].http.send_rest() {
            self.fail_or_retry(key, cause::cause(error), now);
        }
    }
}
