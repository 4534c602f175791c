//! A request and its response as connection and handler see them: what the handler wants next, and what has happened.

use sojourn_content::{Done, FileRange, Opening};

#[cfg(doc)]
use super::Handler;
use super::{MachineId, Piece};

/// A request in progress; the handler chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeId(pub usize);

/// What [`Handler::begin`] and [`Handler::resume`] return.
#[derive(Debug)]
pub enum Step {
    /// Head and body have been written.
    Answered,
    /// The head has been written; this is the body.
    AnsweredWith(Piece),
    /// The head has been written; call [`Handler::body`] for the pieces of the body.
    Body(ExchangeId),
    /// Open a document first.
    Open(ExchangeId, Opening),
    /// Load a small body first.
    Load(ExchangeId, FileRange),
    /// Wait until the connection is woken. Meanwhile the handler receives the request's body.
    Wait(ExchangeId),
    /// Send earlier responses first, then call [`Handler::begin`] again, because this request will wait.
    Flush,
    /// The head has been written; afterwards this machine owns the connection, which no longer speaks HTTP.
    Upgrade(MachineId),
}

/// The event for which an exchange waited.
#[derive(Debug)]
pub enum ExchangeEvent {
    /// It was woken, or everything written has been sent.
    Woken,
    /// The outcome of [`Step::Open`], [`Step::Load`] or [`BodyStep::Load`].
    Done(Done),
    Refused,
}

/// The state of a waiting exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Call [`Handler::resume`].
    Ready,
    /// Call [`Handler::interim`], send its heads, then ask for progress again.
    Interim,
    Pending {
        /// The client may be told to send the body (100 Continue).
        wants_body: bool,
    },
}

/// The next step of a response's body.
#[derive(Debug)]
pub enum BodyStep {
    /// Send the bytes written, then this piece.
    Send {
        piece: Option<Piece>,
        is_last: bool,
        /// Bytes from here to the end of the range, if it may pay to cork the socket until then.
        remaining: Option<u64>,
    },
    Load(FileRange),
    /// Send the bytes written; the connection will be woken for more.
    Wait,
    End,
    /// The rest is unavailable: the connection is closed, so that the client notices that the body is incomplete.
    Broken,
}
