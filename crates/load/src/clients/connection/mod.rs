//! A connection with its exchanges, and its socket events.
//!
//! Its stages are in `open`, `request`, `response` and `close`. Sockets are watched edge-triggered, so each arrival is
//! reported once and needs no re-arming.

mod close;
mod open;
mod request;
mod response;

pub(crate) use open::Opener;

use std::collections::VecDeque;

use rustix::event::epoll::{EventData, EventFlags};
use sojourn_measure::Nanos;

use crate::{
    clients::Run,
    http::connection::{HttpConnection, State},
    statistics::step::Exchange,
};

pub(super) const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
pub(super) const ARRIVALS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

pub struct Connection {
    pub http: HttpConnection,
    /// Distinguishes the connection from an earlier one with the same key, for late events.
    pub serial: u32,
    /// The client it belongs to; `None` while it waits for the next client or for the server to close it.
    pub owner: Option<usize>,
    /// The source address for which it counts.
    pub source: usize,
    /// The most requests it may carry.
    pub requests_max: u32,
    /// The exchange whose response is next, or the last one.
    pub exchange: Exchange,
    /// The exchanges whose responses follow.
    pub pipelined: VecDeque<Exchange>,
}

impl Connection {
    /// How long the TLS handshake has taken so far.
    pub fn handshaking_for(&self, now: Nanos) -> Nanos {
        self.http.tls.as_ref().map_or(Nanos::ZERO, |tls| now - tls.handshake_since)
    }

    /// The exchanges in flight, in the order of their responses.
    pub fn under_way(&self) -> impl Iterator<Item = &Exchange> {
        let first = self.http.is_busy().then_some(&self.exchange);
        first.into_iter().chain(&self.pipelined)
    }
}

/// The user data of an epoll event: the key in the low half, the serial in the high half.
pub(super) fn event_data(key: usize, serial: u32) -> EventData {
    EventData::new_u64(u64::from(serial) << 32 | key as u64)
}

impl Run<'_> {
    /// Handles an event on a socket that happened at `at` or before.
    pub(crate) fn on_event(&mut self, key: usize, serial: u32, flags: EventFlags, at: Nanos) {
        let Some(connection) = self.table.live_connection(key, serial) else {
            return self.on_shared_event(key, serial, flags, at);
        };
        let ended = flags.intersects(ENDED);
        connection.http.closed_by_server |= ended;
        let state = connection.http.state;
        match state {
            State::Connecting => self.on_connected(key, at),
            State::Handshaking => self.handshake(key, at),
            State::Sending | State::Receiving => {
                if state == State::Sending && flags.contains(EventFlags::OUT) && !ended {
                    self.send_rest(key, at);
                }
                // Sending the rest may have failed, and with it the connection.
                let is_live = self.table.live_connection(key, serial).is_some();
                if is_live && (ended || flags.contains(EventFlags::IN)) {
                    self.receive(key, serial, at);
                }
            }
            State::Idle if ended || connection.http.has_unsolicited(&mut self.buffer[..]) => {
                self.drop_closed(key)
            }
            State::Lingering if ended => drop(self.close(key)),
            _ => {}
        }
    }
}
