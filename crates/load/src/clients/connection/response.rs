//! Responses on a connection: bytes are taken from the socket, and what they amount to is done.
//!
//! The time of an arrival is the time the wait returned: the bytes were there by then, and what the generator
//! takes to reach them is not the server's doing. Where the kernel stamps what it receives, it is that time.

use std::mem;

use rustix::io::Errno;
use sojourn_measure::{Nanos, clock};

use crate::{
    clients::{
        connection::{Connection, State},
        run::{BUFFER_BYTES, Run},
    },
    http::{
        cause::Cause,
        response_reader::{Progress, Response},
        tls_stream::Trouble,
    },
    runtime::{
        receive,
        receive::{DISCARD_BYTES_MAX, DISCARD_BYTES_MIN, Received},
    },
    statistics::recorder::Exchange,
};

/// Reads of one connection before others have their turn: a server that never stops sending holds up none.
const READS_MAX: usize = 16;

enum Next {
    Read,
    Wait,
}

/// The parameters of one read.
struct Asked {
    bytes: u64,
    /// True if they are thrown away in the kernel.
    unseen: bool,
}

impl Connection {
    /// The bytes that may be read now: none while an emulated slow line is busy.
    fn asked(&self, now: Nanos) -> Asked {
        let discardable = self.reception.discardable().filter(|&bytes| bytes >= DISCARD_BYTES_MIN);
        // Sealed bytes have to be opened.
        let discardable = discardable.filter(|_| self.secured.is_none());
        let bytes = discardable.map_or(BUFFER_BYTES as u64, |bytes| bytes.min(DISCARD_BYTES_MAX));
        let allowed = self.reader.as_ref().map_or(u64::MAX, |reader| reader.allowed(now));
        Asked { bytes: bytes.min(allowed), unseen: discardable.is_some() }
    }

    /// Takes what was asked for, as far as it is there.
    fn take(&mut self, room: &mut [u8], asked: &Asked, stamps: bool) -> Result<Received, Trouble> {
        let bytes = asked.bytes as usize;
        match &mut self.secured {
            Some(secured) => secured.receive(&self.socket, &mut room[..bytes], bytes, stamps),
            None if asked.unseen => Ok(receive::discard(&self.socket, bytes, stamps)?),
            None => Ok(receive::receive(&self.socket, &mut room[..bytes], stamps)?),
        }
    }
}

impl Run<'_> {
    /// Takes what has arrived by `at`. A short read means that there is no more, and saves asking.
    pub(crate) fn receive(&mut self, key: usize, serial: u32, at: Nanos) {
        let mut now = at;
        for _ in 0..READS_MAX {
            let connection = &mut self.table.connections[key];
            let asked = connection.asked(now);
            if asked.bytes == 0 {
                return self.receive_later(key, serial);
            }
            let taken = connection.take(&mut self.buffer[..], &asked, self.settings.transport.timestamps);
            let time = match taken {
                Ok((_, Some(arrived))) => self.note_arrival(key, arrived),
                _ => now,
            };
            let connection = &mut self.table.connections[key];
            let received = match taken {
                Ok((0, _)) => return self.on_end(key, time),
                Ok((received, _)) => received,
                Err(Trouble::System(Errno::AGAIN)) => return,
                Err(Trouble::System(Errno::INTR)) => continue,
                Err(trouble) => return self.fail_or_retry(key, trouble.cause(), time),
            };
            if let Some(reader) = &mut connection.reader {
                reader.took(received as u64, now);
            }
            // Of sealed bytes there may be more however few plain ones they were.
            let is_secured = connection.secured.is_some();
            let is_all = (received as u64) < asked.bytes && !connection.closed_by_server && !is_secured;
            match self.take_in(key, received, asked.unseen, time) {
                Next::Read if !is_all => now = clock::now(),
                _ => return,
            }
        }
        self.wakeups.unread.push((key, serial));
    }

    /// Goes on when the slow line is free.
    fn receive_later(&mut self, key: usize, serial: u32) {
        let Some(reader) = &mut self.table.connections[key].reader else { return };
        if !mem::replace(&mut reader.waiting, true) {
            self.wakeups.slow_reads.set(reader.free_at(), key, serial);
        }
    }

    /// When bytes came that the kernel stamped on the wall clock. Until we looked they waited for the generator.
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

    /// The server has closed the connection: the end of some answers, and too early for others.
    fn on_end(&mut self, key: usize, at: Nanos) {
        let connection = &mut self.table.connections[key];
        connection.closed_by_server = true;
        match connection.reception.end() {
            Ok(response) => self.complete(key, &response, at),
            Err(cause) => self.fail_or_retry(key, cause, at),
        }
    }

    /// Does what received bytes amount to.
    fn take_in(&mut self, key: usize, received: usize, discarded: bool, at: Nanos) -> Next {
        self.recorder.totals.received_bytes += received as u64;
        let connection = &mut self.table.connections[key];
        if let Some(owner) = connection.owner {
            self.table.clients[owner].received_bytes += received as u64;
        }
        connection.exchange.first_byte.get_or_insert(at);
        if discarded {
            return match connection.reception.discarded(received as u64) {
                Progress::More => Next::Read,
                Progress::Complete(response) if connection.piped.is_empty() => {
                    self.complete(key, &response, at);
                    Next::Wait
                }
                Progress::Complete(response) => self.complete_one(key, &response, false, at),
            };
        }
        let mut from = 0;
        loop {
            let connection = &mut self.table.connections[key];
            let response = match connection.reception.feed(&self.buffer[from..received]) {
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
            let more = from < received;
            if connection.piped.is_empty() {
                // More than was asked for: the framing is lost, and so is the connection.
                match more {
                    true => self.fail_or_retry(key, Cause::BadResponse, at),
                    false => self.complete(key, &response, at),
                }
                return Next::Wait;
            }
            match self.complete_one(key, &response, more, at) {
                Next::Read if more => {}
                next => return next,
            }
        }
    }

    /// One of several answers is complete; the next is already coming if there are `more` bytes.
    fn complete_one(&mut self, key: usize, response: &Response, more: bool, at: Nanos) -> Next {
        let failure = self.answered(key, response, at);
        let connection = &mut self.table.connections[key];
        if let Some(owner) = connection.owner {
            self.table.clients[owner].failure = self.table.clients[owner].failure.or(failure);
        }
        if let Some(next) = connection.piped.pop_front() {
            connection.reception.reset(self.catalogue.is_bodiless(next.pending.document));
            connection.exchange = Exchange { first_byte: more.then_some(at), ..next };
        }
        if response.keep_alive {
            return Next::Read;
        }
        // RFC 9112, 9.6: what follows a closing answer is not answered.
        self.fail(key, Cause::ClosedEarly, at);
        Next::Wait
    }

    /// The last of the answers under way is complete.
    fn complete(&mut self, key: usize, response: &Response, at: Nanos) {
        let failure = self.answered(key, response, at);
        let connection = &mut self.table.connections[key];
        let Some(owner) = connection.owner else { return };
        connection.state = State::Idle;
        connection.unsent.clear();
        let ended = connection.closed_by_server;
        let reusable = response.keep_alive && connection.answered < connection.requests_max;
        if reusable && ended {
            self.lose(key);
        } else if !reusable {
            self.part(key, owner, !ended && !response.keep_alive, at);
        }
        let failure = self.table.clients[owner].failure.take().or(failure);
        self.advance(owner, at, failure);
    }

    /// Records an answer; why it is no good, if it is not.
    fn answered(&mut self, key: usize, response: &Response, at: Nanos) -> Option<Cause> {
        let connection = &mut self.table.connections[key];
        connection.answered += 1;
        self.opener.refused_since = None;
        let content = connection.reception.digest();
        self.recorder.answer(&connection.exchange, response, content, at, &mut self.catalogue)
    }

    /// Returns true if unsolicited data arrived, or the end of the connection.
    pub(super) fn has_unsolicited(&mut self, key: usize) -> bool {
        let asked = Asked { bytes: BUFFER_BYTES as u64, unseen: false };
        let received = self.table.connections[key].take(&mut self.buffer[..], &asked, false);
        !matches!(received, Err(Trouble::System(Errno::AGAIN | Errno::INTR)))
    }
}
