//! What connections have a loop do for others: connections to make, and connections to wake.
//!
//! A turn does what has gathered; what comes of it is the next turn's, so that two connections which wake each other
//! keep nobody else waiting.

use std::os::fd::OwnedFd;

use super::LoopState;
use crate::connection::{Connection, Event};
use crate::counters::Counter;
use crate::handler::reverse_proxy::{Destination, Launch};
use crate::runtime::sockets::connect;

/// A loop that runs them.
pub trait Errands<'a> {
    /// What it knows of a client's progress.
    type Progress;

    /// Its state.
    fn state(&mut self) -> &mut LoopState<'a, Self::Progress>;

    /// Takes in the client that gets the vacant token.
    fn insert(&mut self, socket: OwnedFd, connection: Connection);

    /// Tells the connection behind `token`, and does what it wants.
    fn happen(&mut self, token: u64, event: Event);

    /// Runs the errands of connections, if there are any.
    fn run_errands(&mut self) {
        let exchanges = self.state().exchanges.as_mut();
        let Some(exchanges) = exchanges.filter(|exchanges| exchanges.has_errands()) else { return };
        let (launches, wakes) = exchanges.take_errands();
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
    fn launch(&mut self, Launch { to, mut connection }: Launch) {
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
