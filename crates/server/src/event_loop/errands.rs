//! What connections have the loop do for others: connections to make, and connections to wake.
//!
//! A turn does what has gathered; what comes of it is the next turn's, so that two connections which wake each other
//! keep nobody else waiting.

use super::client::Client;
use super::{Disk, Loop};
use crate::board::Seat;
use crate::connection::Event;
use crate::counters::Counter;
use crate::proxy::{Destination, Launch};
use crate::sockets::connect;

impl<D: Disk> Loop<'_, D> {
    /// Runs the errands of connections, if there are any.
    pub(super) fn run_errands(&mut self) {
        let Some(exchanges) = self.exchanges.as_mut().filter(|exchanges| exchanges.has_errands()) else {
            return;
        };
        let (launches, wakes) = exchanges.take_errands();
        for launch in launches {
            self.launch(launch);
        }
        for token in wakes {
            if self.clients.find(token).is_some() {
                self.happen(token, Event::Woken);
            }
        }
    }

    fn launch(&mut self, Launch { to, mut connection }: Launch) {
        let token = self.clients.vacant();
        let connects = matches!(to, Destination::Address(_));
        let socket = connect::socket(to, |other| self.clients.find(other).map(|client| &client.socket));
        match socket {
            Ok(socket) => {
                if connects {
                    self.served.count(Counter::UpstreamConnections);
                }
                self.clients.insert(Client::new(socket, connection, Seat::default()));
                self.happen(token, Event::Woken);
            }
            Err(_) => {
                let (_, mut context) = self.context(token);
                connection.handle(Event::Failed, &mut context);
                connection.finish(&mut context);
            }
        }
    }
}
