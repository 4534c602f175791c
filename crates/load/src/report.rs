//! The result as data: what is printed as JSON. Keys are stable; units stand last in each.

use std::collections::BTreeMap;

use serde::Serialize;
use sojourn_measure::{Reading, Summary};

use crate::check::{Little, SteadyEvidence};

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether it went to its end, or to the step that it was to stop at.
    pub complete: bool,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// Why it stopped before the schedule's end.
    pub stopped_because: Option<String>,
    /// All steps together, settle parts left out.
    #[serde(flatten)]
    pub figures: Figures,
    /// The generator in all steps.
    pub generator: Generator,
    /// The steps that were measured.
    pub steps: Vec<StepReport>,
}

/// One step.
#[derive(Debug, Serialize)]
pub struct StepReport {
    /// When its measured part began, since the run's start.
    pub start_seconds: f64,
    /// What it was meant to offer.
    pub offered_requests_per_second: Option<f64>,
    /// Clients of a closed loop.
    pub clients: Option<u32>,
    /// Clients or sessions that came in it.
    pub sessions_started: u64,
    /// Connections opened in it.
    pub connections_opened: u64,
    /// Of these, because the server had closed one between requests.
    pub reconnects: u64,
    /// Connections open on average.
    pub connections_open_mean: Option<f64>,
    /// Requests under way on average.
    pub in_flight_mean: Option<f64>,
    /// Whether its halves agree.
    pub steady: bool,
    /// By what that is judged.
    pub steady_evidence: Option<SteadyEvidence>,
    /// Little's law, in a closed loop.
    pub little: Option<Little>,
    /// What clients saw.
    #[serde(flatten)]
    pub figures: Figures,
    /// The mean body of a good answer.
    pub response_bytes_mean: Option<f64>,
    /// The generator.
    pub generator: Generator,
    /// The server, where observed.
    pub server: Option<ServerUse>,
    /// TCP trouble in the whole network namespace.
    pub tcp: TcpTrouble,
}

/// What clients saw in one step or in all.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Requests due in the span and answered as they should be.
    pub requests: u64,
    /// Requests due in the span that failed.
    pub errors: u64,
    /// The same by cause; causes that did not occur are left out.
    pub errors_by_cause: BTreeMap<&'static str, u64>,
    /// Requests due in the span and still unanswered at the end: the longest latencies are among them.
    pub unfinished: u64,
    /// Requests due in the span and never sent because their session had failed.
    pub abandoned: u64,
    /// The span's length.
    pub duration_seconds: f64,
    /// Good answers completed in the span, whenever due, per second.
    pub requests_per_second: Option<f64>,
    /// Heads and bodies received in the span per second.
    pub bytes_per_second: Option<f64>,
    /// From the intended start to the last byte, connecting included where it was needed.
    pub response_time_seconds: Summary,
    /// From the actual send to the first byte.
    pub time_to_first_byte_seconds: Summary,
    /// From the intended start to the first byte: the generator's lateness is included.
    pub time_to_first_byte_intended_seconds: Summary,
    /// From the first packet to an established connection.
    pub connect_time_seconds: Summary,
    /// From the intended start until the generator sent, or began to connect.
    pub send_lag_seconds: Summary,
}

/// The generator's own part.
#[derive(Clone, Debug, Serialize)]
pub struct Generator {
    /// CPU time over wall time.
    pub cpu_fraction: Option<f64>,
    /// CPU time per good answer.
    pub cpu_seconds_per_request: Option<f64>,
    /// The share of the time that it was ready to run and others held its core.
    pub core_wait_fraction: Reading<f64>,
    /// What the hypervisor took from its core, or from all when it is not pinned.
    pub core_steal_fraction: Reading<f64>,
    /// Whether it, not the server, was the limit.
    pub limited: bool,
    /// Why.
    pub limited_because: Option<String>,
    /// How late it was.
    pub send_lag_p99_seconds: Option<f64>,
}

/// What the server used.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
#[allow(missing_docs)] // the table in sojourn_measure::counters says what each is
pub struct TcpTrouble {
    pub listen_overflows: Reading<u64>,
    pub listen_drops: Reading<u64>,
    pub retransmitted_segments: Reading<u64>,
}
