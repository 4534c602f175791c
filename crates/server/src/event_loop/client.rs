//! A client: a connection with its socket, and what is known of the socket's readiness.

use std::os::fd::OwnedFd;

use crate::board::Seat;
use crate::connection::{Buffer, Connection, Event, Pool, Want};
use crate::counters::Served;
use crate::patience::Patience;
use crate::sockets::transfer::{self, Transfer};

/// A connection and its socket.
pub struct Client {
    pub socket: OwnedFd,
    pub connection: Connection,
    /// What it wants and could not have; `None` while it waits for the disk.
    pub parked: Option<Want>,
    /// Whether the poll tells of the socket: from the first time that the client is waited for.
    pub is_watched: bool,
    pub is_readable: bool,
    pub is_writable: bool,
    /// The other side has shut its sending side: an end is to be read although no edge announces it.
    pub is_ended: bool,
    pub patience: Patience,
    /// Nobody sits on that of an upstream.
    pub seat: Seat,
}

impl Client {
    /// A client that has yet to send its first request.
    pub fn new(socket: OwnedFd, connection: Connection, seat: Seat) -> Client {
        Client {
            socket,
            parked: Some(connection.start()),
            connection,
            is_watched: false,
            is_readable: true,
            is_writable: true,
            is_ended: false,
            patience: Patience::new(),
            seat,
        }
    }

    /// An event if there is something to receive, otherwise the want to be parked.
    pub fn receive(&mut self, buffer: Buffer, pool: &mut Pool, served: &mut Served) -> Result<Event, Want> {
        if !self.is_readable {
            return Err(Want::Receive(buffer));
        }
        let mut buffer = if buffer.is_allocated() { buffer } else { pool.take_buffer() };
        let room = buffer.space().capacity() - buffer.space().len();
        match transfer::receive(&self.socket, &mut buffer) {
            Transfer::Complete(count) => {
                // A short read emptied the socket; what comes next is a new edge.
                self.is_readable = count == room || self.is_ended;
                served.add(self.connection.received(), count as u64);
                Ok(Event::Received(buffer))
            }
            Transfer::Blocked => {
                self.is_readable = false;
                if buffer.unread().is_empty() {
                    pool.put_buffer(buffer);
                    return Err(Want::Receive(Buffer::default()));
                }
                Err(Want::Receive(buffer))
            }
            Transfer::Ended => Ok(Event::Ended),
            Transfer::Failed => Ok(Event::Failed),
        }
    }
}
