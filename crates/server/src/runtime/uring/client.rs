//! A client: a connection with its socket and its operation in progress, and possibly a receive beside it.
//!
//! Memory that the kernel reads or writes is kept only in [`Operation`] and [`Beside`], and a client is only dropped when
//! nothing is in progress but a receive, whose memory is then kept without it. So no memory is freed that the kernel still
//! uses.

use super::read::Reading;
use crate::connection::{Buffer, Event, Output, Reason};
use crate::runtime::event_loop;

/// A connection and its socket.
pub type Client = event_loop::Client<Pending>;

pub struct Pending {
    pub operation: Operation,
    /// Why the operation in progress was cancelled.
    pub interruption: Option<Interruption>,
    /// An upstream connection that was idle receives while its request is sent, and a tunnel while it sends.
    pub beside: Option<Beside>,
    /// True if receiving may succeed immediately.
    pub may_be_readable: bool,
}

impl Default for Pending {
    fn default() -> Pending {
        Pending { operation: Operation::Nothing, interruption: None, beside: None, may_be_readable: true }
    }
}

pub enum Operation {
    /// Nothing: the client is being driven.
    Nothing,
    /// Receiving; the bytes are appended to this buffer.
    Receiving(Buffer),
    /// Sending this from memory, as one piece or as gathered pieces.
    Sending(Output, #[expect(dead_code, reason = "kept for the kernel to read")] Option<Box<Gather>>),
    /// Waiting until the socket accepts more of this.
    AwaitingRoom(Output),
    /// Could continue sending this, after other connections have been served.
    Runnable(Output),
    Reading(Reading),
    /// The ring has closed the socket.
    Closed,
    AwaitingHelper,
}

/// A receive beside the operation. The connection gets what it brings when it wants to receive next.
pub enum Beside {
    Receiving(Buffer),
    Received(Event),
}

/// Pieces of memory per operation; the next operation sends the rest.
pub const PIECES_MAX: usize = 17;

/// Pieces of memory with the message header that points to them.
pub struct Gather {
    pub pieces: [libc::iovec; PIECES_MAX],
    pub header: libc::msghdr,
}

#[derive(Clone, Copy, Debug)]
pub enum Interruption {
    /// The deadline has passed.
    Expired,
    /// The server is stopping and no request is in progress.
    Drained,
    /// The connection wants something else than to receive.
    Cancelled,
    /// The connection must end in any case.
    Closed(Reason),
}
