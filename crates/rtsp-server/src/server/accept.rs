//! Accepts connections; if there is no room, evicts ones without a session, so that these never keep others out.

use rustix::event::epoll;
use sojourn_server::{Accepted, Arrival, Counter as Limit, Permit, shed_with};

use super::{Connection, Counter, Server};
use crate::access_log::Ending;

/// Connections accepted in one loop iteration.
const ACCEPTS_PER_ITERATION: usize = 64;

/// Sessions examined for a connection to close: who sets up many beside one that plays must not cost more.
const CANDIDATES_MAX: usize = 64;

/// The response to a connection above the limit.
pub(super) const SHED: &[u8] =
    b"RTSP/1.0 503 Service Unavailable\r\nServer: Sojourn\r\nConnection: close\r\n\r\n";

impl Server<'_> {
    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_PER_ITERATION {
            let Some(acceptor) = self.acceptors.get(listener) else { return };
            match acceptor.accept() {
                Accepted::Connection(arrival) => self.admit(arrival, listener),
                Accepted::Shed => self.counts.count(Counter::ConnectionsShed),
                Accepted::Failed => {}
                Accepted::Nobody => return,
                Accepted::Exhausted => {
                    for acceptor in &self.acceptors {
                        let _ = epoll::delete(&self.epoll, acceptor.fd());
                    }
                    self.accepting_is_paused = true;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, arrival: Arrival, listener: usize) {
        let permit = match self.permit(&arrival) {
            Ok(permit) => permit,
            Err(limit) => {
                shed_with(&arrival, SHED);
                self.counts.count(Counter::ConnectionsShed);
                return self.counts.count(limit);
            }
        };
        let local = rustix::net::getsockname(&arrival.socket).map(sojourn_server::address);
        let addresses = (arrival.peer, local.unwrap_or(arrival.peer));
        let token = self.connections.vacant();
        let data = epoll::EventData::new_u64(token);
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if epoll::add(&self.epoll, &arrival.socket, data, flags).is_err() {
            return self.site.scoreboard.release(permit);
        }
        self.counts.count(Counter::ConnectionsAccepted);
        self.sessionless.enter(arrival.peer, token);
        self.connections.insert(Connection::new(arrival.socket, addresses, permit, listener, self.now));
        self.make_ready(token);
    }

    /// A permit for a connection, after evicting one without a session if necessary.
    fn permit(&mut self, arrival: &Arrival) -> Result<Permit, Counter> {
        let name = |limit| match limit {
            Limit::LimitConnectionsPerAddress => Counter::LimitConnectionsPerAddress,
            _ => Counter::LimitConnections,
        };
        loop {
            match self.site.scoreboard.acquire(arrival.peer, &self.limits).map_err(name) {
                Err(Counter::LimitConnections) if self.evict_connection() => {}
                outcome => return outcome,
            }
        }
    }

    /// Closes a connection without a session, or else one whose sessions have never played; returns true if there was
    /// one.
    fn evict_connection(&mut self) -> bool {
        let sessionless = self.sessionless.eviction_candidate();
        let Some(connection) = sessionless.or_else(|| self.unplayed_connection()) else { return false };
        for session in self.connections.at(connection).sessions.clone() {
            self.end(session, Ending::Displaced);
        }
        self.counts.count(Counter::LimitConnections);
        self.close(connection);
        true
    }

    /// A connection whose sessions have never played. The end of others would make no room for a connection: they have
    /// none any more, or share it with one that plays.
    fn unplayed_connection(&mut self) -> Option<u64> {
        let candidates: Vec<u64> = self.unplayed.eviction_candidates().take(CANDIDATES_MAX).collect();
        candidates.into_iter().find_map(|session| {
            let token = self.streams.at(session).connection;
            let mut sessions = self.connections.find(token)?.sessions.iter();
            let is_unplayed =
                sessions.all(|session| self.streams.find(*session).is_none_or(|it| !it.session.has_played()));
            is_unplayed.then_some(token)
        })
    }

    /// Closes connections without a session above their limit. Called between loop iterations.
    pub(super) fn make_room(&mut self) {
        while self.unplayed.len() > self.site.settings.setups_max {
            let Some(session) = self.unplayed.eviction_candidate() else { break };
            self.counts.count(Counter::LimitSetups);
            self.end(session, Ending::Displaced);
        }
        while self.sessionless.len() > self.site.settings.sessionless_connections_max {
            let Some(connection) = self.sessionless.eviction_candidate() else { break };
            self.counts.count(Counter::LimitSessionlessConnections);
            self.close(connection);
        }
    }
}
