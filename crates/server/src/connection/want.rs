//! The seam to the architectures: wants, events, and what a connection waits for.

use std::num::NonZeroU8;

use sojourn_content::{Done, FileRange, Job, Opening};

use super::{Buffer, Output};
use crate::counters::Counter;

/// The next step of a connection. Doing it is the architecture's job.
#[derive(Debug)]
pub enum Want {
    /// Receive into this buffer; if it owns no memory, into one from the pool.
    Receive(Buffer),
    Open(Opening),
    Load(FileRange),
    Send(Output),
    /// Receive available bytes into this buffer, without waiting: [`Event::Received`] or [`Event::Nothing`].
    Look(Buffer),
    /// May block on disk while the connection goes on: give it to a thread or process that may wait.
    Delegate(Lane, Job),
    /// Wait for the client no longer: [`Event::Nothing`] follows, or what it has sent after all.
    Recall,
    /// Nothing beyond the operations in progress, if any; otherwise another connection or thread will
    /// [wake](Event::Woken) this one.
    Wait,
    /// Close the socket and forget the connection.
    Close(Reason),
}

/// A completed step, or an external event.
#[derive(Debug)]
pub enum Event {
    /// At least one more byte is in the buffer.
    Received(Buffer),
    /// The client will send no more.
    Ended,
    /// The result of [`Want::Open`] or [`Want::Load`].
    Done(Done),
    /// The queue of disk jobs is full.
    Refused,
    /// [`Want::Delegate`] is accepted and its result will be delivered. The connection returns its next want.
    Delegated,
    /// The result of [`Want::Delegate`] in this lane; `None` if the queue was full. It may come at any time: a
    /// connection that is receiving or sending, and wants to continue that, answers [`Want::Wait`].
    Delivered(Lane, Option<Done>),
    Sent(Output),
    /// Another connection of the same loop has something for this one. It may come at any time, and without
    /// cause: a connection that is receiving or sending and wants to go on with that returns [`Want::Wait`].
    Woken,
    /// The client has sent nothing that [`Want::Look`] could find, or until [`Want::Recall`]; or the server is stopping,
    /// and a connection [with streams](super::Connection::has_streams) that receives is to know.
    Nothing,
    /// The client took too long for what the connection [waits for](super::Connection::waits_for).
    Expired,
    /// The socket failed, or the file ended before its time.
    Failed,
}

/// Tells apart the jobs that a connection has delegated. Never zero, so that zero can say that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(NonZeroU8);

impl Lane {
    /// The number of lanes: four bits.
    pub const COUNT: usize = 15;

    pub fn new(index: usize) -> Lane {
        assert!(index < Lane::COUNT, "no such lane");
        Lane(NonZeroU8::MIN.saturating_add(index as u8))
    }

    pub fn index(self) -> usize {
        usize::from(self.0.get() - 1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Finished,
    /// The client took too long.
    TimedOut,
    /// The socket or the file failed.
    Failed,
}

impl Reason {
    /// The counter of connections that end this way, if there is one.
    pub fn counter(self) -> Option<Counter> {
        match self {
            Reason::Finished => None,
            Reason::TimedOut => Some(Counter::Timeouts),
            Reason::Failed => Some(Counter::ConnectionErrors),
        }
    }
}

/// The thing that a connection waits for; it selects the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Request,
    /// The rest of the n-th request, its body included.
    Head(u32),
    /// The next request, where much else may come in between: whatever came since the n-th does not count.
    Quiet(u32),
    Disk,
    /// The client's taking what we send.
    Client,
    /// The client's allowing us to send more.
    Window,
    /// The client's closing after the last response.
    End,
    /// More of the body of a request that is passed on.
    Upload,
    /// An upstream's answer; the upstream connection has the timeout.
    Answer,
    /// An upstream's accepting the connection and taking the first of the request.
    UpstreamConnect,
    /// An upstream's taking the rest of a request.
    UpstreamSend,
    /// An upstream's beginning to answer.
    UpstreamHead,
    /// More of an upstream's answer.
    UpstreamBody,
    /// The next request for an upstream.
    UpstreamIdle,
    /// The system's saying where a name leads.
    Lookup,
    /// More to pass a tunnel, or the other side's taking it.
    Tunnel,
}

impl Wait {
    /// Returns true if no request is in progress: the connection closes when the server drains.
    pub fn is_idle(self) -> bool {
        matches!(self, Wait::Request | Wait::UpstreamIdle)
    }

    /// Returns true if the deadline moves when the client has taken enough data.
    pub fn is_for_sending(self) -> bool {
        matches!(self, Wait::Client | Wait::Window)
    }

    /// Returns true if the deadline of a wait that was for `before` goes on: a byte that is let through now and then, and
    /// sent, begins no new one.
    pub fn goes_on_after(self, before: Wait) -> bool {
        self.is_timed_as_a_whole() && (self == before || self.is_for_sending() && before.is_for_sending())
    }

    /// Returns true if the deadline is fixed at the start: trickling bytes do not move it.
    pub fn is_timed_as_a_whole(self) -> bool {
        match self {
            Wait::Head(_) | Wait::Quiet(_) | Wait::Client | Wait::Window | Wait::End | Wait::UpstreamHead => {
                true
            }
            Wait::Request | Wait::Disk | Wait::Upload | Wait::Answer => false,
            Wait::UpstreamConnect | Wait::UpstreamSend | Wait::UpstreamBody | Wait::UpstreamIdle => false,
            Wait::Lookup | Wait::Tunnel => false,
        }
    }

    /// The limit that is counted when the deadline passes.
    pub fn limit(self) -> Option<Counter> {
        match self {
            Wait::Request | Wait::Quiet(_) => Some(Counter::LimitIdle),
            Wait::Head(_) | Wait::Upload => Some(Counter::LimitHead),
            Wait::Client | Wait::Window => Some(Counter::LimitSend),
            Wait::End => Some(Counter::LimitEnd),
            Wait::UpstreamConnect => Some(Counter::LimitUpstreamConnect),
            Wait::UpstreamSend => Some(Counter::LimitUpstreamSend),
            Wait::UpstreamHead => Some(Counter::LimitUpstreamHead),
            Wait::UpstreamBody => Some(Counter::LimitUpstreamBody),
            Wait::Lookup => Some(Counter::LimitLookup),
            // An idle connection that is closed is no limit reached by anybody.
            Wait::Disk | Wait::Answer | Wait::UpstreamIdle => None,
            // The other way may not be idle.
            Wait::Tunnel => None,
        }
    }
}
