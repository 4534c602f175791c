//! Sends: from memory through the ring, from files with `sendfile` as soon as the socket accepts data. What yields to input
//! is sent by calls, too, and between them the socket is polled for both.
//!
//! A short last response and the close of its connection are one pair of linked operations, so closing costs no loop
//! iteration or completion. The ring has no `sendfile`, and its alternatives (a read and a send, or two splices through
//! a pipe) cost more than the call. By then the range is in memory as far as the residency test can tell, or in a
//! memory file, so the call does not wait.

use std::os::fd::AsRawFd;

use io_uring::{opcode, squeue, types};
use rustix::io::Errno;

use super::Ring;
use super::client::{Gather, Operation, PIECES_MAX};
use super::queue::Purpose;
use crate::connection::{Event, Output};
use crate::runtime::sockets::transfer::{self, Transfer};

/// The largest response that is sent and closed as a pair. Progress is not visible until all of it is sent, so the
/// client's timeout covers the whole.
const SENT_AND_CLOSED_BYTES_MAX: usize = 16 * 1024;

impl Ring<'_> {
    /// Sends, or submits a send; returns the event if it is already done.
    pub(super) fn send(&mut self, token: u64, output: Output) -> Option<Event> {
        let is_from_memory = output.body.as_ref().is_none_or(|body| body.in_file(0).is_none());
        if is_from_memory && !output.yields && !output.is_sent() {
            self.send_from_memory(token, output);
            return None;
        }
        self.send_at_once(token, output)
    }

    fn send_from_memory(&mut self, token: u64, mut output: Output) {
        let client = self.state.clients.at(token);
        transfer::prepare(&client.socket, &mut output);
        let socket = types::Fd(client.socket.as_raw_fd());
        let rest = output.total_bytes() - output.sent;
        let closes = output.closes && rest <= SENT_AND_CLOSED_BYTES_MAX;
        // WAITALL: a short send fails and with it the close. No MORE: when the bytes left together with the end of the
        // connection, one that served a single request cost 23 us of CPU time instead of 21.
        let flags = libc::MSG_NOSIGNAL | if closes { libc::MSG_WAITALL } else { 0 };
        let (operation, gather) = operation(socket, &output, flags);
        client.progress.operation = Operation::Sending(output, gather);
        if closes {
            let close = opcode::Close::new(socket).build();
            let pair = ((operation, Purpose::Send), (close, Purpose::CloseAfterSend));
            // SAFETY: the client keeps the bytes until the operation has completed.
            unsafe { self.queue.push_pair(pair.0, pair.1, token) };
        } else {
            // SAFETY: the client keeps the bytes until the operation has completed.
            unsafe { self.queue.push(operation, Purpose::Send, token) };
        }
    }

    fn send_at_once(&mut self, token: u64, mut output: Output) -> Option<Event> {
        let client = self.state.clients.at(token);
        let before = output.sent;
        let outcome = transfer::transmit(&client.socket, &mut output);
        self.state.served.add(client.connection.sent(), (output.sent - before) as u64);
        match outcome {
            Transfer::Complete(_) => Some(Event::Sent(output)),
            Transfer::Ended | Transfer::Failed => Some(Event::Failed),
            Transfer::Blocked => {
                let events = libc::POLLOUT | if output.yields { libc::POLLIN } else { 0 };
                let poll = opcode::PollAdd::new(types::Fd(client.socket.as_raw_fd()), events as u32).build();
                client.progress.operation = Operation::AwaitingRoom(output);
                // SAFETY: it points to no memory.
                unsafe { self.queue.push(poll, Purpose::Room, token) };
                None
            }
        }
    }

    /// The socket accepts more, or has something to receive.
    pub(super) fn polled(&mut self, token: u64, output: Output, result: Result<u32, Errno>) -> Option<Event> {
        let is_readable = result.is_ok_and(|events| events & libc::POLLIN as u32 != 0);
        if output.yields && is_readable { Some(Event::Sent(output)) } else { self.send(token, output) }
    }

    /// A send was cancelled, perhaps after a part of it, or all.
    pub(super) fn stop_sending(
        &mut self,
        token: u64,
        mut output: Output,
        result: Result<u32, Errno>,
    ) -> Event {
        match result {
            Ok(count) => {
                output.sent += count as usize;
                self.state.served.add(self.state.clients.at(token).connection.sent(), u64::from(count));
            }
            Err(Errno::CANCELED | Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Event::Failed,
        }
        Event::Sent(output)
    }

    /// The ring has sent something, or failed.
    pub(super) fn sent(
        &mut self,
        token: u64,
        mut output: Output,
        result: Result<u32, Errno>,
    ) -> Option<Event> {
        match result {
            Ok(count) => {
                output.sent += count as usize;
                self.state.served.add(self.state.clients.at(token).connection.sent(), u64::from(count));
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Some(Event::Failed),
        }
        // A completely sent output continues like one from a file.
        self.send(token, output)
    }
}

/// The operation that sends the rest of `output`, or as many pieces as fit. The bytes and the gathered pieces must live
/// until it completes.
fn operation(socket: types::Fd, output: &Output, flags: i32) -> (squeue::Entry, Option<Box<Gather>>) {
    let head = output.bytes.get(output.sent..).filter(|head| !head.is_empty());
    let body_sent = output.sent.saturating_sub(output.bytes.len());
    let body = output.body.iter().flat_map(|body| body.in_memory(body_sent));
    let mut pieces = head.into_iter().chain(body);
    let first = pieces.next().unwrap_or_default();
    let Some(second) = pieces.next() else {
        let send = opcode::Send::new(socket, first.as_ptr(), first.len() as u32).flags(flags);
        return (send.build(), None);
    };
    let gather = gather([first, second].into_iter().chain(pieces));
    (opcode::SendMsg::new(socket, &raw const gather.header).flags(flags as u32).build(), Some(gather))
}

fn gather<'b>(bytes: impl Iterator<Item = &'b [u8]>) -> Box<Gather> {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    // SAFETY: all zeros is an empty message header.
    let header = unsafe { std::mem::zeroed() };
    let mut gather = Box::new(Gather { pieces: [nothing; PIECES_MAX], header });
    let mut count = 0;
    for (piece, bytes) in gather.pieces.iter_mut().zip(bytes) {
        *piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        count += 1;
    }
    gather.header.msg_iov = gather.pieces.as_mut_ptr();
    gather.header.msg_iovlen = count;
    gather
}
