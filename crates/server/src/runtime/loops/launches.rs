//! Connections that a handler has its loop make, and connections that it has woken.
//!
//! A turn of the loop does what has gathered in the handler's outbox. What comes of it waits for the next turn, so that two
//! connections which wake each other do not starve the others.

use std::os::fd::OwnedFd;

use super::LoopState;
use crate::connection::{Connection, Destination, Event, Launch};
use crate::counters::Counter;
use crate::runtime::sockets::connect;

/// A loop that makes and wakes them.
pub trait Launches<'a> {
    /// What it knows of a client's progress.
    type Progress;

    /// Its state.
    fn state(&mut self) -> &mut LoopState<'a, Self::Progress>;

    /// Takes in the client that gets the vacant token.
    fn insert(&mut self, socket: OwnedFd, connection: Connection);

    /// Tells the connection behind `token`, and does what it wants.
    fn happen(&mut self, token: u64, event: Event);

    /// Makes and wakes what the handler has in its outbox.
    fn empty_outbox(&mut self) {
        let Some(outbox) = self.state().handler.outbox().filter(|outbox| outbox.has_work()) else { return };
        let (launches, wakes) = outbox.take();
        for launch in launches {
            self.launch(launch);
        }
        for token in wakes {
            if self.state().clients.find(token).is_some() {
                self.happen(token, Event::Woken);
            }
        }
    }

    /// Makes a connection, and wakes it.
    fn launch(&mut self, Launch { to, machine, tls }: Launch) {
        let mut connection = Connection::launched(machine, tls);
        let state = self.state();
        let token = state.clients.vacant();
        let connects = matches!(to, Destination::Address(_));
        match connect::socket(to, |other| state.clients.find(other).map(|client| &client.socket)) {
            Ok(socket) => {
                if connects {
                    state.served.count(Counter::UpstreamConnections);
                }
                self.insert(socket, connection);
                self.happen(token, Event::Woken);
            }
            Err(_) => {
                let (_, mut context) = state.context(token);
                connection.handle(Event::Failed, &mut context);
                connection.finish(&mut context);
            }
        }
    }
}
