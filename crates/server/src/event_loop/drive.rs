//! Doing what clients want, until that would mean waiting: then they are parked, with a deadline for what they
//! wait for. Readiness, the disk's outcomes and the timers bring them back.

use rustix::event::epoll;
use sojourn_content::Job;

use super::Loop;
use super::client::Client;
use crate::clients::{self, Clients};
use crate::connection::{Context, Event, Lane, Output, Reason, Want};
use crate::counters::Counter;
use crate::disk::{Disk, Submitted};
use crate::sockets::transfer::{self, Transfer};

/// Sends of one connection before others have their turn.
const SENDS_PER_TURN: usize = 4;

impl<D: Disk> Loop<'_, D> {
    /// The socket behind `token` has become ready for something.
    pub(super) fn ready(&mut self, token: u64, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(client) = self.clients.find(token) else { return };
        client.is_ended |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        client.is_readable |= flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR);
        let was_blocked = !client.is_writable;
        client.is_writable |= flags.intersects(F::OUT | F::HUP | F::ERR);
        match client.parked {
            Some(Want::Receive(_)) if client.is_readable => self.drive_parked(token),
            // If it was not blocked it is runnable, and has its turn already.
            Some(Want::Send(_)) if was_blocked && client.is_writable => self.drive_parked(token),
            _ => {}
        }
    }

    pub(super) fn drive_parked(&mut self, token: u64) {
        if let Some(want) = self.clients.find(token).and_then(|client| client.parked.take()) {
            self.drive(token, want);
        }
    }

    /// Takes the disk's outcomes to those who wait for them.
    pub(super) fn collect(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.disk.collect(&mut outcomes);
        for (token, done) in outcomes.drain(..) {
            let (token, event) = clients::outcome(token, done);
            if self.clients.find(token).is_some() {
                self.happen(token, event);
            }
        }
        self.outcomes = outcomes;
    }

    /// Tells the timers' clients that are due; the others' entries move to where their deadlines are now.
    pub(super) fn expire(&mut self) {
        for (token, tick) in self.timers.advance(self.clock.now) {
            let Some(client) = self.clients.find(token) else { continue };
            let Client { patience, socket, .. } = client;
            if patience.is_over(token, tick, &mut self.timers)
                && !patience.is_earned(socket, token, self.clock.now, &self.site.limits, &mut self.timers)
            {
                client.parked = None;
                self.happen(token, Event::Expired);
            }
        }
    }

    pub(super) fn happen(&mut self, token: u64, event: Event) {
        let want = self.handle(token, event);
        self.drive(token, want);
    }

    /// Does what the client wants, again and again, until that would mean waiting.
    fn drive(&mut self, token: u64, mut want: Want) {
        let mut sends = 0;
        loop {
            let outcome = match want {
                Want::Receive(buffer) => {
                    self.clients.at(token).receive(buffer, &mut self.pool, &mut self.served).map_err(Some)
                }
                Want::Send(_) if sends == SENDS_PER_TURN => {
                    self.runnable.push(token);
                    Err(Some(want))
                }
                Want::Send(output) => {
                    sends += 1;
                    self.send(token, output).map_err(Some)
                }
                Want::Look(buffer) => {
                    let client = self.clients.at(token);
                    Ok(client.receive(buffer, &mut self.pool, &mut self.served).unwrap_or(Event::Nothing))
                }
                Want::Open(opening) => self.submit(token, Job::Open(opening)),
                Want::Load(range) => self.submit(token, Job::Load(range)),
                Want::Delegate(lane, job) => Ok(self.delegate(token, lane, job)),
                Want::Recall => {
                    self.clients.at(token).parked = None;
                    Ok(Event::Nothing)
                }
                Want::Wait => Err(self.clients.at(token).parked.take()),
                Want::Close(reason) => return self.close(token, reason),
            };
            want = match outcome {
                Ok(event) => self.handle(token, event),
                Err(want) => return self.park(token, want),
            };
        }
    }

    fn send(&mut self, token: u64, mut output: Output) -> Result<Event, Want> {
        let client = self.clients.at(token);
        let before = output.sent;
        let outcome = transfer::transmit(&client.socket, &mut output);
        self.served.add(client.connection.sent(), (output.sent - before) as u64);
        match outcome {
            Transfer::Complete(_) => Ok(Event::Sent(output)),
            Transfer::Blocked => {
                client.is_writable = false;
                Err(Want::Send(output))
            }
            Transfer::Ended | Transfer::Failed => Ok(Event::Failed),
        }
    }

    /// The outcome if it is there at once, otherwise nothing to park: the disk has the want.
    fn submit(&mut self, token: u64, job: Job) -> Result<Event, Option<Want>> {
        match self.disk.submit(token, job) {
            Submitted::Done(done) => Ok(Event::Done(done)),
            Submitted::Refused => Ok(Event::Refused),
            Submitted::Queued => Err(None),
        }
    }

    /// The outcome if it is there at once, or that it will be collected.
    fn delegate(&mut self, token: u64, lane: Lane, job: Job) -> Event {
        match self.disk.submit(clients::in_lane(token, lane), job) {
            Submitted::Done(done) => Event::Delivered(lane, Some(done)),
            Submitted::Refused => Event::Delivered(lane, None),
            Submitted::Queued => Event::Delegated,
        }
    }

    fn handle(&mut self, token: u64, event: Event) -> Want {
        let (clients, mut context) = self.context(token);
        clients.at(token).connection.handle(event, &mut context)
    }

    /// What the connection behind `token` may use, and all of them.
    pub(super) fn context(&mut self, token: u64) -> (&mut Clients<Client>, Context<'_>) {
        let context = Context {
            caches: &mut self.caches,
            pool: &mut self.pool,
            served: &mut self.served,
            clock: &self.clock,
            send_path: &self.site.send_path,
            hosts: &self.site.hosts,
            log: self.log.as_ref(),
            limits: &self.site.limits,
            is_draining: self.drain.is_some(),
            exchanges: self.exchanges.as_mut().map(|exchanges| exchanges.attend(token, self.clock.now)),
        };
        (&mut self.clients, context)
    }

    /// Leaves the client waiting, with a deadline for what it waits for.
    fn park(&mut self, token: u64, want: Option<Want>) {
        let client = self.clients.at(token);
        client.parked = want;
        let wait = client.connection.waits_for();
        if wait.is_idle() && self.drain.is_some_and(|drain| drain.is_over_for_idle(self.clock.now)) {
            return self.close(token, Reason::Finished);
        }
        if !self.watch(token) {
            return self.close(token, Reason::Failed);
        }
        let client = self.clients.at(token);
        client.patience.begin(wait, token, self.clock.now, &self.site.limits, &mut self.timers);
    }

    pub(super) fn close(&mut self, token: u64, reason: Reason) {
        match reason {
            Reason::Finished => {}
            Reason::TimedOut => self.served.count(Counter::Timeouts),
            Reason::Failed => self.served.count(Counter::ConnectionErrors),
        }
        let (clients, mut context) = self.context(token);
        let mut client = clients.remove(token);
        if let Some(Want::Receive(buffer)) = client.parked {
            context.pool.put_buffer(buffer);
        }
        client.connection.finish(&mut context);
        self.site.board.leave(client.seat);
    }
}
