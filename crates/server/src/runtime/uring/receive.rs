//! Receives into whichever provided buffer the kernel chooses when data has arrived, and what does not fit into it with a
//! call of its own. An upstream's response, which is likely to be longer, is received into memory that waits for it, as long
//! as few do. Not a long one: to keep 64 KiB for each that waits gained nothing.
//!
//! One operation receives once. Multishot receives were no faster when measured, and would continue while a client's
//! responses wait to be sent, so a client that sends requests without reading could not be held back.
//!
//! A receive of an idle connection to an upstream goes on while a request is sent, and that of a tunnel while something is sent
//! through it: to end it before and to submit it again would be two more operations each time.

use std::os::fd::AsRawFd;

use io_uring::squeue::Flags;
use io_uring::{opcode, types};
use rustix::io::Errno;

use super::Ring;
use super::buffers::{BYTES_EACH, GROUP};
use super::client::{Beside, Interruption, Operation};
use super::queue::{Completion, Purpose};
use crate::connection::{Buffer, Event, Reason};
use crate::memory;
use crate::runtime::event_loop::EventLoop;
use crate::runtime::sockets::transfer::{self, Transfer};

/// `IORING_RECVSEND_POLL_FIRST`: do not try before the socket is readable.
const POLL_FIRST: u16 = 1;

/// How many responses memory waits for at most; others get it when they arrive.
const LENT_MAX: usize = 256;

/// True if the kernel is to write into the memory of this buffer.
fn is_lent(buffer: &Buffer) -> bool {
    buffer.is_for_short_response() && buffer.room() > BYTES_EACH
}

impl Ring<'_> {
    /// Receives, or returns what has been received already.
    pub(super) fn receive(&mut self, token: u64, mut buffer: Buffer) -> Option<Event> {
        let client = self.state.clients.at(token);
        let (wait, beside) = (client.connection.waits_for(), client.progress.beside.take());
        if let Some(beside) = beside {
            // It was idle before, or a tunnel, so it has nothing that the new bytes belong behind.
            self.state.pool.put_buffer(buffer);
            match beside {
                Beside::Received(event) => return Some(event),
                Beside::Receiving(buffer) => {
                    self.state.clients.at(token).progress.operation = Operation::Receiving(buffer);
                }
            }
            self.state.begin_wait(token, wait);
            return None;
        }
        if self.state.ends(token, wait) {
            self.receive_last(token, buffer);
            return None;
        }
        if buffer.is_for_short_response() && self.lent < LENT_MAX && !memory::is_short() {
            buffer = self.state.pool.fill(buffer);
        }
        self.state.clients.at(token).progress.operation = Operation::Receiving(buffer);
        self.submit_receive(token);
        self.state.begin_wait(token, wait);
        None
    }

    pub(super) fn submit_receive(&mut self, token: u64) {
        let client = self.state.clients.at(token);
        let first = if std::mem::take(&mut client.progress.may_be_readable) { 0 } else { POLL_FIRST };
        let socket = types::Fd(client.socket.as_raw_fd());
        let operation = match &mut client.progress.operation {
            Operation::Receiving(buffer) if is_lent(buffer) => {
                self.lent += 1;
                let space = buffer.space().spare_capacity_mut();
                opcode::Recv::new(socket, space.as_mut_ptr().cast(), space.len() as u32).ioprio(first).build()
            }
            _ => {
                let receive =
                    opcode::Recv::new(socket, std::ptr::null_mut(), 0).buf_group(GROUP).ioprio(first);
                receive.build().flags(Flags::BUFFER_SELECT)
            }
        };
        // SAFETY: the client keeps its memory until the operation has completed, and the buffers from which the kernel
        // chooses otherwise outlive every receive.
        unsafe { self.queue.push(operation, Purpose::Receive, token) };
    }

    /// A receive into this buffer has completed: its memory is ours again.
    pub(super) fn take_back(&mut self, buffer: &Buffer) {
        self.lent -= usize::from(is_lent(buffer));
    }

    /// The client is about to send: it gets what arrives meanwhile when it wants to receive again.
    pub(super) fn keep_receiving(&mut self, token: u64) {
        let progress = &mut self.state.clients.at(token).progress;
        if matches!(progress.operation, Operation::Receiving(_))
            && let Operation::Receiving(buffer) =
                std::mem::replace(&mut progress.operation, Operation::Nothing)
        {
            progress.beside = Some(Beside::Receiving(buffer));
            // It was to end what was idle and now is not. If it still ends the receive, that is submitted again.
            progress.interruption = None;
        }
    }

    /// True if a receive of this client, who may have left, goes on beside what it does.
    pub(super) fn is_beside(&mut self, token: u64) -> bool {
        let client = self.state.clients.find(token);
        client.is_none_or(|client| matches!(client.progress.beside, Some(Beside::Receiving(_))))
    }

    /// Such a receive has completed.
    pub(super) fn received_beside(&mut self, completion: &Completion) {
        let token = completion.token;
        let beside = self.state.clients.find(token).and_then(|client| client.progress.beside.take());
        let Some(Beside::Receiving(buffer)) = beside else {
            let buffer = self.left.remove(&token).expect("it has left while it received");
            self.take_back(&buffer);
            return self.discard(buffer, completion);
        };
        self.take_back(&buffer);
        match self.received(token, buffer, completion) {
            Ok(event) => {
                let progress = &mut self.state.clients.at(token).progress;
                progress.beside = Some(Beside::Received(event));
                let yields = matches!(&progress.operation, Operation::AwaitingRoom(output) if output.yields);
                if yields && progress.interruption.is_none() {
                    self.interrupt(token, Interruption::Cancelled);
                }
            }
            // It is submitted when the client wants to receive.
            Err(buffer) => self.state.pool.put_buffer(buffer),
        }
    }

    /// Ends the receive of a client that leaves, and keeps its memory until then.
    pub(super) fn leave(&mut self, token: u64, buffer: Buffer) {
        self.left.insert(token, buffer);
        self.queue.cancel(Purpose::Receive, token);
    }

    /// A receive has completed whose bytes nobody wants any more.
    pub(super) fn discard(&mut self, mut buffer: Buffer, completion: &Completion) {
        if let Some(id) = completion.buffer() {
            self.buffers.take(id, completion.result.unwrap_or(0) as usize, buffer.space());
        }
        self.state.pool.put_buffer(buffer);
    }

    /// The event, or the buffer if the receive has to be submitted again.
    pub(super) fn received(
        &mut self,
        token: u64,
        mut buffer: Buffer,
        completion: &Completion,
    ) -> Result<Event, Buffer> {
        match (completion.result, completion.buffer()) {
            (Ok(count @ 1..), Some(id)) => {
                buffer = self.state.pool.fill(buffer);
                self.buffers.take(id, count as usize, buffer.space());
                self.count_received(token, count as usize);
                // A body is longer than a provided buffer. One call for the rest costs less than operations for its parts.
                let mut leaves_data = completion.leaves_data();
                let room = buffer.room();
                if leaves_data && room >= BYTES_EACH {
                    match self.receive_now(token, &mut buffer) {
                        // A short read means that the socket is empty.
                        Transfer::Complete(count) => leaves_data = count == room,
                        Transfer::Blocked => leaves_data = false,
                        Transfer::Ended => {}
                        Transfer::Failed => {
                            self.state.pool.put_buffer(buffer);
                            return Ok(Event::Failed);
                        }
                    }
                }
                self.state.clients.at(token).progress.may_be_readable = leaves_data;
                Ok(Event::Received(buffer))
            }
            (Ok(count @ 1..), None) => {
                let bytes = buffer.space();
                // SAFETY: the kernel has written so many bytes behind those that were there.
                unsafe { bytes.set_len(bytes.len() + count as usize) };
                self.count_received(token, count as usize);
                self.state.clients.at(token).progress.may_be_readable = completion.leaves_data();
                Ok(Event::Received(buffer))
            }
            (Ok(0), _) => Ok(Event::Ended),
            // When it is submitted again, the used buffers have been returned. It was cancelled when it was idle, if at all.
            (Err(Errno::NOBUFS | Errno::INTR | Errno::AGAIN | Errno::CANCELED), _) => {
                self.state.clients.at(token).progress.may_be_readable = true;
                Err(buffer)
            }
            (Err(_), _) => Ok(Event::Failed),
        }
    }

    /// Receives what is there, by a call.
    fn receive_now(&mut self, token: u64, buffer: &mut Buffer) -> Transfer {
        let outcome = transfer::receive(&self.state.clients.at(token).socket, buffer);
        if let Transfer::Complete(count) = outcome {
            self.count_received(token, count);
        }
        outcome
    }

    fn count_received(&mut self, token: u64, count: usize) {
        self.state.served.add(self.state.clients.at(token).connection.received(), count as u64);
    }

    pub(super) fn look(&mut self, token: u64, buffer: Buffer) -> Event {
        match self.state.clients.at(token).progress.beside.take() {
            Some(Beside::Received(event)) => {
                self.state.pool.put_buffer(buffer);
                return event;
            }
            // What it receives comes before what a call would.
            beside @ Some(Beside::Receiving(_)) => {
                self.state.clients.at(token).progress.beside = beside;
                self.state.pool.put_buffer(buffer);
                return Event::NothingReceived;
            }
            None => {}
        }
        let mut buffer = self.state.pool.fill(buffer);
        match self.receive_now(token, &mut buffer) {
            Transfer::Complete(_) => return Event::Received(buffer),
            Transfer::Ended => return Event::Ended,
            Transfer::Failed => return Event::Failed,
            Transfer::Blocked => {}
        }
        self.state.pool.put_buffer(buffer);
        Event::NothingReceived
    }

    /// The server is stopping: receives a request that has already arrived, or closes the connection.
    pub(super) fn receive_last(&mut self, token: u64, mut buffer: Buffer) {
        buffer = self.state.pool.fill(buffer);
        match self.receive_now(token, &mut buffer) {
            Transfer::Complete(_) => self.dispatch(token, Event::Received(buffer)),
            _ => {
                self.state.pool.put_buffer(buffer);
                self.close(token, Reason::Finished);
            }
        }
    }
}
