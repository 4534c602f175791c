//! Timeouts: ends sessions and connections whose clients are silent, gone, or not reading; and all of them at a stop.

use std::cmp::Reverse;
use std::time::Duration;

use rustix::event::epoll;

use super::{DATAGRAMS, LISTENERS, Server};
use crate::access_log::Ending;
use crate::control_connection::Waiting;
use crate::counters::Counter;

/// After an upgrade, connections without a session for this long are closed.
const RETIRING_IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// A session whose connection has closed ends when its client has been silent for this long.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections closed per sweep, and never-played sessions ended per iteration: thousands at once would delay due
/// samples.
const CLOSED_PER_SWEEP: usize = 128;
const ENDED_PER_ITERATION: usize = 32;

/// The most outdated entries kept in the heap of due times, beside one per session.
const STALE_DUES_MAX: usize = 1024;

impl Server<'_> {
    pub(super) fn sweep(&mut self) {
        self.swept = self.now;
        self.clock.update();
        for token in self.streams.tokens() {
            self.sweep_stream(token);
        }
        let mut closed = 0;
        for token in self.connections.tokens() {
            closed += usize::from(self.sweep_connection(token));
            if closed == CLOSED_PER_SWEEP {
                break;
            }
        }
        self.drop_stale_dues();
        if self.accepting_is_paused {
            self.accepting_is_paused = false;
            for (acceptor, token) in self.acceptors.iter().zip(LISTENERS..) {
                let data = epoll::EventData::new_u64(token);
                let added = epoll::add(&self.epoll, acceptor.fd(), data, epoll::EventFlags::IN);
                self.accepting_is_paused |= !matches!(added, Ok(()) | Err(rustix::io::Errno::EXIST));
            }
        }
    }

    fn sweep_stream(&mut self, token: u64) {
        let timeout = self.site.settings.session_timeout;
        let stream = self.streams.at(token);
        // A client that reads its interleaved data is alive, even without keep-alive requests.
        if stream.is_interleaved()
            && stream.schedule.is_some()
            && let Some(connection) = self.connections.find(stream.connection)
            && self.now.saturating_sub(connection.taken) < super::SWEEP_PERIOD * 2
        {
            stream.session.keep_alive(self.now);
        }
        let limit = if stream.is_orphan { timeout.min(ORPHAN_TIMEOUT) } else { timeout };
        if self.now.saturating_sub(stream.session.last_activity()) > limit {
            self.counts.count(Counter::SessionsTimedOut);
            self.end(token, Ending::TimedOut);
        }
    }

    /// Removes entries that earlier seeks have left.
    fn drop_stale_dues(&mut self) {
        if self.due.len() > 2 * self.streams.len() + STALE_DUES_MAX {
            let streams = &mut self.streams;
            self.due.retain(|Reverse((_, token, serial))| {
                streams.find(*token).is_some_and(|stream| stream.serial == *serial)
            });
        }
    }

    /// Ends sessions that have not played in time, a few per iteration, because thousands may have been set up
    /// together.
    pub(super) fn end_unplayed(&mut self) {
        let mut ended = 0;
        while ended < ENDED_PER_ITERATION
            && let Some((began, token)) = self.setups.front().copied()
            && self.now.saturating_sub(began) > self.site.settings.setup_timeout
        {
            self.setups.pop_front();
            if self.streams.find(token).is_some_and(|stream| !stream.session.has_played()) {
                self.counts.count(Counter::LimitSetup);
                self.end(token, Ending::TimedOut);
                ended += 1;
            }
        }
    }

    /// Closes a connection that has been silent, or has read nothing, for too long; returns true if it did. One whose
    /// film takes too long to open is answered first.
    fn sweep_connection(&mut self, token: u64) -> bool {
        let settings = &self.site.settings;
        let (mut idle, head, send) = (settings.idle_timeout, settings.head_timeout, settings.send_timeout);
        if self.is_draining {
            idle = idle.min(RETIRING_IDLE_TIMEOUT);
        }
        let connection = self.connections.at(token);
        let waits = |since: Duration| self.now.saturating_sub(since);
        if matches!(connection.film, Waiting::Yes) && waits(connection.since) > settings.open_timeout {
            connection.film = Waiting::Expired;
            self.counts.count(Counter::LimitOpen);
            self.make_ready(token);
            return false;
        }
        let limit = if connection.waiting_bytes() > 0 && waits(connection.taken) > send {
            Counter::LimitSend
        } else if !connection.received.is_empty()
            && !connection.is_full_of_answers()
            && waits(connection.since) > head
        {
            Counter::LimitHead
        } else if connection.sessions.is_empty() && waits(connection.since) > idle {
            Counter::LimitIdle
        } else {
            return false;
        };
        self.counts.count(limit);
        self.close(token);
        true
    }

    /// Closes a connection. Sessions with interleaved packets end; others wait for their client to reconnect.
    pub(super) fn close(&mut self, token: u64) {
        let Some(connection) = self.connections.find(token) else { return };
        let sessions = std::mem::take(&mut connection.sessions);
        let permit = connection.permit;
        self.sessionless.release(token);
        // Closing the socket removes it from epoll.
        drop(self.connections.remove(token));
        self.site.scoreboard.release(permit);
        for session in sessions {
            let Some(stream) = self.streams.find(session) else { continue };
            if stream.is_interleaved() {
                self.end(session, Ending::Closed);
            } else if stream.connection == token {
                stream.is_orphan = true;
            }
        }
    }

    pub(super) fn end(&mut self, token: u64, ending: Ending) {
        if self.streams.find(token).is_none() {
            return;
        }
        if self.streams.at(token).schedule.is_some() {
            self.report(token, true);
        }
        self.forget_ports(token);
        let stream = self.streams.remove(token);
        self.sessions.remove(&stream.session.id);
        if stream.session.has_played() {
            self.admission.release(stream.client, stream.bits_per_second());
        } else {
            self.unplayed.release(token);
        }
        self.counts.count(Counter::SessionsEnded);
        if let Some(log) = self.site.log {
            self.clock.update();
            log.append(|lines| stream.append_line(lines, &self.clock, self.now, ending));
        }
        self.detach(stream.connection, token);
    }

    /// Connection `token` no longer controls `session`.
    pub(super) fn detach(&mut self, token: u64, session: u64) {
        let Some(connection) = self.connections.find(token) else { return };
        connection.sessions.retain(|known| *known != session);
        if connection.sessions.is_empty() {
            connection.since = self.now;
            self.sessionless.enter(connection.peer, token);
        }
    }

    /// Connection `token` now controls `session`.
    pub(super) fn attach(&mut self, token: u64, session: u64) {
        let connection = self.connections.at(token);
        connection.sessions.push(session);
        self.sessionless.release(token);
    }

    /// Stops associating reports from the ports of session `token` with it.
    pub(super) fn forget_ports(&mut self, token: u64) {
        let stream = self.streams.at(token);
        for position in 0..stream.session.tracks.len() {
            let Some([_, rtcp]) = stream.receivers(position) else { continue };
            let source = stream.session.tracks[position].source;
            if self.sources.get(&source) == Some(&token) {
                self.sources.remove(&source);
            }
            let key = (rtcp.ip(), rtcp.port());
            if self.receivers.get(&key) == Some(&token) {
                self.receivers.remove(&key);
            }
        }
    }

    /// Associates reports from the ports of session `token` with it.
    pub(super) fn remember_ports(&mut self, token: u64) {
        let stream = self.streams.at(token);
        for position in 0..stream.session.tracks.len() {
            if let Some([_, rtcp]) = stream.receivers(position) {
                self.receivers.insert((rtcp.ip(), rtcp.port()), token);
                self.sources.insert(stream.session.tracks[position].source, token);
            }
        }
    }

    /// Stops accepting, because an upgraded process serves.
    pub(super) fn stop_accepting(&mut self) {
        self.is_draining = true;
        // It stays readable, and has been handled.
        let _ = epoll::delete(&self.epoll, self.site.retire.fd());
        for acceptor in self.acceptors.drain(..) {
            // The successor holds the socket too, so closing it here would not remove it from epoll.
            let _ = epoll::delete(&self.epoll, acceptor.fd());
        }
    }

    /// Returns true if an upgraded process serves and no session is left.
    pub(super) fn has_retired(&self) -> bool {
        self.is_draining && self.streams.is_empty() && self.connections.is_empty()
    }

    /// Ends all sessions with BYE at a stop.
    pub(super) fn end_all(&mut self) {
        for token in self.streams.tokens() {
            self.end(token, Ending::Stopped);
        }
        self.flush();
        for token in self.connections.tokens() {
            self.close(token);
        }
    }

    /// Starts or stops waiting until datagrams can be sent.
    pub(super) fn watch_datagrams(&mut self, number: usize, is_blocked: bool) {
        let ports = &mut self.ports[number];
        ports.is_blocked = is_blocked;
        let data = epoll::EventData::new_u64(DATAGRAMS + number as u64);
        // If that fails, the next iteration tries again.
        let _ = match is_blocked {
            true => epoll::add(&self.epoll, ports.rtp(), data, epoll::EventFlags::OUT),
            false => epoll::delete(&self.epoll, ports.rtp()),
        };
    }
}
