//! Performs wants: passes each to the ring, a helper or a non-blocking call, and returns the outcome to the connection.
//!
//! A client wants one thing at a time, so it has one operation in progress. But a connection to an upstream that was idle sends
//! its request without ending its receive, which brings the answer. An operation that takes too long or is no
//! longer needed is cancelled; it then completes like any other, possibly with success.

use std::os::fd::IntoRawFd;

use io_uring::squeue::Flags;
use io_uring::{opcode, types};
use rustix::io::Errno;
use sojourn_content::{FileRange, Job};

use super::Ring;
use super::client::{Beside, Interruption, Operation};
use super::queue::{Completion, Purpose};
use super::read::Reading;
use crate::clients;
use crate::connection::{Event, Reason, Want};
use crate::counters::Counter;
use crate::runtime::disk::{Disk, Submitted};
use crate::runtime::event_loop::EventLoop;

/// Sends per connection before others are served.
const SENDS_PER_ITERATION: usize = 4;

impl Ring<'_> {
    /// Handles the completion of a client's operation.
    pub(super) fn complete(&mut self, completion: &Completion) {
        let Completion { purpose, token, result, .. } = *completion;
        if purpose == Purpose::Receive && self.is_beside(token) {
            return self.received_beside(completion);
        }
        let client = self.state.clients.at(token);
        let interruption = client.progress.interruption.take();
        let doing = std::mem::replace(&mut client.progress.operation, Operation::Nothing);
        if let Operation::Receiving(buffer) = &doing {
            self.take_back(buffer);
        }
        if let Some(Interruption::Closed(reason)) = interruption {
            return self.abandon(doing, completion, reason);
        }
        let is_cut_short = result == Err(Errno::CANCELED);
        let event = match (doing, interruption) {
            (Operation::Sending(mut output, _), _) if purpose == Purpose::CloseAfterSend => {
                self.state.served.add(Counter::SentBytes, (output.total_bytes() - output.sent) as u64);
                output.sent = output.total_bytes();
                self.state.clients.at(token).progress.operation = Operation::Closed;
                Some(Event::Sent(output))
            }
            // Bytes that arrived meanwhile are received next.
            (Operation::Receiving(buffer), Some(Interruption::Cancelled)) if result.is_err() => {
                self.state.pool.put_buffer(buffer);
                Some(Event::NothingReceived)
            }
            (Operation::Receiving(buffer), Some(Interruption::Drained)) if is_cut_short => {
                return self.receive_last(token, buffer);
            }
            // What has arrived since the deadline of a whole does not extend it.
            (Operation::Receiving(buffer), Some(Interruption::Expired))
                if result.is_err()
                    || self.state.clients.at(token).connection.waits_for().is_timed_as_a_whole() =>
            {
                self.discard(buffer, completion);
                Some(Event::Expired)
            }
            (Operation::AwaitingRoom(output), Some(Interruption::Cancelled)) => Some(Event::Sent(output)),
            (Operation::Sending(output, _), Some(Interruption::Cancelled)) => {
                Some(self.stop_sending(token, output, result))
            }
            // In all that time part of it may have been sent, but not everything.
            (Operation::Sending(..) | Operation::AwaitingRoom(_), Some(_)) => Some(Event::Expired),
            (Operation::Receiving(buffer), _) => match self.received(token, buffer, completion) {
                Ok(event) => Some(event),
                Err(buffer) => {
                    self.state.clients.at(token).progress.operation = Operation::Receiving(buffer);
                    return self.submit_receive(token);
                }
            },
            (Operation::Sending(output, _), None) => self.sent(token, output, result),
            (Operation::AwaitingRoom(output), None) => self.polled(token, output, result),
            (Operation::Reading(reading), _) => self.advance(token, reading, result),
            (
                Operation::Nothing | Operation::Closed | Operation::Runnable(_) | Operation::AwaitingHelper,
                _,
            ) => {
                unreachable!("the ring has nothing under way for it")
            }
        };
        match event {
            Some(event) => self.dispatch(token, event),
            None => self.park(token),
        }
    }

    /// Continues the runnable connections.
    pub(super) fn run(&mut self) {
        for token in std::mem::take(&mut self.state.runnable) {
            let Some(client) = self.state.clients.find(token) else { continue };
            // Otherwise it was given back meanwhile.
            if matches!(client.progress.operation, Operation::Runnable(_))
                && let Operation::Runnable(output) =
                    std::mem::replace(&mut client.progress.operation, Operation::Nothing)
            {
                self.drive(token, Want::Send(output));
            }
        }
    }

    /// Delivers the helpers' outcomes.
    pub(super) fn collect(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.disk.collect(&mut outcomes);
        for (token, done) in outcomes.drain(..) {
            let (token, event) = clients::outcome(token, done);
            if let Some(client) = self.state.clients.find(token) {
                if matches!(client.progress.operation, Operation::AwaitingHelper) {
                    client.progress.operation = Operation::Nothing;
                }
                self.dispatch(token, event);
            }
        }
        self.outcomes = outcomes;
    }

    /// Cancels the operations of clients whose deadlines have passed.
    pub(super) fn expire(&mut self) {
        for token in self.state.overdue() {
            if self.state.clients.find(token).is_some() {
                self.interrupt(token, Interruption::Expired);
            }
        }
    }

    /// Cancels the operation in progress for this reason.
    pub(super) fn interrupt(&mut self, token: u64, interruption: Interruption) {
        let client = self.state.clients.at(token);
        let purpose = match client.progress.operation {
            Operation::Receiving(_) => Purpose::Receive,
            Operation::Sending(..) => Purpose::Send,
            Operation::AwaitingRoom(_) => Purpose::Room,
            Operation::Reading(_) => Purpose::Read,
            // The ring has nothing to cancel.
            Operation::Nothing | Operation::Closed | Operation::Runnable(_) | Operation::AwaitingHelper => {
                match interruption {
                    Interruption::Closed(reason) => return self.close(token, reason),
                    Interruption::Expired | Interruption::Drained | Interruption::Cancelled => return,
                }
            }
        };
        client.progress.interruption = Some(interruption);
        self.queue.cancel(purpose, token);
    }

    /// Performs the client's wants until one has to be waited for.
    pub(super) fn drive(&mut self, token: u64, mut want: Want) {
        let mut sends = 0;
        loop {
            let event = match want {
                Want::Receive(buffer) => match self.receive(token, buffer) {
                    None => return,
                    event => event,
                },
                Want::Send(output) if sends == SENDS_PER_ITERATION => {
                    self.state.clients.at(token).progress.operation = Operation::Runnable(output);
                    self.state.runnable.push(token);
                    None
                }
                Want::Send(output) => {
                    sends += 1;
                    self.keep_receiving(token);
                    self.send(token, output)
                }
                Want::Open(opening) => self.submit(token, Job::Open(opening)),
                Want::Load(range) => self.load(token, range),
                Want::Look(buffer) => Some(self.look(token, buffer)),
                // Even if the ring could read it: a client has one operation in progress.
                Want::Delegate(lane, job) => Some(self.disk.delegate(token, lane, job)),
                Want::CancelReceive => match self.cancel(token) {
                    None => return,
                    event => event,
                },
                Want::Wait => None,
                Want::Close(reason) => return self.close(token, reason),
            };
            want = match event {
                Some(event) => self.state.handle(token, event),
                None => return self.park(token),
            };
        }
    }

    /// Passes a job that may block to a helper.
    fn submit(&mut self, token: u64, job: Job) -> Option<Event> {
        match self.disk.submit(token, job) {
            Submitted::Done(done) => Some(Event::Done(done)),
            Submitted::Refused => Some(Event::Refused),
            Submitted::Queued => {
                self.state.clients.at(token).progress.operation = Operation::AwaitingHelper;
                None
            }
        }
    }

    /// Stops receiving or sending, if it is in progress; returns the event if it is stopped already.
    fn cancel(&mut self, token: u64) -> Option<Event> {
        let progress = &mut self.state.clients.at(token).progress;
        if matches!(progress.operation, Operation::Runnable(_))
            && let Operation::Runnable(output) =
                std::mem::replace(&mut progress.operation, Operation::Nothing)
        {
            return Some(Event::Sent(output));
        }
        self.cancel_operation(token);
        None
    }

    /// Cancels the operation in progress, if there is one.
    pub(super) fn cancel_operation(&mut self, token: u64) {
        // An earlier reason takes precedence.
        if self.state.clients.at(token).progress.interruption.is_none() {
            self.interrupt(token, Interruption::Cancelled);
        }
    }

    /// Uses resident data immediately; the ring reads files, and helpers what is remote.
    fn load(&mut self, token: u64, range: FileRange) -> Option<Event> {
        if let Some(done) = self.disk.load_now(&range) {
            return Some(Event::Done(done));
        }
        if range.document.file().is_none() {
            return self.submit(token, Job::Load(range));
        }
        self.read(token, Reading::new(range));
        None
    }

    fn read(&mut self, token: u64, mut reading: Reading) {
        let operation = reading.operation(&mut self.scratch);
        self.state.clients.at(token).progress.operation = Operation::Reading(reading);
        // SAFETY: the client keeps the buffer until the operation has completed, and the scratch buffer never moves.
        unsafe { self.queue.push(operation, Purpose::Read, token) };
    }

    fn advance(&mut self, token: u64, mut reading: Reading, result: Result<u32, Errno>) -> Option<Event> {
        let done = reading.advance(result);
        if done.is_none() {
            self.read(token, reading);
        }
        done.map(Event::Done)
    }

    /// Parks the client, with the deadline of its wait.
    pub(super) fn park(&mut self, token: u64) {
        let wait = self.state.clients.at(token).connection.waits_for();
        self.state.begin_wait(token, wait);
    }

    /// Handles a completion for a client that has ended.
    fn abandon(&mut self, doing: Operation, completion: &Completion, reason: Reason) {
        let token = completion.token;
        match doing {
            Operation::Receiving(buffer) => self.discard(buffer, completion),
            Operation::Sending(..) if completion.purpose == Purpose::CloseAfterSend => {
                self.state.clients.at(token).progress.operation = Operation::Closed;
            }
            _ => {}
        }
        self.close(token, reason);
    }

    /// Closes and drops a client without an operation in progress other than a receive.
    pub(super) fn close(&mut self, token: u64, reason: Reason) {
        let client = self.state.remove(token, reason);
        let socket = client.socket.into_raw_fd();
        let is_closed = matches!(client.progress.operation, Operation::Closed);
        match (client.progress.operation, client.progress.beside) {
            (Operation::Receiving(buffer), _) | (_, Some(Beside::Receiving(buffer))) => {
                self.leave(token, buffer);
            }
            _ => {}
        }
        if !is_closed {
            let close = opcode::Close::new(types::Fd(socket)).build().flags(Flags::SKIP_SUCCESS);
            // SAFETY: it points to no memory, and the descriptor is no longer used elsewhere.
            unsafe { self.queue.push(close, Purpose::Nothing, 0) };
        }
    }
}
