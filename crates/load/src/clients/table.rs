//! The clients of a run and their connections, each with a key and a serial number.

use std::collections::VecDeque;

use slab::Slab;

use crate::{
    clients::{client::Client, connection::Connection},
    plan::{visitor::Visitor, workload::VisitState},
    statistics::snapshot::ConformingClients,
};

#[derive(Default)]
pub(crate) struct ClientTable {
    pub(crate) clients: Slab<Client>,
    pub(crate) connections: Slab<Connection>,
    /// Connections without a client, with their serials; the longest waiting one is first.
    pub(crate) parked: VecDeque<(usize, u32)>,
    /// The serial of the newest client or connection. Timers and events with another serial are late.
    serial: u32,
    /// Where the search for expired connections continues.
    pub(crate) scan_from: usize,
}

impl ClientTable {
    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Adds a client that has neither a connection nor a request; returns its key.
    pub(crate) fn add_client(&mut self, visit_state: VisitState) -> usize {
        let serial = self.next_serial();
        self.clients.insert(Client {
            visit_state,
            user: None,
            visitor: Visitor::of_client(serial),
            connection: None,
            place: None,
            pending: None,
            failure: None,
            serial,
            received_bytes: 0,
            received_before_step: 0,
        })
    }

    /// The connection for which a timer or an event was meant, if it still exists.
    pub(crate) fn live_connection(&mut self, key: usize, serial: u32) -> Option<&mut Connection> {
        self.connections.get_mut(key).filter(|connection| connection.serial == serial)
    }

    /// Keeps a connection for the next client.
    pub(crate) fn park(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        connection.owner = None;
        self.parked.push_back((key, connection.serial));
    }

    /// Gives a client the connection that has waited longest: all are used in turn, so that none is idle until the
    /// server closes it.
    pub(crate) fn take_parked(&mut self, client: usize) {
        while let Some((key, serial)) = self.parked.pop_front() {
            if let Some(connection) = self.live_connection(key, serial) {
                connection.owner = Some(client);
                self.clients[client].connection = Some(key);
                return;
            }
        }
    }

    /// Restarts the byte counts of all clients at the start of a step.
    pub(crate) fn begin_step(&mut self) {
        for (_, client) in &mut self.clients {
            client.received_before_step = client.received_bytes;
        }
    }

    /// The number of clients that received at least `least` bits per second in the `seconds` of the current step.
    pub(crate) fn rates(&self, least: f64, seconds: f64) -> ConformingClients {
        let rate =
            |client: &Client| (client.received_bytes - client.received_before_step) as f64 * 8.0 / seconds;
        let conforming = self.clients.iter().filter(|(_, client)| rate(client) >= least);
        ConformingClients { clients: self.clients.len(), conforming: conforming.count() }
    }
}
