//! The end of a connection: detached from its client, closed by the server when idle, failed, or closed by the client.

use sojourn_measure::{Nanos, clock};

use crate::{
    clients::{Ended, Run, connection::Connection},
    http::{cause::Cause, connection::State},
    statistics::step::PendingRequest,
};

impl Run<'_> {
    /// Separates a connection from its client. If the server announced that it will close, the client waits for it, as
    /// browsers do: the side that closes first keeps the port in TIME_WAIT.
    pub(super) fn detach(&mut self, key: usize, owner: usize, server_closes: bool, at: Nanos) {
        self.table.clients[owner].connection = None;
        if server_closes {
            let connection = &mut self.table.connections[key];
            connection.owner = None;
            connection.http.state = State::Lingering;
            connection.exchange.sent = at;
        } else {
            self.close(key);
        }
    }

    /// A failure on a reused connection before any byte of the response most likely means that the server had just
    /// closed it as idle: the request is retried once, as browsers do.
    pub(super) fn fail_or_retry(&mut self, key: usize, cause: Cause, at: Nanos) {
        let connection = &mut self.table.connections[key];
        let stale = matches!(cause, Cause::Reset | Cause::ClosedEarly)
            && connection.pipelined.is_empty()
            && connection.http.is_stale();
        match connection.owner {
            Some(owner) if stale && !connection.exchange.pending.retried => {
                let pending = connection.exchange.pending;
                self.drop_closed(key);
                self.table.clients[owner].pending = Some(PendingRequest { retried: true, ..pending });
                self.open(owner);
            }
            _ => self.fail(key, cause, at),
        }
    }

    /// Gives up a connection with its requests in flight.
    pub(crate) fn fail(&mut self, key: usize, cause: Cause, at: Nanos) {
        let connection = self.close(key);
        let mut under_way = 0;
        for exchange in connection.under_way() {
            self.recorder.fail(&exchange.pending, cause, at);
            under_way += 1;
        }
        let Some(owner) = connection.owner else { return };
        self.table.clients[owner].connection = None;
        self.table.clients[owner].failure = None;
        if under_way > 0 {
            self.advance(owner, at, Ended::Failed);
        } else {
            self.fail_client(owner, cause, at);
        }
    }

    /// Gives up the pending request of a client without a connection.
    pub(crate) fn fail_client(&mut self, key: usize, cause: Cause, at: Nanos) {
        if cause == Cause::ConnectRefused {
            self.opener.refused_since.get_or_insert(at);
        }
        match self.table.clients[key].pending {
            Some(pending) if pending.acted > Nanos::ZERO => {
                self.recorder.fail(&pending, cause, at);
                self.advance(key, at, Ended::Failed);
            }
            // Nothing was in flight: the client reconnects when its request is due.
            _ => {}
        }
    }

    /// The server closed an idle connection: the next request opens another.
    pub(super) fn drop_closed(&mut self, key: usize) {
        if let Some(owner) = self.table.connections[key].owner {
            self.table.clients[owner].connection = None;
        }
        self.recorder.totals.reconnects += 1;
        self.close(key);
    }

    pub(crate) fn close(&mut self, key: usize) -> Connection {
        let mut connection = self.table.connections.remove(key);
        connection.http.close_notify();
        self.opener.connector.closed(connection.source, connection.http.closed_by_server);
        self.recorder.totals.connections_open.down(clock::now());
        connection
    }
}
