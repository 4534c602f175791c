//! What a client does next: wait, connect, send, go on, give up.
//!
//! A client is one of a closed loop or one session. It has at most one connection, and at most one errand:
//! a request that waits for its time or is under way.

use sojourn_measure::{Nanos, clock};

use crate::{
    Cause, Connections,
    agenda::{Due, Itinerary},
    connection::State,
    run::Run,
};

/// How long a client of a closed loop waits after a failure, lest a dead server be hammered.
pub const RETRY_AFTER: Nanos = Nanos(50_000_000);

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its place in the agenda.
    pub itinerary: Itinerary,
    /// The key of its connection.
    pub connection: Option<usize>,
    /// Its request, waiting or under way.
    pub errand: Option<Errand>,
    /// Tells this client from an earlier one under the same key, in late timers.
    pub serial: u32,
}

/// A request that a client is to make.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errand {
    /// What is asked for.
    pub document: u32,
    /// The step it was due in.
    pub step: Option<usize>,
    /// When it should be sent: when due, or when the answer before it was complete if that was later.
    pub intended: Nanos,
    /// When the generator sent it, or began to connect for it; zero before.
    pub acted: Nanos,
    /// Whether it goes over a second connection because the server had closed the first.
    pub retried: bool,
}

impl Run<'_> {
    /// Lets the next client in. One whose first request is due later connects now and waits.
    pub(crate) fn start_client(&mut self, now: Nanos) {
        let Some(mut itinerary) = self.agenda.start() else { return };
        let Some(due) = self.agenda.first(&mut itinerary) else { return };
        self.ledger.totals.sessions_started += 1;
        self.serial = self.serial.wrapping_add(1);
        let client = Client { itinerary, connection: None, errand: None, serial: self.serial };
        let key = self.clients.insert(client);
        self.take_errand(key, due, Nanos::ZERO, now);
        if due.at > now {
            self.open(key);
        }
    }

    /// A timer of a client went off.
    pub(crate) fn wake(&mut self, key: usize, serial: u32) {
        if self.clients.get(key).is_some_and(|client| client.serial == serial) {
            self.dispatch(key);
        }
    }

    /// Goes on after an answer, or after a failure, that was complete at `at`.
    pub(crate) fn advance(&mut self, key: usize, at: Nanos, failure: Option<Cause>) {
        self.clients[key].errand = None;
        if failure.is_some() && !self.agenda.goes_on_after_failure() {
            return self.abandon(key);
        }
        // A complete response of the wrong kind is as slow as a good one; anything else may fail at once.
        let connected = self.clients[key].connection.is_some();
        let pause = if failure.is_some() && !connected { RETRY_AFTER } else { Nanos::ZERO };
        // What was due before the end and waited for this answer is still sent; it is part of the load.
        let end = self.draining.unwrap_or(Nanos::MAX);
        match self.agenda.next(&mut self.clients[key].itinerary, at + pause) {
            Some(due) if due.at < end => self.take_errand(key, due, at + pause, at),
            _ => self.dismiss(key),
        }
    }

    /// Sends a client's request, over a new connection if there is none.
    pub(crate) fn dispatch(&mut self, key: usize) {
        let now = clock::now();
        let client = &mut self.clients[key];
        let Some(errand) = client.errand.as_mut().filter(|errand| errand.acted == Nanos::ZERO) else {
            return;
        };
        errand.acted = now;
        self.ledger.begin(errand.step, now);
        match client.connection {
            None => self.open(key),
            Some(connection) if self.connections[connection].state == State::Idle => {
                self.send(connection, now)
            }
            // Still connecting: sent as soon as that is done.
            Some(_) => {}
        }
    }

    /// Whether a connection may serve another request after `answered`.
    pub(crate) fn may_reuse(&self, answered: u32) -> bool {
        match self.plan_connections {
            Connections::KeepAlive => true,
            Connections::Close => false,
            Connections::Requests(most) => answered < most,
        }
    }

    /// Lets a client go.
    pub(crate) fn dismiss(&mut self, key: usize) {
        let client = self.clients.remove(key);
        if let Some(connection) = client.connection {
            self.close(connection);
        }
    }

    /// Lets a session go that failed; the requests it still had are counted, not forgotten.
    fn abandon(&mut self, key: usize) {
        for due in self.agenda.rest(&self.clients[key].itinerary) {
            if let Some(step) = self.step_of(due) {
                self.ledger.steps[step].abandoned += 1;
            }
        }
        self.dismiss(key);
    }

    /// Counts the requests of a session that were due before `end` but wait for the one before them.
    pub(crate) fn count_held_up(&mut self, key: usize, end: Nanos) {
        for due in self.agenda.rest(&self.clients[key].itinerary) {
            if let Some(step) = self.step_of(due).filter(|_| due < end) {
                self.ledger.steps[step].unfinished += 1;
            }
        }
    }

    fn take_errand(&mut self, key: usize, due: Due, answered: Nanos, now: Nanos) {
        let intended = due.at.max(answered);
        let errand = Errand {
            document: due.document,
            step: self.step_of(due.at),
            intended,
            acted: Nanos::ZERO,
            retried: false,
        };
        let client = &mut self.clients[key];
        client.errand = Some(errand);
        if intended > now {
            self.timers.set(intended, key, client.serial);
        } else {
            self.dispatch(key);
        }
    }
}
