//! One connection, the exchanges that are on it, and what an event on its socket means to it.
//!
//! Its life is told in the files beside: `open`, `request`, `response`, `close`. Sockets are watched edge-triggered, so
//! a wait reports each arrival once and costs no re-arming.

mod close;
mod open;
mod request;
mod response;

pub(crate) use open::Opener;

use std::{collections::VecDeque, os::fd::OwnedFd};

use rustix::{
    event::epoll::{EventData, EventFlags},
    io::Errno,
    net::{SendFlags, send},
};
use sojourn_measure::Nanos;

use crate::{
    clients::run::Run,
    http::{response_reader::Reception, tls_stream::Secured},
    runtime::read_rate::Reader,
    statistics::recorder::Exchange,
};

const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
const ARRIVALS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

pub struct Connection {
    pub socket: OwnedFd,
    /// Tells this connection from an earlier one under the same key, in late events.
    pub serial: u32,
    /// The client it belongs to; `None` while it waits for the next client, or for the server to close it.
    pub owner: Option<usize>,
    pub state: State,
    pub opened: Nanos,
    /// The source address it counts towards.
    pub source: usize,
    /// True if the server has closed its side.
    pub closed_by_server: bool,
    pub answered: u32,
    /// The most requests it may serve.
    pub requests_max: u32,
    /// The exchange whose answer comes next, or the last one.
    pub exchange: Exchange,
    /// Those whose answers come after it.
    pub piped: VecDeque<Exchange>,
    /// The bytes of the requests in progress that the socket has not accepted yet.
    pub unsent: Vec<u8>,
    pub reception: Reception,
    /// TLS, where it is spoken.
    pub secured: Option<Box<Secured>>,
    /// How fast it may be read, if not as fast as possible.
    pub reader: Option<Reader>,
}

impl Connection {
    /// Returns true if requests are under way on it.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Sending | State::Receiving)
    }

    /// How long the handshake of TLS has taken by now.
    pub fn shaking_for(&self, now: Nanos) -> Nanos {
        self.secured.as_ref().map_or(Nanos::ZERO, |secured| now - secured.shaking_since)
    }

    /// Sends bytes; answers how many need no more of our care.
    pub fn transmit(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.secured {
            Some(secured) => secured.send(&self.socket, bytes).map(|()| bytes.len()),
            None => send(&self.socket, bytes, SendFlags::NOSIGNAL),
        }
    }

    /// Sends what the socket did not take before.
    pub fn transmit_rest(&mut self) -> Result<(), Errno> {
        if let Some(secured) = &mut self.secured {
            return secured.flush(&self.socket);
        }
        match send(&self.socket, &self.unsent, SendFlags::NOSIGNAL) {
            Ok(sent) => drop(self.unsent.drain(..sent)),
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns true if something waits for the socket to take it.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.secured.as_ref().is_some_and(|secured| secured.has_unsent())
    }

    /// The exchanges under way, in the order of their answers.
    pub fn under_way(&self) -> impl Iterator<Item = &Exchange> {
        let first = self.is_busy().then_some(&self.exchange);
        first.into_iter().chain(&self.piped)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for the handshake of TCP.
    Connecting,
    /// Waiting for that of TLS.
    Shaking,
    Idle,
    /// The socket did not take all of the requests.
    Sending,
    Receiving,
    /// Done; the server said that it closes, and so it is left to do so.
    Lingering,
}

/// The memory of event data: a connection's key below, its serial above.
fn event_data(key: usize, serial: u32) -> EventData {
    EventData::new_u64(u64::from(serial) << 32 | key as u64)
}

impl Run<'_> {
    /// Something happened on a socket, at `at` or before.
    pub(crate) fn on_event(&mut self, key: usize, serial: u32, flags: EventFlags, at: Nanos) {
        let Some(connection) = self.table.live_connection(key, serial) else { return };
        let ended = flags.intersects(ENDED);
        connection.closed_by_server |= ended;
        let state = connection.state;
        match state {
            State::Connecting => self.on_connected(key, at),
            State::Shaking => self.shake(key, at),
            State::Sending | State::Receiving => {
                if state == State::Sending && flags.contains(EventFlags::OUT) && !ended {
                    self.send_rest(key, at);
                }
                // The rest may have failed to go, and with it the connection.
                let is_live = self.table.live_connection(key, serial).is_some();
                if is_live && (ended || flags.contains(EventFlags::IN)) {
                    self.receive(key, serial, at);
                }
            }
            State::Idle if ended || self.has_unsolicited(key) => self.lose(key),
            State::Lingering if ended => drop(self.close(key)),
            _ => {}
        }
    }
}
