//! How a stream ended, and the verdict on it; `conformance` has the rule.

use crate::http::cause::Cause;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Playing when the run ended.
    Played,
    FilmOver,
    Refused(u16),
    Failed(Failure),
    Vanished,
    /// It had not started to play when the run ended, and no timeout had passed.
    Unfinished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    ConnectRefused,
    ConnectTimeout,
    ConnectFailed,
    Descriptors,
    Addresses,
    Reset,
    Closed,
    ReplyTimeout,
    BadReply,
    NoPacket,
    Silence,
}

impl Failure {
    /// The failure of a connection.
    pub fn of(cause: Cause) -> Failure {
        match cause {
            Cause::ConnectRefused => Failure::ConnectRefused,
            Cause::ConnectTimeout => Failure::ConnectTimeout,
            Cause::Descriptors => Failure::Descriptors,
            Cause::Addresses => Failure::Addresses,
            Cause::Reset => Failure::Reset,
            _ => Failure::ConnectFailed,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Failure::ConnectRefused => "connect_refused",
            Failure::ConnectTimeout => "connect_timeout",
            Failure::ConnectFailed => "connect_failed",
            Failure::Descriptors => "descriptors",
            Failure::Addresses => "addresses",
            Failure::Reset => "reset",
            Failure::Closed => "closed",
            Failure::ReplyTimeout => "reply_timeout",
            Failure::BadReply => "bad_reply",
            Failure::NoPacket => "no_packet",
            Failure::Silence => "silence",
        }
    }

    /// Returns true if a timeout ended it.
    pub fn is_timeout(self) -> bool {
        matches!(self, Failure::ConnectTimeout | Failure::ReplyTimeout | Failure::NoPacket | Failure::Silence)
    }

    /// Returns true if the generator itself caused it.
    pub fn is_own(self) -> bool {
        matches!(self, Failure::Descriptors | Failure::Addresses)
    }
}

/// The first rule that a stream broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Refused,
    Failed,
    Starved,
    LateOrLost,
    Pace,
}

impl Fault {
    pub fn name(self) -> &'static str {
        match self {
            Fault::Refused => "refused",
            Fault::Failed => "failed",
            Fault::Starved => "starved",
            Fault::LateOrLost => "late_or_lost",
            Fault::Pace => "pace",
        }
    }
}
