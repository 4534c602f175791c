//! The interface to architectures: wants, events, and what a connection waits for.

use std::num::NonZeroU8;

use sojourn_content::{Done, FileRange, Job, Opening};

use super::{Buffer, Output};
use crate::counters::Counter;

/// What a connection needs done next, by the architecture.
#[derive(Debug)]
pub enum Want {
    /// Receive into this buffer; if it owns no memory, take some from the pool.
    Receive(Buffer),
    Open(Opening),
    Load(FileRange),
    Send(Output),
    /// Receive into this buffer what is available, without waiting: [`Event::Received`] or [`Event::NothingReceived`].
    Look(Buffer),
    /// A job that may block on disk while the connection continues: give it to a thread or process that may wait.
    Delegate(Lane, Job),
    /// Stop waiting for the client: [`Event::NothingReceived`] follows, or data that has just arrived. A send is given back
    /// by [`Event::Sent`].
    CancelReceive,
    /// Nothing beyond operations in progress; another connection or thread will [wake](Event::Woken) this one.
    Wait,
    /// Close the socket and drop the connection.
    Close(Reason),
}

/// A completed want, or an external event.
#[derive(Debug)]
pub enum Event {
    /// The buffer has at least one more byte.
    Received(Buffer),
    /// The client has shut down its sending side.
    Ended,
    /// The outcome of [`Want::Open`] or [`Want::Load`].
    Done(Done),
    /// The queue of disk jobs is full.
    Refused,
    /// [`Want::Delegate`] was accepted; its outcome will be delivered. The connection returns its next want.
    Delegated,
    /// The result of [`Want::Delegate`] in this lane; `None` if the queue was full. It may come at any time; a
    /// connection that wants to continue receiving or sending returns [`Want::Wait`].
    Delivered(Lane, Option<Done>),
    /// All of it, unless it [yields](Output::yields) or was [cancelled](Want::CancelReceive).
    Sent(Output),
    /// Another connection or thread has something for this one. It may come at any time, even without reason; a
    /// connection that wants to continue receiving or sending returns [`Want::Wait`].
    Woken,
    /// There was nothing to receive for [`Want::Look`], or until [`Want::CancelReceive`]. Also: the server is stopping, and a
    /// receiving connection [with streams](super::Connection::has_streams) must know.
    NothingReceived,
    /// The deadline of what the connection [waits for](super::Connection::waits_for) has passed.
    Expired,
    /// The socket failed, or the file was truncated.
    Failed,
}

/// Distinguishes a connection's delegated jobs. Never zero, so that zero can mean none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(NonZeroU8);

impl Lane {
    /// The number of lanes, which fit into four bits.
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
    /// A deadline passed.
    TimedOut,
    /// The socket or the file failed.
    Failed,
}

impl Reason {
    /// The counter of connections closed for this reason, if there is one.
    pub fn counter(self) -> Option<Counter> {
        match self {
            Reason::Finished => None,
            Reason::TimedOut => Some(Counter::Timeouts),
            Reason::Failed => Some(Counter::ConnectionErrors),
        }
    }
}

/// What a connection waits for; selects the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Request,
    /// The rest of the request with this number, its body included.
    Head(u32),
    /// The next request, while other frames may arrive; only a request after this number counts as progress.
    Quiet(u32),
    Disk,
    /// The client to read what is being sent.
    Client,
    /// The client to open its flow-control window.
    Window,
    /// The client to close after the last response.
    End,
    /// More of a request body that is being forwarded.
    Upload,
    /// An upstream's response; the upstream connection has the deadline.
    Answer,
    /// Connecting to an upstream and sending the first part of a request.
    UpstreamConnect,
    /// An upstream to accept the rest of a request.
    UpstreamSend,
    /// The head of an upstream's response.
    UpstreamHead,
    /// More of the body of an upstream's response.
    UpstreamBody,
    /// The next request for an idle upstream connection.
    UpstreamIdle,
    /// The result of a DNS lookup.
    Lookup,
    /// More bytes through a tunnel in either direction.
    Tunnel,
}

impl Wait {
    /// Returns true if no request is in progress, so that the connection closes while draining.
    pub fn is_idle(self) -> bool {
        matches!(self, Wait::Request | Wait::UpstreamIdle)
    }

    /// Returns true if it is the client who has to do something before a request in progress can go on.
    pub fn is_for_client(self) -> bool {
        matches!(
            self,
            Wait::Head(_) | Wait::Quiet(_) | Wait::Upload | Wait::Client | Wait::Window | Wait::End
        )
    }

    /// Returns true if the deadline is extended when the client has read enough data.
    pub fn is_for_sending(self) -> bool {
        matches!(self, Wait::Client | Wait::Window)
    }

    /// Returns true if the deadline of a wait for `before` continues: a byte sent now and then does not start a new
    /// one.
    pub fn continues(self, before: Wait) -> bool {
        self.is_timed_as_a_whole() && (self == before || self.is_for_sending() && before.is_for_sending())
    }

    /// Returns true if a part of an upstream's response has arrived, and this, after `before`, is the wait for more.
    pub fn is_for_rest_of_response(self, before: Wait) -> bool {
        self == Wait::UpstreamBody || self == Wait::UpstreamHead && before == self
    }

    /// Returns true if the deadline is fixed from the start, so that trickling bytes do not extend it.
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

    /// The limit that counts a passed deadline.
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
            // Closing an idle connection is not counted as a limit.
            Wait::Disk | Wait::Answer | Wait::UpstreamIdle => None,
            // The other direction may be active.
            Wait::Tunnel => None,
        }
    }
}
