//! The plan of a run as independent values, each of which can change without the others.

pub(crate) mod arrivals;
pub(crate) mod catalogue;
pub(crate) mod distribution;
pub mod duration;
pub(crate) mod file_list;
pub(crate) mod markov_chain;
pub(crate) mod mix;
pub(crate) mod replay;
pub mod scenario;
pub(crate) mod schedule;
pub(crate) mod session_file;
pub(crate) mod visitor;
pub(crate) mod workload;

use std::{net::IpAddr, sync::Arc};

use sojourn_measure::Nanos;
use sojourn_workload::trace::Request;

use crate::{
    http::{target::Target, tls::Tls},
    plan::{markov_chain::Walk, session_file::Session},
};

pub use arrivals::{ArrivalProcess, ScheduleError, Segment, parse as parse_schedule, rate as parse_rate};
pub use catalogue::{Catalogue, RequestsTooLarge};
pub use distribution::{Count, Distribution, Shape};
pub use file_list::FilelistError;
pub use markov_chain::WalkError;
pub use replay::{Failed, Host, Paths, Replayed};
#[cfg(debug_assertions)]
pub use scenario::schemas as scenario_schemas;
pub use scenario::{
    GENERATED, Scenario, ScenarioError, ScenarioInputs,
    answer::Answer,
    is_har,
    user::KeptUser,
    user::{Next, User},
};
pub use schedule::{Schedule, Step};
pub use session_file::SessionFileError;

pub struct Plan<'a> {
    pub target: Target,
    pub arrivals: Arrivals<'a>,
    pub requests: Requests,
    /// The think time between requests, if the requests have none of their own.
    pub think: Think,
    pub catalogue: Catalogue,
    pub connections: Connections,
    pub tls: Option<Tls>,
    /// Other options of connections.
    pub transport: Transport,
    pub schedule: Schedule,
    /// When to stop before the schedule ends.
    pub stop: StopRule,
    pub limits: Limits,
    /// Whether to sleep or poll between events.
    pub waiting: Waiting,
    /// The server's processes and core to observe.
    pub observe: Observe,
    /// The seed of all random draws.
    pub seed: u64,
}

/// The arrival process. Each arrival makes a visit, which the requests define.
pub enum Arrivals<'a> {
    /// A closed loop: a fixed number of clients, each making one visit after another.
    Closed { clients: u32 },
    /// An open loop: visitors arrive at a rate, whatever the server does.
    Open {
        /// The rate over time; must cover the schedule.
        segments: Vec<Segment>,
        /// The distribution of interarrival times.
        process: ArrivalProcess,
        /// The limit on visits in progress; arrivals above it are skipped and counted.
        under_way_max: u32,
    },
    /// Arrivals from a log, ordered by connection time; with `Requests::Logged` they include their sessions. The
    /// iterator must stay ahead of the clock, because the clients wait for it.
    Logged(Box<dyn Iterator<Item = LoggedVisit> + 'a>),
}

/// A session of a log, or the rest of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedVisit {
    /// When its connection is opened, in nanoseconds since the run's start.
    pub connect_ns: u64,
    /// When the session started: negative, or before `connect_ns`, if it is already in progress.
    pub start_ns: i64,
    /// The requests to send, each with its offset from the session's start.
    pub requests: Box<[Request]>,
}

pub enum Requests {
    /// One document at a time; in a closed loop visits never end, otherwise each is a single request.
    Pick(Pick),
    /// The sessions of a file in turn: bursts of documents.
    Sessions(Vec<Session<u32>>),
    /// Random walks on a Markov chain of pages.
    Walk(Walk<u32>),
    /// Iterations of a scenario by virtual users.
    Scenario(Arc<Scenario>),
    /// The sessions of logged visits: request `k` is due at `start + think_scale * offset(k)`, whatever the server
    /// does.
    Logged {
        /// A factor on think times.
        think_scale: f64,
    },
}

/// How long a client waits between requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Think {
    /// Think time: from a response, the last of a burst, to the next request.
    AfterAnswer(Distribution),
    /// Pacing: from one request to the next, or until the response if that takes longer.
    FromStart(Distribution),
    /// Until the bytes received so far would have taken this long at this rate.
    Rated { bits_per_second: f64 },
}

impl Think {
    /// The lowest rate at which a client counts as conforming: four fifths of the target rate, as in SPECweb99 (320 of
    /// 400 kbit/s).
    pub fn conforming_bits_per_second(&self) -> Option<f64> {
        match self {
            Think::Rated { bits_per_second } => Some(0.8 * bits_per_second),
            Think::AfterAnswer(_) | Think::FromStart(_) => None,
        }
    }
}

/// Options of connections, except how long they are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Transport {
    /// Pipelining: the most requests in flight per connection; 1 means none.
    pub pipeline: u32,
    /// The time within which closed-loop clients arrive; by default half of the first settle time.
    pub ramp: Option<Nanos>,
    /// The limit on how fast each connection is read.
    pub read_bytes_per_second: Option<f64>,
    /// Source addresses, used in turn as their ports fill up; if empty, the system chooses.
    pub sources: Vec<IpAddr>,
    /// True to use kernel timestamps for responses.
    pub timestamps: bool,
    /// How many clients share a connection of HTTP/2; none speaks HTTP/1.
    pub streams: Option<u32>,
}

/// The most clients that share a connection of HTTP/2.
pub const STREAMS_MAX: u32 = 1000;

/// The most requests in flight per connection.
pub const PIPELINE_MAX: u32 = 256;

impl Default for Transport {
    fn default() -> Self {
        Transport {
            pipeline: 1,
            ramp: None,
            read_bytes_per_second: None,
            sources: Vec::new(),
            timestamps: false,
            streams: None,
        }
    }
}

/// How a client chooses documents.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// Always the catalogue's first document.
    First,
    /// At random: document `i` with a probability proportional to weight `i`.
    Weighted(Vec<u64>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Connections {
    /// For as long as the server keeps it open.
    KeepAlive,
    /// For one request, which says so.
    Close,
    /// For this many requests; then the client closes it.
    Requests(Count),
}

impl From<Connections> for crate::http::Persistence {
    fn from(connections: Connections) -> Self {
        match connections {
            Connections::Close => Self::Close,
            Connections::KeepAlive | Connections::Requests(_) => Self::KeepAlive,
        }
    }
}

/// When to stop before the schedule ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopRule {
    /// Never: that no arrival is left before the end is one of the draws of a random process, as the others are.
    ScheduleEnd,
    /// When all arrivals' visits have ended, as in a log that is replayed once.
    Answered,
    /// After this many requests were answered or failed; no more are started.
    Requests(u64),
    /// After this many visits; no more are started.
    Visits(u64),
    /// After a step that exceeds the server's capacity, because higher loads show nothing new.
    Failing,
}

/// Whether to sleep or poll between events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Sleep. Waking up costs both sides: microseconds of latency here, and the server's call that wakes the generator.
    Sleep {
        /// How long open-loop arrivals and responses may be delayed, so that one loop iteration handles several. It
        /// applies only at rates at which the loop would wake up more often than that.
        timer_slack: Nanos,
    },
    /// Poll, which needs a core of its own. Polls that find nothing do not count as CPU time.
    Spin,
}

/// The default limit of the generator's lateness; a later generator distorts latencies.
const SEND_LAG_P99_MAX: Nanos = Nanos(10_000_000);

/// Timeouts, and the limit of lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For establishing a connection, and again for the TLS handshake.
    pub connect_timeout: Nanos,
    /// From the request to the last byte of its response.
    pub response_timeout: Nanos,
    /// How long to wait for unanswered requests after the last step.
    pub drain: Nanos,
    /// If the generator sends 1 % of its requests later than this, it is the limit.
    pub send_lag_p99: Nanos,
    /// The target for the 95th percentile of the time to first byte from the intended start.
    pub target_p95: Option<Nanos>,
}

impl Default for Limits {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000;
        Limits {
            connect_timeout: Nanos(10 * SECOND),
            response_timeout: Nanos(10 * SECOND),
            drain: Nanos(2 * SECOND),
            send_lag_p99: SEND_LAG_P99_MAX,
            target_p95: None,
        }
    }
}

/// What to observe of the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observe {
    /// The server's processes; their descendants are included.
    pub pids: Vec<u32>,
    /// The core that the server runs on.
    pub core: Option<usize>,
    /// The core to which the generator is pinned.
    pub own_core: Option<usize>,
    pub timeline: bool,
    /// The length of intervals whose latencies are kept separately, if any.
    pub interval: Option<Nanos>,
    /// Keep each named request.
    pub requests: bool,
}
