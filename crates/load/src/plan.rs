//! What a run is to do, as independent values: each can be changed without the others knowing.

use sojourn_measure::Nanos;
use sojourn_workload::{arrivals::Arrival, trace::Trace};

use crate::{Catalogue, Schedule, Target};

/// A whole run.
pub struct Plan<'a> {
    /// The server.
    pub target: Target,
    /// Who comes, and when.
    pub arrivals: Arrivals<'a>,
    /// What can be asked for.
    pub catalogue: Catalogue,
    /// How long a connection is used.
    pub connections: Connections,
    /// When what is measured.
    pub schedule: Schedule,
    /// When to stop before the schedule ends.
    pub stop: StopRule,
    /// Time-outs.
    pub limits: Limits,
    /// What the generator does while there is nothing to do.
    pub waiting: Waiting,
    /// What to watch beside the clients.
    pub observe: Observe,
    /// Says everything that is random.
    pub seed: u64,
}

/// Who comes, and when.
pub enum Arrivals<'a> {
    /// A fixed number of clients, each asking again a think time after its last answer.
    Closed {
        /// How many.
        clients: u32,
        /// How long each thinks.
        think: Think,
        /// What each asks for.
        pick: Pick,
    },
    /// Sessions of a trace; request `k` is due at `start + think_scale * offset(k)`, whatever the server does.
    Sessions {
        /// What sessions ask for.
        trace: &'a Trace,
        /// When they come, in order of their connection time.
        arrivals: Box<dyn Iterator<Item = Arrival> + 'a>,
        /// What think times are multiplied by.
        think_scale: f64,
    },
}

/// A law of think times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Think {
    /// The mean.
    pub mean: Nanos,
    /// How they spread around it.
    pub law: ThinkLaw,
}

/// How think times spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkLaw {
    /// All the same.
    Constant,
    /// Without memory: clients do not fall into step.
    Exponential,
}

/// How a client of a closed loop picks what it asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// Always the catalogue's first document.
    First,
    /// At random, document `i` with a probability in proportion to weight `i`.
    Weighted(Vec<u64>),
}

/// How long a connection is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// As long as the server keeps it open.
    KeepAlive,
    /// For one request, and the request says so.
    Close,
    /// For this many requests.
    Requests(u32),
}

/// When to stop before the schedule ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopRule {
    /// Never.
    ScheduleEnd,
    /// At the end of a step that the server failed: beyond it there is nothing to learn.
    Failing {
        /// The 95th percentile of the time to first byte, from the intended start, that must be met.
        target_p95: Nanos,
    },
}

/// What the generator does while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It sleeps. Waking up costs both sides: microseconds of latency here, and there the call that wakes us.
    Sleep,
    /// It polls, which only a core of its own allows. Polls that find nothing do not count as its CPU time.
    Spin,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first packet to an established connection.
    pub connect_timeout: Nanos,
    /// From the request to the last byte of its answer.
    pub response_timeout: Nanos,
    /// For what is still unanswered when the last step ends.
    pub drain: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000;
        Limits {
            connect_timeout: Nanos(10 * SECOND),
            response_timeout: Nanos(10 * SECOND),
            drain: Nanos(2 * SECOND),
        }
    }
}

/// What to watch beside the clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observe {
    /// Processes of the server; their descendants are watched with them.
    pub pids: Vec<u32>,
    /// The core that the server runs on.
    pub core: Option<usize>,
    /// The core that the generator is pinned to, to see what the hypervisor takes from it.
    pub own_core: Option<usize>,
    /// Whether to keep a timeline.
    pub timeline: bool,
    /// How long the intervals are whose latencies are kept apart, if they are to be.
    pub interval: Option<Nanos>,
}
