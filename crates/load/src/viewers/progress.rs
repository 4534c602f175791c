//! The progress of a run of viewers: a timeline row per interval, and the same as a progress report.

use slab::Slab;
use sojourn_measure::{Nanos, Summary, clock};

use crate::viewers::{
    Run,
    conformance::fault,
    counts::Counts,
    measurements::{LastRow, Measurements},
    plan::{StreamPlan, Transport},
    verdict::Ending,
    viewer::{Phase, Viewer},
};

/// Names of the packet counters in the timeline.
const PACKET_COLUMNS: [&str; 4] =
    ["packets_per_second", "packets_late_per_second", "packets_lost_per_second", "packets_void_per_second"];
const SEGMENT_COLUMNS: [&str; 4] = [
    "segments_per_second",
    "segments_late_per_second",
    "segments_lost_per_second",
    "segments_void_per_second",
];

/// The progress of a run, once per interval.
#[derive(Clone, Debug)]
pub struct StreamProgress {
    /// The completed share of the run.
    pub fraction: f64,
    pub started: u64,
    pub playing: u64,
    /// Playing, judged streams without a fault so far.
    pub conforming: u64,
    pub refused: u64,
    /// Streams ended by a timeout so far.
    pub timed_out: u64,
    pub failed: u64,
    /// RTP packets including headers, in bits per second.
    pub bits_per_second: f64,
    /// How much later packets of the last interval arrived than at the pace of the first.
    pub behind: Summary,
    /// The generator's CPU time over wall time in the last interval.
    pub generator_cpu_fraction: f64,
}

impl StreamProgress {
    /// The same progress with another completed share.
    pub(crate) fn with_fraction(self, fraction: f64) -> StreamProgress {
        StreamProgress { fraction: fraction.min(1.0), ..self }
    }
}

impl Run {
    /// Adds a timeline row; returns it as a progress report.
    pub(crate) fn add_row(&mut self, now: Nanos) -> StreamProgress {
        self.measurements.add_row(&self.table.viewers, &self.plan, self.origin, now)
    }
}

impl Measurements {
    fn add_row(
        &mut self,
        viewers: &Slab<Viewer>,
        plan: &StreamPlan,
        origin: Nanos,
        now: Nanos,
    ) -> StreamProgress {
        let before = self.last_row;
        let viewers = || viewers.iter().map(|(_, viewer)| viewer);
        let playing = viewers().filter(|viewer| viewer.phase == Phase::Playing);
        let judged: Vec<&Viewer> = playing.clone().filter(|viewer| viewer.is_judged()).collect();
        let quality = &plan.quality;
        let is_good = |viewer: &&&Viewer| fault(Ending::Played, viewer, quality, now).is_none();
        let conforming = judged.iter().filter(is_good).count();
        let lost = self.streams.lost + judged.iter().map(|viewer| viewer.expected_and_lost().1).sum::<u64>();
        let active = viewers().filter(|viewer| !viewer.is_vanished()).count();
        let (playing, refused) = (playing.count(), self.streams.refused.values().sum::<u64>());
        let failed: u64 = self.streams.failures.values().sum();
        let behind = self.recent.summary();
        self.recent.reset();
        let this = LastRow { at: now, cpu: clock::thread_cpu(), counts: self.counts, lost };
        self.last_row = this;
        let length = now - before.at;
        let seconds = length.seconds();
        let per_second = |amount: u64| (seconds > 0.0).then(|| amount as f64 / seconds);
        let grown = |of: fn(&Counts) -> u64| per_second(of(&this.counts) - of(&before.counts));
        let bits_per_second = grown(|counts| 8 * counts.bytes);
        let cpu_fraction = (seconds > 0.0).then(|| (this.cpu - before.cpu).seconds() / seconds);
        let [came, late, missing, void] = match plan.transport {
            Transport::Http => SEGMENT_COLUMNS,
            Transport::Udp | Transport::Interleaved => PACKET_COLUMNS,
        };
        let row = [
            ("streams_started", Some(self.streams.started as f64)),
            ("streams_active", Some(active as f64)),
            ("streams_playing", Some(playing as f64)),
            ("streams_conforming", Some(conforming as f64)),
            ("streams_refused", Some(refused as f64)),
            ("streams_failed", Some(failed as f64)),
            ("streams_timed_out", Some(self.streams.timed_out() as f64)),
            ("bits_per_second", bits_per_second),
            (came, grown(|counts| counts.packets)),
            (late, grown(|counts| counts.late)),
            // A late packet that arrives after all is no longer lost.
            (missing, per_second(this.lost.saturating_sub(before.lost))),
            (void, grown(|counts| counts.void)),
            ("starvations_per_second", grown(|counts| counts.starvations)),
            ("behind_p50_seconds", behind.p50),
            ("behind_p99_seconds", behind.p99),
            ("generator_cpu_fraction", cpu_fraction),
        ];
        self.timeline.push(now - origin, length, &row);
        StreamProgress {
            fraction: 0.0,
            started: self.streams.started,
            playing: playing as u64,
            conforming: conforming as u64,
            refused,
            timed_out: self.streams.timed_out(),
            failed: failed - self.streams.timed_out(),
            bits_per_second: bits_per_second.unwrap_or(0.0),
            behind,
            generator_cpu_fraction: cpu_fraction.unwrap_or(0.0),
        }
    }
}
