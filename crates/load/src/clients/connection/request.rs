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
                self.catalogue.request_of(pending.document, form, visitor, &mut self.request_space)
            }
            _ => self.catalogue.whole_request(pending.document, &mut self.request_space),
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
        let mut bytes = Vec::new();
        self.catalogue.append_request(first.document, &mut bytes);
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
            self.catalogue.append_request(pending.document, &mut bytes);
            self.table.connections[key].pipelined.push_back(Exchange {
                pending,
                sent: now,
                first_byte: None,
            });
        }
        let http = &mut self.table.connections[key].http;
        // Whatever comes of it, all of them are under way on this connection.
        http.state = State::Sending;
        match http.send(&bytes) {
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::{Shutdown, shutdown};
    use sojourn_measure::clock;

    use super::*;
    use crate::{
        http::{
            request::{Form, Version},
            target::Target,
        },
        plan::{
            Arrivals, Catalogue, Connections, Distribution, Limits, Observe, Pick, Plan, Requests, Schedule,
            StopRule, Think, Transport, Waiting,
        },
    };

    /// A run of one client that sends four requests together.
    fn run(url: &str) -> Run<'static> {
        let target = Target::resolve(url).unwrap();
        let plan = Plan {
            catalogue: Catalogue::single(&Form::get(&target, Version::Http11, Connections::KeepAlive)),
            target,
            arrivals: Arrivals::Closed { clients: 1 },
            requests: Requests::Pick(Pick::First),
            think: Think::AfterAnswer(Distribution::NONE),
            connections: Connections::KeepAlive,
            tls: None,
            transport: Transport { pipeline: 4, ..Transport::default() },
            schedule: Schedule::single(Nanos::ZERO, Nanos(1_000_000_000), None),
            stop: StopRule::ScheduleEnd,
            limits: Limits::default(),
            waiting: Waiting::Sleep { timer_slack: Nanos::ZERO },
            observe: Observe::default(),
            seed: 1,
        };
        Run::new(plan, 64, false).unwrap()
    }

    #[test]
    fn requests_that_cannot_be_sent_together_all_fail() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut run = run(&format!("http://{}/", listener.local_addr().unwrap()));
        let visit_state = run.workload.start().unwrap();
        let client = run.table.add_client(visit_state);
        let due = run.workload.first(&mut run.table.clients[client].visit_state).unwrap();
        run.open(client);
        // From now on it is established.
        let _server = listener.accept().unwrap();
        let http = &mut run.table.connections[run.table.clients[client].connection.unwrap()].http;
        http.state = State::Idle;
        shutdown(&http.socket, Shutdown::Write).unwrap();
        run.table.clients[client].pending = Some(run.pending(due, clock::now()));
        run.dispatch(client);
        let totals = run.recorder.totals;
        assert_eq!((totals.errors, totals.in_flight.count), (4, 0));
        assert!(run.table.clients[client].connection.is_none());
    }
}
