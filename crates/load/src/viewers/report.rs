//! The result of a run of viewers, printed as JSON. Keys are stable; units are at the end of each.

use std::collections::BTreeMap;

use serde::Serialize;
use sojourn_measure::{Reading, Summary};

use crate::viewers::snapshot::Span;

#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct StreamReport {
    /// True if it went to its end.
    pub complete: bool,
    /// True if a signal ended it.
    pub interrupted: bool,
    pub stopped_because: Option<String>,
    /// When it started, in seconds since 1970 by the generator's clock.
    pub started_unix_seconds: f64,
    /// Warnings that do not invalidate the figures.
    pub warnings: Vec<String>,
    /// How long it took until all clients had started.
    pub ramp_seconds: f64,
    /// RTP packets including headers, once all clients had started.
    pub bytes_per_second: Option<f64>,
    pub streaming: Streaming,
    /// From connecting to the response to PLAY, or to the playlist of segments.
    pub setup_time_seconds: Summary,
    /// From PLAY to the first RTP packet; with HLS, from the request for the first segment (or what it needs) to its
    /// first byte.
    pub time_to_first_packet_seconds: Summary,
    /// How much later each packet arrived than at the pace of its track's first.
    pub behind_seconds: Summary,
    /// Each track's jitter at its end (RFC 3550).
    pub jitter_seconds: Summary,
    /// With HLS: from the request for a segment until it was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_time_seconds: Option<Summary>,
    /// With HLS: from connecting until the player showed something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_time_seconds: Option<Summary>,
    pub generator: StreamGenerator,
    /// The part in which all clients were running; missing if the run ended before.
    pub steps: Vec<StreamStep>,
}

/// The results of the judged streams, and the numbers of others.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Streaming {
    pub streams: StreamFigures,
    /// RTP packets; missing with HLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<Deliveries>,
    /// Times with nothing to show.
    pub starvation: Starvation,
    pub bit_rate: Option<BitRates>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct StreamFigures {
    /// Streams started, however they ended.
    pub started: u64,
    /// Streams of normal clients that were not cut short before they played.
    pub judged: u64,
    /// Judged streams without a fault.
    pub conforming: u64,
    pub conforming_fraction: Option<f64>,
    /// Judged streams with a fault, by the first rule they broke.
    pub faults: BTreeMap<&'static str, u64>,
    pub refused: u64,
    pub refused_by_status: BTreeMap<u16, u64>,
    /// Streams ended by a timeout.
    pub timed_out: u64,
    pub failures_by_cause: BTreeMap<&'static str, u64>,
    /// Streams that played to the end of the film.
    pub films_over: u64,
    /// Streams that had not started to play when the run ended.
    pub unfinished: u64,
    /// Streams of clients that read slowly.
    pub slow: u64,
    pub vanishing: u64,
    /// From the first packet to the end, over all streams.
    pub played_seconds: f64,
}

/// What the server delivered, in RTP packets or HLS segments.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
// docs/load-streaming.md says what each is.
pub struct Deliveries {
    pub received: u64,
    pub expected: u64,
    pub lost: u64,
    pub lost_fraction: Option<f64>,
    pub late: u64,
    pub late_fraction: Option<f64>,
    pub void: u64,
    pub void_fraction: Option<f64>,
}

/// Further counts of RTP packets.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
// docs/load-streaming.md says what each is.
pub struct Packets {
    #[serde(flatten)]
    pub deliveries: Deliveries,
    pub reordered: u64,
    pub duplicates: u64,
    pub out_of_sequence: u64,
    pub foreign: u64,
    pub malformed: u64,
    pub overflowed: u64,
}

/// Times with nothing to show.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Starvation {
    pub streams: u64,
    pub count: u64,
    /// Their total duration.
    pub seconds: f64,
}

/// Bit rates of streams that played for at least two seconds: RTP packets including headers.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
// Of so many streams: their mean, and the least, middle and most.
pub struct BitRates {
    pub streams: usize,
    pub mean_bits_per_second: f64,
    pub min_bits_per_second: f64,
    pub p50_bits_per_second: f64,
    pub max_bits_per_second: f64,
}

impl BitRates {
    /// `None` without rates.
    pub(crate) fn of(rates: &[f64]) -> Option<BitRates> {
        let mut sorted = rates.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (sorted.first()?, sorted.last()?);
        Some(BitRates {
            streams: sorted.len(),
            mean_bits_per_second: sorted.iter().sum::<f64>() / sorted.len() as f64,
            min_bits_per_second: *least,
            p50_bits_per_second: sorted[(sorted.len() - 1) / 2],
            max_bits_per_second: *most,
        })
    }
}

/// The part of a run in which all clients were running.
#[derive(Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct StreamStep {
    /// When it started, since the run's start.
    pub start_seconds: f64,
    /// The planned number of clients.
    pub clients: u32,
    #[serde(flatten)]
    pub span: Span,
    pub generator: StreamGenerator,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct StreamGenerator {
    /// CPU time over wall time.
    pub cpu_fraction: Option<f64>,
    /// CPU time per second of a stream.
    pub cpu_seconds_per_stream_second: Option<f64>,
    /// The share of the time in which it was ready to run and other work held its core.
    pub core_wait_fraction: Reading<f64>,
    /// The share of its core (or of all cores if it is not pinned) that the hypervisor took.
    pub core_steal_fraction: Reading<f64>,
    /// True if the generator rather than the server was the limit.
    pub limited: bool,
    pub limited_because: Option<String>,
    pub reasons: Vec<String>,
    /// From when a packet arrived until the generator read it.
    pub receive_lag_seconds: Summary,
    /// Above this, a sample is void.
    pub receive_lag_limit_seconds: f64,
    /// The clock of packet arrivals.
    pub arrival_clock: String,
    /// Iterations of the event loop per second.
    pub iterations_per_second: Option<f64>,
    /// The descriptor limit: a stream needs one, and with two tracks by UDP four more.
    pub descriptors: u64,
}
