//! Clients: connections with their sockets, by token.
//!
//! A token is a place and a generation, so that an event, a timer or an outcome for a client that is gone does
//! not reach the next one in its place.

use std::os::fd::OwnedFd;

use slab::Slab;

use super::transfer::{self, Transfer};
use crate::connection::{Buffer, Connection, Event, Pool, Wait, Want};
use crate::counters::{Counter, Served};

/// A connection and its socket.
pub struct Client {
    pub socket: OwnedFd,
    pub connection: Connection,
    /// What it wants and could not have; `None` while it waits for the disk.
    pub parked: Option<Want>,
    pub is_readable: bool,
    pub is_writable: bool,
    /// The other side has shut its sending side: an end is to be read although no edge announces it.
    pub is_ended: bool,
    pub wait: Wait,
    /// The tick at which patience with it ends.
    pub deadline: u32,
    /// The tick of its entry in the timers.
    pub entered: u32,
    generation: u32,
}

impl Client {
    /// A client that has yet to send its first request; `token` is the vacant one.
    pub fn new(socket: OwnedFd, connection: Connection, token: u64, deadline: u32, entered: u32) -> Client {
        Client {
            socket,
            parked: Some(connection.start()),
            connection,
            is_readable: false,
            is_writable: true,
            is_ended: false,
            wait: Wait::Request,
            deadline,
            entered,
            generation: generation(token),
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
                served.add(Counter::ReceivedBytes, count as u64);
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

/// All clients of a loop.
#[derive(Default)]
pub struct Clients {
    places: Slab<Client>,
    /// Distinguishes clients that had the same place one after the other.
    generation: u32,
}

impl Clients {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The client behind `token`, unless it is gone.
    pub fn find(&mut self, token: u64) -> Option<&mut Client> {
        let client = self.places.get_mut(place(token))?;
        (client.generation == generation(token)).then_some(client)
    }

    /// The client behind `token`, who is there.
    pub fn at(&mut self, token: u64) -> &mut Client {
        &mut self.places[place(token)]
    }

    /// The token of the client that is inserted next.
    pub fn vacant(&mut self) -> u64 {
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        join(self.places.vacant_key(), self.generation)
    }

    pub fn insert(&mut self, client: Client) {
        self.places.insert(client);
    }

    pub fn remove(&mut self, token: u64) -> Client {
        self.places.remove(place(token))
    }

    pub fn tokens(&self) -> Vec<u64> {
        self.places.iter().map(|(place, client)| join(place, client.generation)).collect()
    }
}

fn place(token: u64) -> usize {
    token as u32 as usize
}

fn generation(token: u64) -> u32 {
    (token >> 32) as u32
}

fn join(place: usize, generation: u32) -> u64 {
    place as u64 | u64::from(generation) << 32
}
