//! A client's next step: wait, connect, send, continue, or give up.
//!
//! A client makes one visit, or in a closed loop one after another. It has at most one connection, and one pending
//! request that waits for its time or for a connection. Requests that have been sent belong to the connection.

use crate::{
    clients::{Ended, Run, http2::Place},
    http::{cause::Cause, connection::State},
    plan::{
        scenario::user::User,
        visitor::Visitor,
        workload::{DueRequest, VisitState},
    },
    statistics::step::PendingRequest,
};
use sojourn_measure::{Nanos, clock};

/// How long a closed-loop client waits after a failure, so that it does not hammer a dead server.
pub const RETRY_AFTER: Nanos = Nanos(50_000_000);

pub struct Client {
    pub visit_state: VisitState,
    /// The virtual user that makes the visit, if the run has users.
    pub user: Option<Box<User>>,
    /// The visitor that this client plays on a site with advertisements.
    pub(crate) visitor: Visitor,
    pub connection: Option<usize>,
    /// Its place on a connection of HTTP/2.
    pub place: Option<Place>,
    /// Its request that has not been sent yet.
    pub pending: Option<PendingRequest>,
    /// Why one request of a burst failed, while the others are still in flight.
    pub failure: Option<Cause>,
    /// Distinguishes the client from an earlier one with the same key, for late timers.
    pub serial: u32,
    pub received_bytes: u64,
    /// Bytes received before the current step.
    pub received_before_step: u64,
}

impl Run<'_> {
    /// Starts the next client, or skips its arrival if too many are in progress. If its first request is due later, it
    /// connects now and waits.
    pub(crate) fn start_client(&mut self, at: Nanos, now: Nanos) {
        if self.table.clients.len() >= self.settings.under_way_max {
            self.workload.skip();
            if let Some(step) = self.settings.step_of(at) {
                self.recorder.steps[step].skipped += 1;
            }
            return;
        }
        let Some(visit_state) = self.workload.start() else { return };
        let key = self.table.add_client(visit_state);
        let Some(due) = self.begin_visit(key) else { return self.remove_client(key) };
        self.recorder.totals.sessions_started += 1;
        self.table.take_parked(key);
        self.schedule_request(key, due, Nanos::ZERO, now);
        if due.at > now {
            self.open(key);
        }
    }

    /// Handles an expired timer of a client.
    pub(crate) fn wake(&mut self, key: usize, serial: u32) {
        if self.table.clients.get(key).is_some_and(|client| client.serial == serial) {
            self.dispatch(key);
        }
    }

    /// Continues at `at` after a response or a failure, when nothing else is in flight.
    pub(crate) fn advance(&mut self, key: usize, at: Nanos, ended: Ended) {
        self.table.clients[key].pending = None;
        // A complete response of the wrong kind takes as long as a good one, also if the connection ends with it. Other
        // failures may be instant, so the client waits after them.
        let pause = if ended == Ended::Failed { RETRY_AFTER } else { Nanos::ZERO };
        if ended != Ended::Well && self.failure_ends_visit(key) {
            self.recorder.totals.sessions_failed += 1;
            self.count_abandoned(key, at);
            return self.end_visit(key, at + pause, at);
        }
        // A request that was due before the end and waited for this response is part of the load.
        let end = self.draining.unwrap_or(Nanos::MAX);
        let client = &mut self.table.clients[key];
        match self.workload.next(&mut client.visit_state, at + pause, client.received_bytes) {
            Some(due) if due.at < end => self.schedule_request(key, due, at + pause, at),
            Some(_) => self.remove_client(key),
            None => {
                match ended {
                    Ended::Well => self.recorder.totals.sessions_completed += 1,
                    Ended::WronglyAnswered | Ended::Failed => self.recorder.totals.sessions_failed += 1,
                }
                self.end_visit(key, at + pause, at);
            }
        }
    }

    /// Sends a client's request, over a new connection if necessary.
    pub(crate) fn dispatch(&mut self, key: usize) {
        let now = clock::now();
        let client = &mut self.table.clients[key];
        let Some(pending) = client.pending.as_mut().filter(|pending| pending.acted == Nanos::ZERO) else {
            return;
        };
        pending.acted = now;
        self.recorder.begin(pending.step, now);
        if !self.prepare(key, now) {
            return;
        }
        match self.table.clients[key].connection {
            None => self.open(key),
            Some(connection) if self.table.connections[connection].http.state == State::Idle => {
                self.send(connection, now)
            }
            // Still connecting: it is sent as soon as the connection is established.
            Some(_) => {}
        }
    }

    /// Removes a client; its connection may be kept for the next client.
    pub(crate) fn remove_client(&mut self, key: usize) {
        self.take_user_back(key);
        let client = self.table.clients.remove(key);
        let Some(connection) = client.connection else {
            if let Some(place) = client.place {
                self.free_place(place);
            }
            return;
        };
        if self.parks()
            && self.draining.is_none()
            && self.table.connections[connection].http.state == State::Idle
        {
            self.table.park(connection);
        } else {
            self.close(connection);
        }
    }

    /// Counts requests of a session that were due before `end` but waited for an earlier one.
    pub(crate) fn count_held_up(&mut self, key: usize, end: Nanos) {
        for due in self.workload.due_later(&self.table.clients[key].visit_state) {
            if let Some(step) = self.settings.step_of(due).filter(|_| due < end) {
                self.recorder.steps[step].unfinished += 1;
            }
        }
    }

    /// Counts the remaining requests of a failed session as abandoned.
    fn count_abandoned(&mut self, key: usize, at: Nanos) {
        let visit_state = &self.table.clients[key].visit_state;
        let due = self.workload.due_later(visit_state);
        // Requests that wait for a response have no time of their own: they would have followed.
        let times = due.into_iter().chain(std::iter::repeat(at));
        for (document, due) in self.workload.later(visit_state).zip(times) {
            if let Some(step) = self.settings.step_of(due) {
                self.recorder.steps[step].abandon(self.catalogue.name_of(document));
            }
        }
    }

    /// Starts the next visit of a closed-loop client, as a new client with a new connection.
    fn end_visit(&mut self, key: usize, answered: Nanos, now: Nanos) {
        if self.draining.is_some() {
            return self.remove_client(key);
        }
        let before = &self.table.clients[key].visit_state;
        let Some(visit_state) = self.workload.next_visit(before, answered) else {
            return self.remove_client(key);
        };
        self.take_user_back(key);
        self.table.clients[key].visit_state = visit_state;
        let Some(due) = self.begin_visit(key) else { return self.remove_client(key) };
        if !self.workload.users_stay()
            && let Some(connection) = self.table.clients[key].connection.take()
        {
            self.close(connection);
        }
        self.recorder.totals.sessions_started += 1;
        let client = &mut self.table.clients[key];
        client.received_bytes = 0;
        client.received_before_step = 0;
        self.schedule_request(key, due, answered, now);
    }

    /// The first request of a client's visit, or in a closed loop of the next visit that has any. `None` if there is none.
    fn begin_visit(&mut self, key: usize) -> Option<DueRequest> {
        loop {
            self.assign_user(key);
            let visit_state = &mut self.table.clients[key].visit_state;
            if let Some(due) = self.workload.first(visit_state) {
                return Some(due);
            }
            let next = self.workload.next_after_empty(visit_state)?;
            self.take_user_back(key);
            self.table.clients[key].visit_state = next;
        }
    }

    fn schedule_request(&mut self, key: usize, due: DueRequest, answered: Nanos, now: Nanos) {
        let intended = due.at.max(answered);
        let pending = self.pending(due, intended);
        let client = &mut self.table.clients[key];
        client.pending = Some(pending);
        // After a response, connections are opened when all responses of this loop iteration have been read. The server
        // is then awake and need not be woken for each request.
        let opens_later = answered > Nanos::ZERO && client.connection.is_none();
        // While draining, only what was due before is scheduled, and no timer wakes a client.
        if self.draining.is_none() && (intended > now || opens_later) {
            self.wakeups.timers.set(intended, key, client.serial);
        } else {
            self.dispatch(key);
        }
    }

    pub(crate) fn pending(&self, due: DueRequest, intended: Nanos) -> PendingRequest {
        PendingRequest {
            document: due.document,
            name: self.catalogue.name_of(due.document),
            step: self.settings.step_of(due.at),
            intended,
            acted: Nanos::ZERO,
            retried: false,
        }
    }
}
