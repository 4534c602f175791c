//! The readiness of a client's socket, and the want that waits for it.

use crate::connection::{Buffer, Connection, Event, Pool, Want};
use crate::counters::Served;
use crate::runtime::event_loop;
use crate::runtime::sockets::transfer::{self, Transfer};

/// A connection and its socket.
pub type Client = event_loop::Client<Readiness>;

pub struct Readiness {
    /// The want that would have blocked; `None` while it waits for the disk.
    pub parked: Option<Want>,
    /// True once the socket is registered with epoll, from the first wait on.
    pub is_watched: bool,
    pub is_readable: bool,
    pub is_writable: bool,
    /// The other side has shut down its sending side: reading will return the end, although no edge announces it.
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
    /// The event if there is something to receive, otherwise the want to park.
    pub fn receive(&mut self, buffer: Buffer, pool: &mut Pool, served: &mut Served) -> Result<Event, Want> {
        let progress = &mut self.progress;
        if !progress.is_readable {
            return Err(Want::Receive(buffer));
        }
        let mut buffer = pool.fill(buffer);
        let room = buffer.space().capacity() - buffer.space().len();
        match transfer::receive(&self.socket, &mut buffer) {
            Transfer::Complete(count) => {
                // A short read means that the socket is empty; further bytes cause a new edge.
                progress.is_readable = count == room || progress.is_ended;
                served.add(self.connection.received(), count as u64);
                Ok(Event::Received(buffer))
            }
            Transfer::Blocked => {
                progress.is_readable = false;
                if buffer.unread().is_empty() {
                    let unfilled = buffer.same_kind();
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
