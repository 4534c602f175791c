//! What is sent: bytes, and a body from memory or from a file.

use std::sync::Arc;

use sojourn_content::FileRange;

/// Bytes to send: a head (or several whole responses), then perhaps a body.
#[derive(Debug, Default)]
pub struct Output {
    /// Sent first.
    pub bytes: Vec<u8>,
    /// Sent after `bytes`.
    pub body: Option<Piece>,
    /// How much of both is sent already.
    pub sent: usize,
    /// The connection is under way: nothing is sent before it is there, not even nothing.
    pub awaits_connection: bool,
    /// Cork the socket before: until it is uncorked only full segments leave, whatever the client acknowledges.
    pub corks: bool,
    /// Uncork the socket afterwards.
    pub uncorks: bool,
    /// Nothing but closing follows, so that the last bytes may leave together with the end of the connection.
    pub closes: bool,
    /// Shut the sending side down afterwards.
    pub is_last: bool,
}

/// A body, or a turn's worth of it.
#[derive(Debug)]
pub enum Piece {
    /// From memory.
    Memory(Arc<[u8]>),
    /// From a file.
    File(FileRange),
}

impl Piece {
    /// Bytes.
    pub fn length(&self) -> usize {
        match self {
            Piece::Memory(bytes) => bytes.len(),
            Piece::File(range) => range.length,
        }
    }
}

impl Output {
    /// Bytes in all, sent or not.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len() + self.body.as_ref().map_or(0, Piece::length)
    }
}
