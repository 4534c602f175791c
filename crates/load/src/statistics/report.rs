//! The result of a load run, printed as JSON. Keys are stable; units are at the end of each.
//!
//! Four moments of a request matter: the *intended start* (when it was due, or when the response it had to wait for was
//! complete), when the generator *acted* (sent it or started to connect for it), when it was *sent*, and when the first
//! and last byte of the response arrived. Every latency says which two it spans. Latencies are those of good responses;
//! failures have histograms of their own. All are HDR histograms with three significant digits; those of several steps
//! are merged, never averaged.

use std::collections::BTreeMap;

use serde::Serialize;
use sojourn_measure::{Reading, Summary};

use crate::plan::mix::MixCheck;

#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Report {
    /// True if the run reached its end, or the step at which it was to stop.
    pub complete: bool,
    /// True if a signal ended it.
    pub interrupted: bool,
    /// Why it stopped before the end of the schedule.
    pub stopped_because: Option<String>,
    /// When it started, in seconds since 1970 by the generator's clock.
    pub started_unix_seconds: f64,
    /// Warnings that do not invalidate the figures.
    pub warnings: Vec<String>,
    /// The users of a scenario.
    pub users: Option<UsersReport>,
    /// A test of the requested documents against their weights, including settle times.
    pub mix: Option<MixCheck>,
    /// All steps together, without settle parts.
    #[serde(flatten)]
    pub figures: Figures,
    /// The generator in all steps.
    pub generator: Generator,
    /// The steps that were measured.
    pub steps: Vec<StepReport>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct StepReport {
    /// When its measured part started, since the run's start.
    pub start_seconds: f64,
    pub offered_requests_per_second: Option<f64>,
    /// True if the rate changed while it was measured: its figures are means over several loads.
    pub ramp: bool,
    /// Why it exceeds what the server can carry; none if the server kept up within the target.
    pub limit: Option<StepLimit>,
    /// True if the server's core was saturated, by its processes.
    pub server_saturated: bool,
    /// Clients of a closed loop.
    pub clients: Option<u32>,
    /// Visits started in it: clients, sessions, single requests of an open loop.
    pub sessions_started: u64,
    /// Visits that ended in it with every request answered.
    pub sessions_completed: u64,
    /// Visits that ended in it because a request failed.
    pub sessions_failed: u64,
    /// Clients with a target rate.
    pub rated: Option<Rated>,
    pub connections_opened: u64,
    /// Connections opened because the server had closed an idle one.
    pub reconnects: u64,
    pub connections_open_mean: Option<f64>,
    /// The mean number of requests in flight.
    pub in_flight_mean: Option<f64>,
    pub steady: bool,
    /// The figures by which steady state is judged.
    pub steady_evidence: Option<SteadyEvidence>,
    /// Little's law, in a closed loop.
    pub little: Option<Little>,
    /// Little's law for requests in flight, with any arrivals.
    pub little_in_flight: Option<LittleInFlight>,
    #[serde(flatten)]
    pub figures: Figures,
    /// The mean size of good responses' bodies.
    pub response_bytes_mean: Option<f64>,
    pub generator: Generator,
    pub server: Option<ServerUse>,
    /// TCP errors in the whole network namespace.
    pub tcp: TcpTrouble,
    /// The same step over undisturbed windows, in which nothing else took the server's or the generator's core.
    pub undisturbed: Reading<Undisturbed>,
}

/// A step's figures over its undisturbed windows of about 100 ms. A window is undisturbed if neither core lost more
/// than usual plus a limit, in it or in the 100 ms before. Requests belong to the window of their response, whichever
/// step they were due in.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Undisturbed {
    /// The number of windows used; 0 if all were disturbed.
    pub windows: u64,
    /// All windows of the step.
    pub windows_total: u64,
    /// Windows in which the losses of both cores are known.
    pub windows_judged: u64,
    pub seconds: f64,
    /// Good responses in them.
    pub requests: u64,
    pub requests_per_second: Option<f64>,
    /// Requests started in them: the load on the server meanwhile.
    pub requests_begun_per_second: Option<f64>,
    /// From the intended start to the last byte.
    pub response_time_seconds: Summary,
    /// Half-width of the mean's 95 % confidence interval, by batch means over windows.
    pub response_time_mean_half_width_seconds: Option<f64>,
    /// From the intended start to the first byte.
    pub time_to_first_byte_intended_seconds: Summary,
    /// CPU time of the observed processes per good response.
    pub server_cpu_seconds_per_request: Option<f64>,
    /// The most that a core may lose in an undisturbed window beyond the usual loss, or the source's resolution if that
    /// is larger.
    pub lost_max_seconds: f64,
    /// What the server's core lost to other work, over all windows.
    pub server_core: Reading<CoreLoss>,
    /// What the generator's core lost to other work, over all windows.
    pub generator_core: Reading<CoreLoss>,
}

/// Time of a core that other work took while it was needed.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct CoreLoss {
    pub lost_fraction: f64,
    pub lost_in_a_window_max_seconds: f64,
    /// The usual loss per window: the highest of the quietest quarter of windows, at most 10 ms. It comes from kernel
    /// threads that work for the load, and from waking up.
    pub usual_in_a_window_seconds: f64,
    /// The source of the figures.
    pub source: String,
    /// The precision of the source.
    pub resolution_seconds: f64,
}

/// The users of a scenario.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct UsersReport {
    /// The number of users.
    pub users: u64,
    /// The rows of the feeder file, if there is one; further users share them.
    pub rows: Option<u64>,
    /// True if every iteration was a new user.
    pub new: bool,
}

/// The clients' figures of one step or the whole run.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Figures {
    /// Requests due in the span that got a good response.
    pub requests: u64,
    /// Requests due in the span that failed.
    pub errors: u64,
    /// Errors by cause; causes that did not occur are left out.
    pub errors_by_cause: BTreeMap<&'static str, u64>,
    /// How long requests took to fail, by cause: from the intended start to the failure.
    pub error_time_seconds: BTreeMap<&'static str, Summary>,
    /// Requests of which only a lower bound of the latency is known; they are in no latency.
    pub censored: Censored,
    /// Arrivals due in the span that were not started because of the limit on visits in progress.
    pub skipped: u64,
    /// Requests due in the span, or before it, and unanswered at the end, or not started by a late generator; the longest
    /// latencies are among them.
    pub unfinished: u64,
    /// Requests due in the span but never sent because their session or iteration had failed.
    pub abandoned: u64,
    /// Abandoned requests over all requests due in the span.
    pub abandoned_fraction: Option<f64>,
    /// Followed redirects, which are not counted as responses; requests' times include them.
    pub redirects: u64,
    pub duration_seconds: f64,
    /// Good responses completed in the span, whenever due, per second.
    pub requests_per_second: Option<f64>,
    /// Received bytes of heads and bodies per second.
    pub bytes_per_second: Option<f64>,
    /// From the intended start to the last byte, including connecting if needed.
    pub response_time_seconds: Summary,
    /// From when the generator acted to the last byte: what a tool reports that does not know when a request was due.
    /// The difference to `response_time_seconds` is what coordinated omission would hide.
    pub response_time_sent_seconds: Summary,
    /// From sending to the first byte.
    pub time_to_first_byte_seconds: Summary,
    /// From the intended start to the first byte, including the generator's lateness.
    pub time_to_first_byte_intended_seconds: Summary,
    /// From the first byte to the last.
    pub transfer_time_seconds: Summary,
    /// From the first packet to an established connection.
    pub connect_time_seconds: Summary,
    /// From an established connection to the end of the TLS handshake.
    pub handshake_time_seconds: Summary,
    /// Handshakes that resumed the session of an earlier connection.
    pub handshakes_resumed: u64,
    /// From the intended start until the generator sent the request, or started to connect.
    pub send_lag_seconds: Summary,
    /// From when the kernel received the first bytes of a response until the generator read them: the part of every
    /// other latency that is not the server's. Only with kernel timestamps.
    pub receive_lag_seconds: Reading<Summary>,
    /// Complete responses by status code, good or not.
    pub by_status: BTreeMap<u16, StatusFigures>,
    /// Good responses by the size of their body.
    pub by_size: Vec<SizeFigures>,
    /// By the names of requests, if they have names, in the order of the scenario.
    pub by_name: Vec<NamedFigures>,
}

/// The requests of one name.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct NamedFigures {
    pub name: String,
    /// Requests due in the span that got a good response.
    pub requests: u64,
    /// The same per second of the span.
    pub requests_per_second: Option<f64>,
    /// Requests due in the span that failed.
    pub errors: u64,
    /// Errors by cause; causes that did not occur are left out.
    pub errors_by_cause: BTreeMap<&'static str, u64>,
    /// The first answer that was not as it should be: what was asked, what came, and what of it is wrong.
    pub first_failure: Option<String>,
    /// Followed redirects.
    pub redirects: u64,
    /// Requests due in the span and unanswered at the end.
    pub unfinished: u64,
    /// Requests due in the span but never sent because an earlier one failed.
    pub abandoned: u64,
    /// The mean size of good responses' bodies.
    pub response_bytes_mean: Option<f64>,
    /// From the intended start to the last byte, including redirects.
    pub response_time_seconds: Summary,
    /// From the intended start to the first byte, including redirects.
    pub time_to_first_byte_intended_seconds: Summary,
    /// What the answers' `Server-Timing` fields say, by metric; only in scenarios.
    pub server_timing_seconds: BTreeMap<String, Summary>,
}

/// Clients with a target rate.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Rated {
    /// The target rate; the next request waits until the responses so far would have taken this long.
    pub bits_per_second: f64,
    /// A client with a lower mean rate over the step does not conform.
    pub conforming_bits_per_second: f64,
    /// The number of clients at the step's end.
    pub clients: usize,
    pub conforming: usize,
}

/// Requests without a response within the run's timeouts.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Censored {
    /// Ended by a timeout in any phase; they are among the errors, too.
    pub timeouts: u64,
    /// Unanswered when the run ended.
    pub unfinished: u64,
    /// Both over all requests due in the span: percentiles above one minus this are unknown.
    pub fraction: Option<f64>,
}

/// Complete responses with one status.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct StatusFigures {
    pub responses: u64,
    /// From the intended start to the last byte.
    pub response_time_seconds: Summary,
}

/// Good responses with bodies of about this size.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct SizeFigures {
    /// The smallest body of the class.
    pub bytes_from: u64,
    /// All bodies are smaller than this; `null` for the last class.
    pub bytes_below: Option<u64>,
    pub requests: u64,
    /// From the intended start to the last byte.
    pub response_time_seconds: Summary,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Generator {
    /// CPU time over wall time.
    pub cpu_fraction: Option<f64>,
    /// CPU time per good response.
    pub cpu_seconds_per_request: Option<f64>,
    /// The share of the time in which it was ready to run and other work held its core.
    pub core_wait_fraction: Reading<f64>,
    /// The share of its core (or of all cores if it is not pinned) that the hypervisor took.
    pub core_steal_fraction: Reading<f64>,
    /// True if the generator rather than the server was the limit.
    pub limited: bool,
    pub limited_because: Option<String>,
    pub reasons: Vec<String>,
    /// Requests sent more than a millisecond after their intended start.
    pub late_sends: u64,
    pub send_lag_p99_seconds: Option<f64>,
    /// Lateness above which the generator counts as the limit.
    pub send_lag_limit_seconds: f64,
    /// The longest delay of sends and responses by batching at high rates.
    pub timer_slack_seconds: f64,
    /// True if it ran before all programs without real-time priority.
    pub real_time: bool,
    /// Iterations of the event loop per second.
    pub iterations_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
// The table in sojourn_measure::counters says what each is.
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
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
// The table in sojourn_measure::counters says what each is.
pub struct TcpTrouble {
    pub listen_overflows: Reading<u64>,
    pub listen_drops: Reading<u64>,
    pub retransmitted_segments: Reading<u64>,
}

/// Why a step exceeds what the server can carry. This is the only rule of saturation: it ends a climb, and the knee is
/// where the steps of a climb first meet it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub enum StepLimit {
    /// More than one request in a thousand failed.
    #[serde(rename = "errors")]
    Errors,
    /// Throughput did not follow the offered rate.
    #[serde(rename = "throughput")]
    Throughput,
    /// More than 5 % of the requests failed, or had their first byte later than the target from the intended start.
    #[serde(rename = "time to first byte")]
    TimeToFirstByte,
    /// One of these, but caused by the generator: it shows nothing about the server.
    #[serde(rename = "generator")]
    Generator,
}

/// Figures of both halves of a step.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct SteadyEvidence {
    /// Good responses per second in the first half.
    pub requests_per_second_first_half: f64,
    pub requests_per_second_second_half: f64,
    /// The mean number of requests in flight in the first half.
    pub in_flight_first_half: f64,
    pub in_flight_second_half: f64,
}

/// Little's law for a closed loop: N = X (R + Z). A large error means a bug of the generator, or clients that spent
/// their time on failures.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Little {
    /// N, the number of clients.
    pub clients: u32,
    /// X (R + Z), the clients accounted for.
    pub accounted: f64,
    /// The relative difference between both.
    pub relative_error: f64,
}

/// Little's law for requests in flight, with any arrivals: L = X W. Both sides are measured separately: the left one is
/// an integral over time, the right one counts responses.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct LittleInFlight {
    /// L, the mean number of requests in flight.
    pub in_flight_mean: f64,
    /// X W, requests accounted for: good responses per second times their mean time since they were sent.
    pub accounted: f64,
    /// The relative difference between both. Requests that fail, pile up or outlive the step are not accounted for.
    pub relative_error: Option<f64>,
}
