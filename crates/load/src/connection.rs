//! One connection and the exchanges that are on it.

use std::{collections::VecDeque, os::fd::OwnedFd};

use sojourn_measure::Nanos;

use crate::{client::Errand, reader::Reader, reception::Reception};

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: OwnedFd,
    /// Tells this connection from an earlier one under the same key, in late events.
    pub serial: u32,
    /// The client it belongs to; nobody's while it waits for the next one, or for the server to close it.
    pub owner: Option<usize>,
    /// What it is doing.
    pub state: State,
    /// When connecting began.
    pub opened: Nanos,
    /// The source address it counts towards.
    pub source: usize,
    /// Whether the server has closed its side.
    pub closed_by_server: bool,
    /// Requests answered on it.
    pub answered: u32,
    /// The most requests it may serve.
    pub requests_max: u32,
    /// The exchange whose answer comes next, or the last one.
    pub exchange: Exchange,
    /// Those whose answers come after it.
    pub piped: VecDeque<Exchange>,
    /// What the socket did not take yet of the requests under way.
    pub unsent: Vec<u8>,
    /// The response under way.
    pub reception: Reception,
    /// How fast it may be read, if not as fast as possible.
    pub reader: Option<Reader>,
}

impl Connection {
    /// Whether requests are under way on it.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Sending | State::Receiving)
    }

    /// The exchanges under way, in the order of their answers.
    pub fn under_way(&self) -> impl Iterator<Item = &Exchange> {
        let first = self.is_busy().then_some(&self.exchange);
        first.into_iter().chain(&self.piped)
    }
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for the handshake.
    Connecting,
    /// Waiting for a client.
    Idle,
    /// The socket did not take all of the requests.
    Sending,
    /// Waiting for the response.
    Receiving,
    /// Done; the server said that it closes, and so it is left to do so.
    Lingering,
}

/// One request on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange {
    /// What is asked for.
    pub errand: Errand,
    /// When the request was sent.
    pub sent: Nanos,
    /// When the first byte of the response was there.
    pub first_byte: Option<Nanos>,
}
