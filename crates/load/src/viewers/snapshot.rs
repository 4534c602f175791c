//! Everything cumulative of a run of viewers at one moment, and the difference between two.

use serde::Serialize;
use sojourn_measure::{Nanos, Reading, clock, core_time::CoreTime, process::thread_core_wait};

use crate::{statistics::snapshot::Level, viewers::counts::Counts};

/// Everything cumulative at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    time: Nanos,
    cpu: Nanos,
    core_wait: Reading<Nanos>,
    core: Reading<CoreTime>,
    counts: Counts,
    playing: Level,
    iterations: u64,
}

impl Snapshot {
    /// Reads everything; `core` is the generator's, if it is pinned.
    pub fn read(core: Option<usize>, counts: Counts, playing: Level, iterations: u64) -> Snapshot {
        Snapshot {
            time: clock::now(),
            cpu: clock::thread_cpu(),
            core_wait: thread_core_wait().into(),
            core: CoreTime::read(core).into(),
            counts,
            playing,
            iterations,
        }
    }

    pub fn time(&self) -> Nanos {
        self.time
    }

    /// The difference to an earlier snapshot.
    pub fn since(&self, from: &Snapshot) -> Span {
        let seconds = (self.time - from.time).seconds();
        let per_second = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        let wait = self.core_wait.clone().zip(from.core_wait.clone());
        let core = self.core.clone().zip(from.core.clone());
        let cpu = (self.cpu - from.cpu).seconds();
        let stream_seconds = self.playing.integral_seconds(self.time, &from.playing, from.time);
        Span {
            duration_seconds: seconds,
            stream_seconds,
            streams_playing_mean: per_second(stream_seconds),
            bytes_per_second: per_second((self.counts.bytes - from.counts.bytes) as f64),
            packets_per_second: per_second((self.counts.packets - from.counts.packets) as f64),
            packets: self.counts.packets - from.counts.packets,
            void: self.counts.void - from.counts.void,
            overflowed: self.counts.overflowed - from.counts.overflowed,
            cpu_fraction: per_second(cpu),
            cpu_seconds_per_stream_second: (stream_seconds > 0.0).then(|| cpu / stream_seconds),
            core_wait_fraction: wait.map(|(to, from)| (to - from).seconds() / seconds),
            core_steal_fraction: core.and_then(|(to, from)| {
                (to - from).steal_fraction().ok_or("the span is shorter than the kernel's tick of 10 ms")
            }),
            iterations_per_second: per_second((self.iterations - from.iterations) as f64),
        }
    }
}

/// The difference of two snapshots.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Span {
    pub duration_seconds: f64,
    /// Seconds in which streams played, summed over the streams.
    pub stream_seconds: f64,
    /// The mean number of playing streams.
    pub streams_playing_mean: Option<f64>,
    /// RTP packets including headers.
    pub bytes_per_second: Option<f64>,
    pub packets_per_second: Option<f64>,
    #[serde(skip)]
    pub(crate) packets: u64,
    #[serde(skip)]
    pub(crate) void: u64,
    #[serde(skip)]
    pub(crate) overflowed: u64,
    #[serde(skip)]
    pub(crate) cpu_fraction: Option<f64>,
    #[serde(skip)]
    pub(crate) cpu_seconds_per_stream_second: Option<f64>,
    #[serde(skip)]
    pub(crate) core_wait_fraction: Reading<f64>,
    #[serde(skip)]
    pub(crate) core_steal_fraction: Reading<f64>,
    #[serde(skip)]
    pub(crate) iterations_per_second: Option<f64>,
}
