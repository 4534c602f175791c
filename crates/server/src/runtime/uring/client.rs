//! A client: a connection with its socket, and the one thing that is under way for it.
//!
//! Memory that the kernel reads from or writes to is kept in [`Operation`] and nowhere else, and a client is only
//! forgotten when nothing is under way for it. So nothing is freed that the kernel still uses.

use super::read::Reading;
use super::send::Gather;
use crate::connection::{Buffer, Output, Reason};
use crate::runtime::event_loop;

/// A connection and its socket.
pub type Client = event_loop::Client<Pending>;

pub struct Pending {
    pub operation: Operation,
    /// Why the operation in progress was cancelled.
    pub interruption: Option<Interruption>,
    /// True if receiving may succeed at once.
    pub may_be_readable: bool,
}

impl Default for Pending {
    /// The state of a new client.
    fn default() -> Pending {
        Pending { operation: Operation::Nothing, interruption: None, may_be_readable: true }
    }
}

pub enum Operation {
    /// Nothing: it is being driven.
    Nothing,
    /// The ring receives; the bytes are added to this.
    Receiving(Buffer),
    /// The ring sends this from memory, both pieces gathered if there are two.
    Sending(Output, #[expect(dead_code, reason = "kept for the kernel to read")] Option<Box<Gather>>),
    /// The ring waits until the socket takes more of this.
    AwaitingRoom(Output),
    /// It could go on sending this; other connections are served first.
    Runnable(Output),
    Reading(Reading),
    /// The ring has closed the socket.
    Closed,
    Helped,
}

#[derive(Clone, Copy, Debug)]
pub enum Interruption {
    /// The client took too long.
    Expired,
    /// The server is stopping and the client has no request in progress.
    Drained,
    /// The connection has something else to do than to receive.
    Recalled,
    /// The connection is to end, whatever it does.
    Closed(Reason),
}
