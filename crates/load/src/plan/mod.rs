//! The plan of a run, as independent values: each can change without the others.

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
pub(crate) mod workload;

use std::{net::IpAddr, sync::Arc};

use sojourn_measure::Nanos;
use sojourn_workload::trace::Request;

use crate::{
    http::{target::Target, tls::Tls},
    plan::{markov_chain::Walk, session_file::Session},
};

pub use arrivals::{ArrivalProcess, ScheduleError, Segment, parse as parse_schedule, rate as parse_rate};
pub use catalogue::Catalogue;
pub use distribution::{Count, Distribution, Shape};
pub use file_list::FilelistError;
pub use markov_chain::WalkError;
pub use replay::{Failed, Host, Paths, Replayed};
pub use scenario::{
    GENERATED, Scenario, ScenarioError, Surroundings,
    answer::Answer,
    is_har,
    kept::KeptUser,
    schemas as scenario_schemas,
    user::{Next, User},
};
pub use schedule::{Schedule, Step};
pub use session_file::SessionFileError;

pub struct Plan<'a> {
    pub target: Target,
    pub arrivals: Arrivals<'a>,
    pub requests: Requests,
    /// How long clients wait between their requests, where these do not say.
    pub think: Think,
    pub catalogue: Catalogue,
    pub connections: Connections,
    pub tls: Option<Tls>,
    /// The other options of connections.
    pub transport: Transport,
    pub schedule: Schedule,
    /// When to stop before the schedule ends.
    pub stop: StopRule,
    pub limits: Limits,
    /// Sleep or poll between events.
    pub waiting: Waiting,
    /// The server's processes and core to observe.
    pub observe: Observe,
    /// Says everything that is random.
    pub seed: u64,
}

/// The arrival process. Each arrival makes a visit, which the requests define.
pub enum Arrivals<'a> {
    /// A closed loop: a fixed number of clients, each making one visit after another.
    Closed { clients: u32 },
    /// An open loop: visitors arrive at a rate, whatever the server does.
    Open {
        /// The rate over time; it should cover the schedule.
        segments: Vec<Segment>,
        /// How arrivals spread around it.
        process: ArrivalProcess,
        /// The limit on visits in progress; arrivals above it are skipped and counted.
        under_way_max: u32,
    },
    /// Arrivals from a log, in order of their connection time; with `Requests::Logged` they bring their sessions. The
    /// iterator must be ahead of the clock: the clients wait for it.
    Logged(Box<dyn Iterator<Item = LoggedVisit> + 'a>),
}

/// A session of a log, or the rest of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedVisit {
    /// When its connection is opened, in nanoseconds since the run's start.
    pub connect_ns: u64,
    /// When the session began: negative, or before `connect_ns`, for one that is already in progress.
    pub start_ns: i64,
    /// The requests that are to be sent, each with its offset from the session's start.
    pub requests: Box<[Request]>,
}

pub enum Requests {
    /// A document at a time; in a closed loop visits never end, else each is a single request.
    Pick(Pick),
    /// The sessions of a file, in turn: bursts of documents.
    Sessions(Vec<Session<u32>>),
    /// A random walk over pages.
    Walk(Walk<u32>),
    /// The iterations of a scenario, each by a user.
    Scenario(Arc<Scenario>),
    /// The sessions that logged visits have: request `k` is due at `start + think_scale * offset(k)`, whatever the
    /// server does.
    Logged {
        /// A factor on think times.
        think_scale: f64,
    },
}

/// How long a client waits between its requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Think {
    /// From an answer, the last of a burst, to the next request: thinking.
    AfterAnswer(Distribution),
    /// From a request to the next, or as long as the answer takes if that is longer: pacing.
    FromStart(Distribution),
    /// Until what was received so far would have taken this long at this rate.
    Rated { bits_per_second: f64 },
}

impl Think {
    /// The least rate at which a client that is to be served at one is served well: four fifths of it, as in
    /// SPECweb99 (320 of 400 kbit/s).
    pub fn conforming_bits_per_second(&self) -> Option<f64> {
        match self {
            Think::Rated { bits_per_second } => Some(0.8 * bits_per_second),
            Think::AfterAnswer(_) | Think::FromStart(_) => None,
        }
    }
}

/// Options of connections, beyond how long they are used.
#[derive(Clone, Debug, PartialEq)]
pub struct Transport {
    /// The most requests of a burst that are under way on a connection; one means no pipelining.
    pub pipeline: u32,
    /// Within what time the clients of a closed loop arrive; by default half of the first settle part.
    pub ramp: Option<Nanos>,
    /// How fast each connection is read, if not as fast as possible.
    pub read_bytes_per_second: Option<f64>,
    /// Addresses to connect from, in turn as their ports fill up; none leaves it to the system.
    pub sources: Vec<IpAddr>,
    /// True if the kernel is to timestamp responses.
    pub timestamps: bool,
}

/// The most requests under way on one connection.
pub const PIPELINE_MAX: u32 = 256;

impl Default for Transport {
    fn default() -> Self {
        Transport {
            pipeline: 1,
            ramp: None,
            read_bytes_per_second: None,
            sources: Vec::new(),
            timestamps: false,
        }
    }
}

/// How a client picks documents.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// Always the catalogue's first document.
    First,
    /// At random, document `i` with a probability in proportion to weight `i`.
    Weighted(Vec<u64>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Connections {
    /// As long as the server keeps it open.
    KeepAlive,
    /// For one request, and the request says so.
    Close,
    /// For so many requests; then the client closes it.
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
    ScheduleEnd,
    /// When this many requests are answered or failed; no more are begun.
    Requests(u64),
    /// When this many visits are over; no more are begun.
    Visits(u64),
    /// At the end of a step beyond what the server takes: there is nothing to learn above it.
    Failing,
}

/// Sleep or poll between events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It sleeps. Waking up costs both sides: microseconds of latency here, and there the call that wakes us.
    Sleep {
        /// By how much arrivals of an open loop, and responses, may be delayed so that one turn of the event loop
        /// handles them together; only at rates at which it would wake up more often than once in this time.
        timer_slack: Nanos,
    },
    /// It polls, which needs a core of its own. Polls that find nothing do not count as its CPU time.
    Spin,
}

/// A generator later than this distorts latencies, where the plan does not say otherwise.
const SEND_LAG_P99_MAX: Nanos = Nanos(10_000_000);

/// How long to wait for what, and how late to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first packet to an established connection, and from there to a secured one.
    pub connect_timeout: Nanos,
    /// From the request to the last byte of its answer.
    pub response_timeout: Nanos,
    /// The time to wait for unanswered requests after the last step.
    pub drain: Nanos,
    /// A generator that sends 1 % of its requests later than this is the limit.
    pub send_lag_p99: Nanos,
    /// The p95 of the time to first byte, from the intended start, that the server has to meet.
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

/// The server's processes and core to observe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observe {
    /// Processes of the server; their descendants are watched with them.
    pub pids: Vec<u32>,
    /// The core that the server runs on.
    pub core: Option<usize>,
    /// The core that the generator is pinned to, to see what the hypervisor takes from it.
    pub own_core: Option<usize>,
    pub timeline: bool,
    /// How long the intervals are whose latencies are kept apart, if they are to be.
    pub interval: Option<Nanos>,
}
