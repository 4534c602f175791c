//! Reads responses from a connection and records complete ones.
//!
//! Bytes count as arrived when the wait that reported them returned, not when they are read: the time in between
//! belongs to the generator, not the server. With kernel timestamps they count as arrived when the kernel received
//! them.

use std::mem;

use sojourn_measure::{Nanos, clock};

use crate::{
    clients::{Ended, Run},
    http::{
        cause::Cause,
        connection::{Read, Received},
        response_reader::{Progress, Response},
    },
    plan::{scenario::user::Next as Judged, visitor::VisitorForm},
    statistics::step::Exchange,
};

/// Reads per connection before others are read, so that a server that never stops sending does not starve them.
const READS_MAX: usize = 16;

enum Next {
    Read,
    Wait,
}

impl Run<'_> {
    /// Reads what has arrived by `at`. A short read means that there is no more, which saves a system call.
    pub(crate) fn receive(&mut self, key: usize, serial: u32, at: Nanos) {
        let mut now = at;
        for _ in 0..READS_MAX {
            let http = &mut self.table.connections[key].http;
            let received = match http.read(&mut self.buffer[..], self.settings.transport.timestamps, now) {
                Ok(Read::Received(received)) => received,
                Ok(Read::Nothing) => return,
                Ok(Read::Limited) => return self.receive_later(key, serial),
                Err(error) => return self.fail_or_retry(key, error.cause(), now),
            };
            let time = received.stamp.map_or(now, |stamp| self.note_arrival(key, stamp));
            if received.bytes == 0 {
                return self.on_end(key, time);
            }
            match self.process(key, &received, time) {
                Next::Read if !received.is_all => now = clock::now(),
                _ => return,
            }
        }
        self.wakeups.unread.push((key, serial));
    }

    /// Continues when the read rate allows more.
    fn receive_later(&mut self, key: usize, serial: u32) {
        let Some(reader) = &mut self.table.connections[key].http.read_rate else { return };
        if !mem::replace(&mut reader.waiting, true) {
            self.wakeups.slow_reads.set(reader.free_at(), key, serial);
        }
    }

    /// Converts a kernel timestamp to the monotonic clock, and records how long the first bytes waited for the
    /// generator.
    fn note_arrival(&mut self, key: usize, arrived: Nanos) -> Nanos {
        let exchange = &self.table.connections[key].exchange;
        let looked = clock::now();
        let time = (arrived - self.wakeups.wall_ahead).clamp(exchange.sent, looked);
        let step = exchange.pending.step.filter(|_| exchange.first_byte.is_none());
        if let Some(step) = step.and_then(|step| self.recorder.steps.get_mut(step)) {
            step.receive_lag.record(looked - time);
        }
        time
    }

    /// The server has closed the connection: that completes some responses and truncates others.
    fn on_end(&mut self, key: usize, at: Nanos) {
        match self.table.connections[key].http.response.end() {
            Ok(response) => self.complete(key, &response, at),
            Err(cause) => self.fail_or_retry(key, cause, at),
        }
    }

    fn process(&mut self, key: usize, received: &Received, at: Nanos) -> Next {
        self.recorder.totals.received_bytes += received.bytes as u64;
        let connection = &mut self.table.connections[key];
        if let Some(owner) = connection.owner {
            self.table.clients[owner].received_bytes += received.bytes as u64;
        }
        connection.exchange.first_byte.get_or_insert(at);
        let mut from = 0;
        loop {
            let connection = &mut self.table.connections[key];
            let response = match connection.http.take(&self.buffer[..], received, from) {
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
            let more = from < received.bytes;
            if connection.pipelined.is_empty() {
                // More bytes than requested: framing is lost, so the connection is unusable.
                match more {
                    true => self.fail_or_retry(key, Cause::BadResponse, at),
                    false => self.complete(key, &response, at),
                }
                return Next::Wait;
            }
            match self.complete_pipelined(key, &response, more, at) {
                Next::Read if more => {}
                next => return next,
            }
        }
    }

    /// One of several pipelined responses is complete; `more` bytes start the next.
    fn complete_pipelined(&mut self, key: usize, response: &Response, more: bool, at: Nanos) -> Next {
        let failure = self.answered(key, response, None, at);
        let connection = &mut self.table.connections[key];
        if let Some(owner) = connection.owner {
            self.table.clients[owner].failure = self.table.clients[owner].failure.or(failure);
        }
        if let Some(next) = connection.pipelined.pop_front() {
            connection.http.response.reset(self.catalogue.is_bodiless(next.pending.document));
            connection.exchange = Exchange { first_byte: more.then_some(at), ..next };
        }
        if response.keep_alive {
            return Next::Read;
        }
        // RFC 9112, 9.6: requests after a closing response are not answered.
        self.fail(key, Cause::ClosedEarly, at);
        Next::Wait
    }

    /// The last response in flight is complete.
    fn complete(&mut self, key: usize, response: &Response, at: Nanos) {
        let judged = self.judged_by_user(key, response);
        let follows = judged == Some(Judged::Follow);
        let failure = if follows { None } else { self.answered(key, response, judged, at) };
        let connection = &mut self.table.connections[key];
        connection.http.answered += u32::from(follows);
        let Some(owner) = connection.owner else { return };
        let pending = connection.exchange.pending;
        connection.http.complete();
        let ended = connection.http.closed_by_server;
        let reusable = response.keep_alive && connection.http.answered < connection.requests_max;
        if reusable && ended {
            self.drop_closed(key);
        } else if !reusable {
            self.detach(key, owner, !ended && !response.keep_alive, at);
        }
        if follows {
            return self.follow(owner, pending, clock::now());
        }
        let failure = self.table.clients[owner].failure.take().or(failure);
        self.advance(owner, at, Ended::answered(failure));
    }

    /// Records a response; returns what is wrong with it, if anything.
    fn answered(
        &mut self,
        key: usize,
        response: &Response,
        judged: Option<Judged>,
        at: Nanos,
    ) -> Option<Cause> {
        let connection = &mut self.table.connections[key];
        connection.http.answered += 1;
        self.opener.refused_since = None;
        let document = connection.exchange.pending.document;
        let mut failure = match judged {
            Some(Judged::Over(failure)) => failure,
            _ => {
                let content = connection.http.response.digest();
                self.catalogue.judge(document, response, content)
            }
        };
        if let Some(VisitorForm::ShownAdvertisement) = self.catalogue.visitor_form(document)
            && let Some(owner) = connection.owner
        {
            let head = connection.http.response.take_kept_head();
            let was_shown = self.table.clients[owner].visitor.read_shown(&head);
            failure = failure.or((!was_shown).then_some(Cause::ValueMissing));
        }
        self.recorder.answer(&connection.exchange, response, failure, at);
        failure
    }
}
