//! Performs wants until one would block; then the client is parked with a deadline. Readiness, the disk's outcomes and
//! the timers continue it.

use rustix::event::epoll;
use sojourn_content::Job;

use super::Loop;
use crate::clients;
use crate::connection::{Buffer, Event, Output, Reason, Want};
use crate::runtime::disk::{Disk, Submitted};
use crate::runtime::event_loop::{EventLoop, LoopState};
use crate::runtime::sockets::transfer::{self, Transfer};

/// Sends per connection before others are served.
const SENDS_PER_ITERATION: usize = 4;

impl<D: Disk> Loop<'_, D> {
    /// The socket of `token` has become ready.
    pub(super) fn ready(&mut self, token: u64, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(client) = self.state.clients.find(token) else { return };
        client.progress.is_ended |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        client.progress.is_readable |= flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR);
        let was_blocked = !client.progress.is_writable;
        client.progress.is_writable |= flags.intersects(F::OUT | F::HUP | F::ERR);
        match &client.progress.parked {
            Some(Want::Receive(_)) if client.progress.is_readable => self.drive_parked(token),
            // If it was not blocked, it is in the list of runnable clients already.
            Some(Want::Send(_)) if was_blocked && client.progress.is_writable => self.drive_parked(token),
            Some(Want::Send(output)) if was_blocked && output.yields && client.progress.is_readable => {
                self.drive_parked(token);
            }
            _ => {}
        }
    }

    pub(super) fn drive_parked(&mut self, token: u64) {
        if let Some(want) = self.state.clients.find(token).and_then(|client| client.progress.parked.take()) {
            self.drive(token, want);
        }
    }

    /// Delivers the disk's outcomes.
    pub(super) fn collect(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.disk.collect(&mut outcomes);
        for (token, done) in outcomes.drain(..) {
            let (token, event) = clients::outcome(token, done);
            if self.state.clients.find(token).is_some() {
                self.dispatch(token, event);
            }
        }
        self.outcomes = outcomes;
    }

    /// Expires clients whose deadlines have passed; the timer entries of others move to their current deadlines.
    pub(super) fn expire(&mut self) {
        for token in self.state.overdue() {
            if let Some(client) = self.state.clients.find(token) {
                client.progress.parked = None;
                self.dispatch(token, Event::Expired);
            }
        }
    }

    /// Performs the client's wants until one would block.
    pub(super) fn drive(&mut self, token: u64, mut want: Want) {
        let mut sends = 0;
        loop {
            let outcome = match want {
                Want::Receive(buffer) => self.receive(token, buffer).map_err(Some),
                Want::Send(_) if self.sends.is_gathering => return self.gather(token, want),
                Want::Send(_) if sends == SENDS_PER_ITERATION => {
                    self.state.runnable.push(token);
                    Err(Some(want))
                }
                Want::Send(output) => {
                    sends += 1;
                    self.send(token, output).map_err(Some)
                }
                Want::Look(buffer) => Ok(self.receive(token, buffer).unwrap_or(Event::NothingReceived)),
                Want::Open(opening) => self.submit(token, Job::Open(opening)),
                Want::Load(range) => self.submit(token, Job::Load(range)),
                Want::Delegate(lane, job) => Ok(self.disk.delegate(token, lane, job)),
                Want::CancelReceive => Ok(match self.state.clients.at(token).progress.parked.take() {
                    Some(Want::Send(output)) => Event::Sent(output),
                    _ => Event::NothingReceived,
                }),
                Want::Wait => Err(self.state.clients.at(token).progress.parked.take()),
                Want::Close(reason) => return self.close(token, reason),
            };
            want = match outcome {
                Ok(event) => self.state.handle(token, event),
                Err(want) => return self.park(token, want),
            };
        }
    }

    /// Parks a send until the [gathered](Gathered) ones leave.
    fn gather(&mut self, token: u64, want: Want) {
        let client = self.state.clients.at(token);
        client.progress.parked = Some(want);
        if self.sends.add(token, client.connection.is_launched()) {
            self.send_gathered();
        }
    }

    /// Sends what has been gathered.
    pub(super) fn send_gathered(&mut self) {
        // Meanwhile nothing is gathered.
        let mut sends = std::mem::take(&mut self.sends);
        sends.drain().for_each(|token| self.drive_parked(token));
        self.sends = sends;
    }

    fn receive(&mut self, token: u64, buffer: Buffer) -> Result<Event, Want> {
        let LoopState { clients, pool, served, .. } = &mut self.state;
        clients.at(token).receive(buffer, pool, served)
    }

    fn send(&mut self, token: u64, mut output: Output) -> Result<Event, Want> {
        let client = self.state.clients.at(token);
        // A connection may send while it was receiving.
        client.progress.parked = None;
        let before = output.sent;
        let outcome = transfer::transmit(&client.socket, &mut output);
        self.state.served.add(client.connection.sent(), (output.sent - before) as u64);
        match outcome {
            Transfer::Complete(_) => Ok(Event::Sent(output)),
            Transfer::Blocked => {
                client.progress.is_writable = false;
                if output.yields && client.progress.is_readable {
                    return Ok(Event::Sent(output));
                }
                Err(Want::Send(output))
            }
            Transfer::Ended | Transfer::Failed => Ok(Event::Failed),
        }
    }

    /// The outcome if it is available immediately; otherwise the disk has the job.
    fn submit(&mut self, token: u64, job: Job) -> Result<Event, Option<Want>> {
        match self.disk.submit(token, job) {
            Submitted::Done(done) => Ok(Event::Done(done)),
            Submitted::Refused => Ok(Event::Refused),
            Submitted::Queued => Err(None),
        }
    }

    /// Parks the client, with the deadline of its wait.
    fn park(&mut self, token: u64, want: Option<Want>) {
        let client = self.state.clients.at(token);
        client.progress.parked = want;
        let wait = client.connection.waits_for();
        if self.state.ends(token, wait) {
            return self.close(token, Reason::Finished);
        }
        if !self.watch(token) {
            return self.close(token, Reason::Failed);
        }
        self.state.begin_wait(token, wait);
    }

    pub(super) fn close(&mut self, token: u64, reason: Reason) {
        let client = self.state.remove(token, reason);
        if let Some(Want::Receive(buffer)) = client.progress.parked {
            self.state.pool.put_buffer(buffer);
        }
    }
}
