//! The seam to the architectures: what a connection wants, what it is told, what it waits for.

use sojourn_content::{Done, FileRange, Opening};

use super::{Buffer, Output};
use crate::counters::Counter;

/// What a connection needs done next. Doing it is the architecture's job.
#[derive(Debug)]
pub enum Want {
    /// Receive into this buffer; if it owns no memory, into one from the pool.
    Receive(Buffer),
    /// May block on disk.
    Open(Opening),
    /// May block on disk.
    Load(FileRange),
    /// Send all of it.
    Send(Output),
    /// Close the socket and forget the connection.
    Close(Reason),
}

/// What was done, or happened.
#[derive(Debug)]
pub enum Event {
    /// At least one more byte is in the buffer.
    Received(Buffer),
    /// The client will send no more.
    Ended,
    /// What [`Want::Open`] or [`Want::Load`] asked for.
    Done(Done),
    /// Nobody can do that now: too much to do already.
    Refused,
    /// All of it was sent.
    Sent(Output),
    /// The client took too long for what the connection [waits for](super::Connection::waits_for).
    Expired,
    /// The socket failed, or the file ended before its time.
    Failed,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// As HTTP has it.
    Finished,
    /// The client took too long.
    TimedOut,
    /// The socket or the file failed.
    Failed,
}

/// What a waiting connection waits for, so that somebody can lose patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The next request.
    Request,
    /// The rest of the n-th request, its body included.
    Head(u32),
    /// The disk.
    Disk,
    /// The client's taking what we send.
    Client,
    /// The client's closing after the last response.
    End,
}

impl Wait {
    /// Whether patience with it begins once: trickling bytes do not move its end.
    pub fn is_timed_as_a_whole(self) -> bool {
        matches!(self, Wait::Head(_) | Wait::Client | Wait::End)
    }

    /// The limit that has been reached when patience with it ends.
    pub fn limit(self) -> Option<Counter> {
        match self {
            Wait::Request => Some(Counter::LimitIdle),
            Wait::Head(_) => Some(Counter::LimitHead),
            Wait::Client => Some(Counter::LimitSend),
            Wait::End => Some(Counter::LimitEnd),
            Wait::Disk => None,
        }
    }
}
