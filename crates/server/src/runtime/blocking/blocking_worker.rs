//! A worker that performs the wants of one connection, blocking each time, until the connection ends.
//!
//! It waits for the client, the client's deadline and the server's stop at the same time. Log lines are written while
//! it waits, once they have been in memory for long enough.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sojourn_content::Job;

use super::client::Client;
use super::service::{Service, Traffic};
use super::worker::Worker;
use crate::clock::Clock;
use crate::connection::{Buffer, Event, Output, Pool, Reason, Wait, Want};
use crate::counters::Counter;
use crate::counters::scoreboard::Permit;
use crate::memory;
use crate::runtime::contention::{Backlog, Contention};
use crate::runtime::disk::Inline;
use crate::runtime::sockets::accept::Arrival;
use crate::runtime::sockets::transfer::{self, Transfer};
use crate::runtime::timers::drain::Drain;
use crate::stop::Stop;

pub struct BlockingWorker<'a> {
    service: &'a Service<'a>,
    stop: &'a Stop,
    clock: Clock,
    pool: Pool,
    inline: Inline,
    traffic: Traffic,
    /// Set once it has noticed a stop.
    drain: Option<Drain>,
}

enum Woken {
    Ready,
    /// The client's deadline passed.
    TimedOut,
    /// A stop was requested.
    Stopping,
    /// Others wait for a worker, and the client does not use this one.
    Contended,
    /// The drain timeout passed.
    Overdue,
}

impl<'a> BlockingWorker<'a> {
    /// A worker of `service` until `stop`.
    pub fn new(service: &'a Service<'a>, stop: &'a Stop) -> BlockingWorker<'a> {
        BlockingWorker {
            service,
            stop,
            clock: crate::access_log::AccessLog::clock(service.log.as_ref()),
            pool: Pool::default(),
            inline: Inline::new(&service.site.origin),
            traffic: Traffic::default(),
            drain: None,
        }
    }

    /// Writes log lines that have been in memory for long enough.
    fn flush_log(&self) {
        if let Some(log) = &self.service.log
            && log.due_in() == Some(Duration::ZERO)
        {
            log.write_out();
        }
    }

    fn handle(&mut self, client: &mut Client<'_>, event: Event) -> Want {
        let is_draining = self.begin_drain() || memory::is_short() || client.contention.is_certain();
        let traffic = std::mem::take(&mut self.traffic);
        let connection = &mut client.connection;
        let (want, answered) =
            self.service.handle(connection, event, &mut self.pool, &self.clock, is_draining, traffic);
        client.answers += answered;
        want
    }

    fn receive(&mut self, client: &mut Client<'_>, buffer: Buffer) -> Result<Event, Reason> {
        let mut buffer = self.pool.fill(buffer);
        loop {
            if client.is_readable || self.drain.is_some() {
                match self.receive_now(client, &mut buffer) {
                    Transfer::Complete(_) => return Ok(Event::Received(buffer)),
                    Transfer::Blocked if self.is_idle(client) => return Err(Reason::Finished),
                    Transfer::Blocked => {}
                    Transfer::Ended => return Ok(Event::Ended),
                    Transfer::Failed => return Ok(Event::Failed),
                }
            }
            match self.wait(client, PollFlags::IN) {
                Woken::Ready => client.is_readable = true,
                Woken::Stopping if client.connection.has_streams() => return Ok(Event::NothingReceived),
                // A request may have arrived; check that first.
                Woken::Stopping => {}
                Woken::TimedOut => return Ok(Event::Expired),
                Woken::Contended => {
                    self.service.count(Counter::LimitWorkers);
                    let is_idle = client.connection.waits_for() == Wait::Request;
                    return if is_idle { self.leave(client, buffer) } else { Ok(Event::Expired) };
                }
                Woken::Overdue => return Err(Reason::TimedOut),
            }
        }
    }

    /// Ends an idle connection, unless a request has just arrived.
    fn leave(&mut self, client: &mut Client<'_>, mut buffer: Buffer) -> Result<Event, Reason> {
        match self.receive_now(client, &mut buffer) {
            Transfer::Complete(_) => Ok(Event::Received(buffer)),
            Transfer::Blocked | Transfer::Ended | Transfer::Failed => {
                self.pool.put_buffer(buffer);
                Err(Reason::Finished)
            }
        }
    }

    fn look(&mut self, client: &mut Client<'_>, buffer: Buffer) -> Event {
        let mut buffer = self.pool.fill(buffer);
        match self.receive_now(client, &mut buffer) {
            Transfer::Complete(_) => Event::Received(buffer),
            Transfer::Blocked => {
                self.pool.put_buffer(buffer);
                Event::NothingReceived
            }
            Transfer::Ended => Event::Ended,
            Transfer::Failed => Event::Failed,
        }
    }

    fn receive_now(&mut self, client: &mut Client<'_>, buffer: &mut Buffer) -> Transfer {
        let room = buffer.space().capacity() - buffer.space().len();
        let outcome = transfer::receive(&client.socket, buffer);
        if let Transfer::Complete(count) = outcome {
            client.is_readable = count == room;
            self.traffic.received += count;
        }
        outcome
    }

    /// Returns true if it has no request in progress while the server stops.
    fn is_idle(&self, client: &Client<'_>) -> bool {
        self.drain.is_some_and(|drain| drain.is_over_for_idle(self.clock.now))
            && client.connection.waits_for() == Wait::Request
    }

    fn send(&mut self, client: &mut Client<'_>, mut output: Output) -> Result<Event, Reason> {
        loop {
            let before = output.sent;
            let outcome = transfer::transmit(&client.socket, &mut output);
            self.traffic.sent += output.sent - before;
            match outcome {
                Transfer::Complete(_) => return Ok(Event::Sent(output)),
                Transfer::Blocked => {}
                Transfer::Ended | Transfer::Failed => return Ok(Event::Failed),
            }
            match self.wait(client, PollFlags::OUT) {
                Woken::Ready | Woken::Stopping => {}
                Woken::TimedOut => return Ok(Event::Expired),
                Woken::Contended | Woken::Overdue => return Err(Reason::TimedOut),
            }
        }
    }

    fn wait(&mut self, client: &mut Client<'_>, flags: PollFlags) -> Woken {
        self.clock.update();
        let limits = &self.service.site.limits;
        let mut deadline = client.deadline(self.clock.now, limits);
        // If the client must read a response, the send rate limits how long it may take.
        let may_give_way = flags == PollFlags::IN;
        if may_give_way {
            client.contention.observe(client.connection.waits_for(), client.answers, self.clock.now);
        }
        loop {
            self.flush_log();
            if may_give_way && client.contention.ends(self.clock.now) {
                return Woken::Contended;
            }
            // Checked before reading: trickling bytes would always be there.
            if self.clock.now >= deadline {
                if !client.try_extend(self.clock.now, limits) {
                    return Woken::TimedOut;
                }
                deadline = client.deadline(self.clock.now, limits);
            }
            let is_waiting_for_request = client.connection.waits_for() == Wait::Request;
            let drained = self
                .drain
                .map(|drain| if is_waiting_for_request { drain.idle_until() } else { drain.until() });
            let until = drained.map_or(deadline, |drained| deadline.min(drained));
            let lines_due = self.service.log.as_ref().and_then(|log| log.due_in());
            let (look, watched) = client.contention.next(self.clock.now, may_give_way);
            let until = look.map_or(until, |look| until.min(look));
            let timeout = until.saturating_sub(self.clock.now).min(lines_due.unwrap_or(Duration::MAX));
            let timeout = Timespec::try_from(timeout).ok();
            // The stop stays readable, so once it is noticed it must not be waited for.
            let count = if self.drain.is_none() { 2 } else { 1 };
            let mut own = [PollFd::new(&client.socket, flags), PollFd::new(self.stop, PollFlags::IN)];
            let mut all = Vec::new();
            let mut waits = &mut own[..count];
            if !watched.is_empty() {
                all.extend_from_slice(waits);
                all.extend(watched.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
                waits = all.as_mut_slice();
            }
            let outcome = poll(waits, timeout.as_ref());
            let is_set = |wait: &PollFd<'_>| !wait.revents().is_empty();
            let (is_ready, is_stopping) = (is_set(&waits[0]), waits[1..count].iter().any(is_set));
            let is_contended = waits[count..].iter().any(is_set);
            self.clock.update();
            if is_contended {
                client.contention.on_readable(self.clock.now);
            }
            match outcome {
                Ok(_) if is_stopping && self.begin_drain() => return Woken::Stopping,
                Ok(_) if is_ready => return Woken::Ready,
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory for the wait itself: the connection ends, as with any failure.
                Err(_) => return Woken::Overdue,
            }
            if self.is_idle(client) {
                return Woken::Stopping;
            }
            if self.drain.is_some_and(|drain| drain.is_over(self.clock.now)) {
                return Woken::Overdue;
            }
        }
    }

    /// Checks for a stop and starts draining; returns true if there is one.
    fn begin_drain(&mut self) -> bool {
        if self.drain.is_none() && self.stop.is_requested() {
            self.drain = Some(Drain::begin(self.clock.now, self.service.site));
        }
        self.drain.is_some()
    }
}

impl Worker for BlockingWorker<'_> {
    fn serve(&mut self, arrival: Arrival, backlog: Option<&Backlog<'_>>) {
        self.service.begin();
        self.clock.update();
        let contention = Contention::new(backlog, 0, self.clock.now);
        let mut client = Client::new(arrival, self.service.site, contention);
        let mut want = client.connection.start();
        let reason = loop {
            let event = match want {
                Want::Receive(buffer) => self.receive(&mut client, buffer),
                Want::Look(buffer) => Ok(self.look(&mut client, buffer)),
                Want::Send(output) => self.send(&mut client, output),
                Want::Open(opening) => Ok(Event::Done(self.inline.perform(&Job::Open(opening)))),
                Want::Load(range) => Ok(Event::Done(self.inline.perform(&Job::Load(range)))),
                Want::Delegate(lane, job) => Ok(Event::Delivered(lane, Some(self.inline.perform(&job)))),
                Want::CancelReceive | Want::Wait => {
                    unreachable!("nothing is under way but what the worker does")
                }
                Want::Close(reason) => break reason,
            };
            want = match event {
                Ok(event) => self.handle(&mut client, event),
                Err(reason) => break reason,
            };
        };
        self.service.end(client.connection, reason, &mut self.pool, &self.clock);
    }

    fn count(&mut self, counter: Counter) {
        self.service.count(counter);
    }

    fn permit(&mut self, permit: Permit) {
        self.service.permit(permit);
    }

    fn rest(&mut self) {
        self.flush_log();
        self.clock.update();
        memory::look(self.clock.now, self.service.site.limits.memory_limit);
    }

    fn wait_for_work(&mut self, source: BorrowedFd<'_>, heeds_stop: bool) -> bool {
        self.flush_log();
        let lines_due = self.service.log.as_ref().and_then(|log| log.due_in());
        let timeout = lines_due.and_then(|due| Timespec::try_from(due).ok());
        let mut waits = [PollFd::new(&source, PollFlags::IN), PollFd::new(self.stop, PollFlags::IN)];
        let count = if heeds_stop { 2 } else { 1 };
        poll(&mut waits[..count], timeout.as_ref()).is_ok() && !waits[0].revents().is_empty()
    }

    fn is_overdue(&mut self) -> bool {
        self.clock.update();
        let now = self.clock.now;
        self.begin_drain() && self.drain.is_some_and(|drain| drain.is_over(now))
    }
}
