//! The readiness of a client's socket, and the operation that waits for it.

use crate::connection::{Buffer, Connection, Event, Pool, Want};
use crate::counters::Served;
use crate::runtime::event_loop;
use crate::runtime::sockets::transfer::{self, Transfer};

/// A connection and its socket.
pub type Client = event_loop::Client<Readiness>;

pub struct Readiness {
    /// The want that would have blocked; `None` while it waits for the disk.
    pub parked: Option<Want>,
    /// True if the poll tells of the socket: from the first time that the client is waited for.
    pub is_watched: bool,
    pub is_readable: bool,
    pub is_writable: bool,
    /// The other side has shut its sending side: an end is to be read although no edge announces it.
    pub is_ended: bool,
}

impl Readiness {
    /// The state of a new connection.
    pub fn of(connection: &Connection) -> Readiness {
        Readiness {
            parked: Some(connection.start()),
            is_watched: false,
            is_readable: true,
            is_writable: true,
            is_ended: false,
        }
    }
}

impl Client {
    /// An event if there is something to receive, otherwise the want to be parked.
    pub fn receive(&mut self, buffer: Buffer, pool: &mut Pool, served: &mut Served) -> Result<Event, Want> {
        let progress = &mut self.progress;
        if !progress.is_readable {
            return Err(Want::Receive(buffer));
        }
        let mut buffer = pool.fill(buffer);
        let room = buffer.space().capacity() - buffer.space().len();
        match transfer::receive(&self.socket, &mut buffer) {
            Transfer::Complete(count) => {
                // A short read emptied the socket; the next bytes are a new edge.
                progress.is_readable = count == room || progress.is_ended;
                served.add(self.connection.received(), count as u64);
                Ok(Event::Received(buffer))
            }
            Transfer::Blocked => {
                progress.is_readable = false;
                if buffer.unread().is_empty() {
                    let unfilled = buffer.unfilled();
                    pool.put_buffer(buffer);
                    return Err(Want::Receive(unfilled));
                }
                Err(Want::Receive(buffer))
            }
            Transfer::Ended => Ok(Event::Ended),
            Transfer::Failed => Ok(Event::Failed),
        }
    }
}
