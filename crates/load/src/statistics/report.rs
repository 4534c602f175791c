//! The result as data: what is printed as JSON. Keys are stable; units stand last in each.
//!
//! Four moments of a request matter: the *intended start* (when it was due, or when the answer that it had
//! to wait for was complete), when the generator *acted* (sent it or began to connect for it), when it was
//! *sent*, and when the first and the last byte of its answer came. Every latency says which two it spans.
//! Latencies are those of good answers; failures have histograms of their own. All are HDR histograms of
//! three significant digits; those of several steps are added up, never averaged.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use sojourn_measure::{Reading, Summary};

use crate::{
    plan::mix::MixCheck,
    statistics::checks::{Little, LittleInFlight, SteadyEvidence, StepLimit},
};

#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    /// True if it went to its end, or to the step that it was to stop at.
    pub complete: bool,
    /// True if a signal ended it.
    pub interrupted: bool,
    /// Why it stopped before the schedule's end.
    pub stopped_because: Option<String>,
    /// When it began, in seconds since 1970 by the generator's clock.
    pub started_unix_seconds: f64,
    /// Doubts that do not void the figures, as sentences.
    pub warnings: Vec<String>,
    /// The users of a scenario.
    pub users: Option<UsersReport>,
    /// A test of the drawn requests against their weights, including settle times.
    pub mix: Option<MixCheck>,
    /// All steps together, settle parts left out.
    #[serde(flatten)]
    pub figures: Figures,
    /// The generator in all steps.
    pub generator: Generator,
    /// The steps that were measured.
    pub steps: Vec<StepReport>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct StepReport {
    /// When its measured part began, since the run's start.
    pub start_seconds: f64,
    pub offered_requests_per_second: Option<f64>,
    /// True if the rate moved while it was measured: its figures are means over loads, not those of one.
    pub ramp: bool,
    /// What puts it beyond what the server takes; none if the server kept up within the target.
    pub limit: Option<StepLimit>,
    /// True if the server's core had nothing left to give, and its processes used it.
    pub server_saturated: bool,
    /// Clients of a closed loop.
    pub clients: Option<u32>,
    /// Visits that began in it: clients, sessions, single requests of an open loop.
    pub sessions_started: u64,
    /// Visits that ended in it with every request answered.
    pub sessions_completed: u64,
    /// Visits that ended in it because a request failed.
    pub sessions_failed: u64,
    /// Clients that are to be served at a rate.
    pub rated: Option<Rated>,
    pub connections_opened: u64,
    /// Connections opened because the server had closed one between requests.
    pub reconnects: u64,
    pub connections_open_mean: Option<f64>,
    /// Requests under way on average.
    pub in_flight_mean: Option<f64>,
    pub steady: bool,
    /// By what that is judged.
    pub steady_evidence: Option<SteadyEvidence>,
    /// Little's law, in a closed loop.
    pub little: Option<Little>,
    /// Little's law for requests in progress, with any arrivals.
    pub little_in_flight: Option<LittleInFlight>,
    #[serde(flatten)]
    pub figures: Figures,
    /// The mean body of a good answer.
    pub response_bytes_mean: Option<f64>,
    pub generator: Generator,
    pub server: Option<ServerUse>,
    /// TCP trouble in the whole network namespace.
    pub tcp: TcpTrouble,
    /// The same step over the windows in which nobody else took the server's or the generator's core.
    pub undisturbed: Reading<Undisturbed>,
}

/// A step's figures over its undisturbed windows. Windows last about 100 ms; one is undisturbed if neither core lost more
/// than it usually does and the limit, in it or in the 100 ms before. Requests belong to the window of their answer, whichever step they were
/// due in.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Undisturbed {
    /// The windows that the figures are over; none where all were disturbed.
    pub windows: u64,
    /// All windows of the step.
    pub windows_total: u64,
    /// Those of which it is known what both cores lost.
    pub windows_judged: u64,
    pub seconds: f64,
    /// Good answers in them.
    pub requests: u64,
    pub requests_per_second: Option<f64>,
    /// Requests that began in them: the load that the server had meanwhile.
    pub requests_begun_per_second: Option<f64>,
    /// From the intended start to the last byte.
    pub response_time_seconds: Summary,
    /// Half the width of the mean's 95 % confidence interval, by batch means over windows.
    pub response_time_mean_half_width_seconds: Option<f64>,
    /// From the intended start to the first byte.
    pub time_to_first_byte_intended_seconds: Summary,
    /// CPU time of the observed processes per good answer.
    pub server_cpu_seconds_per_request: Option<f64>,
    /// The most that a core may lose in an undisturbed window beyond what is usual, or the source's resolution where that
    /// is more.
    pub lost_max_seconds: f64,
    /// What the server's core lost to others, over all windows.
    pub server_core: Reading<CoreLoss>,
    /// What the generator's core lost to others, over all windows.
    pub generator_core: Reading<CoreLoss>,
}

/// What others took of a core while it was wanted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CoreLoss {
    pub lost_fraction: f64,
    pub lost_in_a_window_max_seconds: f64,
    /// What it lost in the quietest quarter of the windows at most, 5 ms at the most: kernel threads that work for the
    /// load, and waking up.
    pub usual_in_a_window_seconds: f64,
    /// Where it is known from.
    pub source: String,
    /// It is known to this.
    pub resolution_seconds: f64,
}

/// The users of a scenario.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsersReport {
    /// How many there were.
    pub users: u64,
    /// The rows of their file, if there is one: further users share them.
    pub rows: Option<u64>,
    /// True if every iteration was a new user.
    pub new: bool,
}

/// The clients' view of one step or of the whole run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// Requests due in the span and answered as they should be.
    pub requests: u64,
    /// Requests due in the span that failed.
    pub errors: u64,
    /// The same by cause; causes that did not occur are left out.
    pub errors_by_cause: BTreeMap<&'static str, u64>,
    /// How long requests took to fail, by cause: from the intended start until the failure showed.
    pub error_time_seconds: BTreeMap<&'static str, Summary>,
    /// Requests whose latency is known only to be longer than they were waited for; not in any latency.
    pub censored: Censored,
    /// Arrivals due in the span that were not begun because as many as allowed were under way.
    pub skipped: u64,
    /// Requests due in the span and unanswered at the end, or not even begun by a late generator: the longest latencies
    /// are among them.
    pub unfinished: u64,
    /// Requests due in the span and never sent because their session or iteration had failed.
    pub abandoned: u64,
    /// The same over all requests due in the span.
    pub abandoned_fraction: Option<f64>,
    /// Redirections that were followed: answers beside those of the requests, whose times include them.
    pub redirects: u64,
    pub duration_seconds: f64,
    /// Good answers completed in the span, whenever due, per second.
    pub requests_per_second: Option<f64>,
    /// Heads and bodies received in the span per second.
    pub bytes_per_second: Option<f64>,
    /// From the intended start to the last byte, connecting included where it was needed.
    pub response_time_seconds: Summary,
    /// From when the generator acted to the last byte: what a tool reports that does not know when a
    /// request was due. The difference to the line above is what it would have hidden.
    pub response_time_sent_seconds: Summary,
    /// From the actual send to the first byte.
    pub time_to_first_byte_seconds: Summary,
    /// From the intended start to the first byte: the generator's lateness is included.
    pub time_to_first_byte_intended_seconds: Summary,
    /// From the first byte to the last.
    pub transfer_time_seconds: Summary,
    /// From the first packet to an established connection.
    pub connect_time_seconds: Summary,
    /// From an established connection to a secured one, where TLS is spoken.
    pub handshake_time_seconds: Summary,
    /// Handshakes that resumed the session of an earlier connection.
    pub handshakes_resumed: u64,
    /// From the intended start until the generator sent, or began to connect.
    pub send_lag_seconds: Summary,
    /// From when the kernel had the first bytes of an answer until the generator looked: a part of every
    /// other latency that is not the server's. Known only with kernel timestamps.
    pub receive_lag_seconds: Reading<Summary>,
    /// Complete responses by status code, good or not.
    pub by_status: BTreeMap<u16, StatusFigures>,
    /// Good answers by the size of their body.
    pub by_size: Vec<SizeFigures>,
    /// By the names of requests, where they have names; in the order of the scenario.
    pub by_name: Vec<NamedFigures>,
}

/// The requests of one name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamedFigures {
    pub name: String,
    /// Requests due in the span and answered as they should be.
    pub requests: u64,
    /// These per second of the span.
    pub requests_per_second: Option<f64>,
    /// Requests due in the span that failed.
    pub errors: u64,
    /// The same by cause; causes that did not occur are left out.
    pub errors_by_cause: BTreeMap<&'static str, u64>,
    /// Redirections that were followed.
    pub redirects: u64,
    /// Requests due in the span and unanswered at the end.
    pub unfinished: u64,
    /// Requests due in the span and never sent because one before them failed.
    pub abandoned: u64,
    /// The mean body of a good answer.
    pub response_bytes_mean: Option<f64>,
    /// From the intended start to the last byte, redirections included.
    pub response_time_seconds: Summary,
    /// From the intended start to the first byte, redirections included.
    pub time_to_first_byte_intended_seconds: Summary,
}

/// Clients that are to be served at a rate.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Rated {
    /// The rate; the next request waits until the answers so far would have taken this long.
    pub bits_per_second: f64,
    /// A client that received less on average over the step does not conform.
    pub conforming_bits_per_second: f64,
    /// Clients at the step's end.
    pub clients: usize,
    pub conforming: usize,
}

/// Requests without an answer within the run's timeouts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Censored {
    /// Ended by a time-out, in whatever phase; they are among the errors too.
    pub timeouts: u64,
    /// Unanswered when the run ended.
    pub unfinished: u64,
    /// Both over all requests due in the span: percentiles above one minus this are not known.
    pub fraction: Option<f64>,
}

/// Complete responses of one status.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StatusFigures {
    pub responses: u64,
    /// From the intended start to the last byte.
    pub response_time_seconds: Summary,
}

/// Good answers whose bodies have about this size.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SizeFigures {
    /// The smallest body of the class.
    pub bytes_from: u64,
    /// All bodies are smaller than this; `null` for the last class.
    pub bytes_below: Option<u64>,
    pub requests: u64,
    /// From the intended start to the last byte.
    pub response_time_seconds: Summary,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Generator {
    /// CPU time over wall time.
    pub cpu_fraction: Option<f64>,
    /// CPU time per good answer.
    pub cpu_seconds_per_request: Option<f64>,
    /// The share of the time that it was ready to run and others held its core.
    pub core_wait_fraction: Reading<f64>,
    /// The share of its core, or of all cores if it is not pinned, that the hypervisor took.
    pub core_steal_fraction: Reading<f64>,
    /// True if it, not the server, was the limit.
    pub limited: bool,
    pub limited_because: Option<String>,
    pub reasons: Vec<String>,
    /// Requests sent more than a millisecond after their intended start.
    pub late_sends: u64,
    pub send_lag_p99_seconds: Option<f64>,
    /// How late it may be before it counts as the limit.
    pub send_lag_limit_seconds: f64,
    /// By how much it may have put off sends and answers at high rates, to do several in one turn.
    pub timer_slack_seconds: f64,
    /// How often it looked for what there was to do.
    pub turns_per_second: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[allow(missing_docs)] // the table in sojourn_measure::counters says what each is
pub struct ServerUse {
    pub cpu_seconds: Reading<f64>,
    pub cpu_user_fraction: Reading<f64>,
    pub cpu_fraction: Reading<f64>,
    pub cpu_seconds_per_request: Reading<f64>,
    pub core_busy_fraction: Reading<f64>,
    pub core_steal_fraction: Reading<f64>,
    pub core_softirq_fraction: Reading<f64>,
    pub major_faults: Reading<u64>,
    pub minor_faults: Reading<u64>,
    pub voluntary_switches: Reading<u64>,
    pub involuntary_switches: Reading<u64>,
    pub resident_bytes: Reading<u64>,
}

/// TCP counters that explain steps of 1 s and 3 s in latencies.
#[derive(Debug, Serialize, JsonSchema)]
#[allow(missing_docs)] // the table in sojourn_measure::counters says what each is
pub struct TcpTrouble {
    pub listen_overflows: Reading<u64>,
    pub listen_drops: Reading<u64>,
    pub retransmitted_segments: Reading<u64>,
}
