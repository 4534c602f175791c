//! One connection and the exchange that is on it.

use std::os::fd::OwnedFd;

use sojourn_measure::Nanos;

use crate::{client::Errand, reception::Reception};

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: OwnedFd,
    /// Tells this connection from an earlier one under the same key, in late events.
    pub serial: u32,
    /// The client it belongs to; nobody's while it waits for the server to close it.
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
    /// The exchange under way, or the last one.
    pub exchange: Exchange,
    /// The response under way.
    pub reception: Reception,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for the handshake.
    Connecting,
    /// Waiting for its client.
    Idle,
    /// The socket took this many bytes of the request and no more.
    Sending(usize),
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
