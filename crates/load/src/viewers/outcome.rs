//! The outcome of a run of viewers, and the report made of it.

use std::{
    io::{self, Write},
    time::SystemTime,
};

use sojourn_measure::{
    Nanos, Reading,
    interval_log::{self, Interval},
};

use crate::viewers::{
    counts::{StreamTimeline, Streams},
    measurements::Measurements,
    plan::{StreamPlan, Transport},
    report::{
        BitRates, Deliveries, Packets, Starvation, StreamFigures, StreamGenerator, StreamReport, StreamStep,
        Streaming,
    },
    snapshot::Span,
};

/// Above this CPU utilisation the generator was the limit.
const CPU_MAX: f64 = 0.95;
/// The same if the hypervisor took more than this of its core.
const CORE_STEAL_MAX: f64 = 0.10;
/// A larger share of void samples means that the generator was late too often.
const VOID_SHARE_MAX: f64 = 0.01;
/// A larger share of packets dropped at the generator's own sockets makes losses its own.
const OVERFLOW_SHARE_MAX: f64 = 0.001;
/// How many distinct invalid responses are reported.
const COMPLAINTS_MAX: usize = 5;

/// Everything that a run measured.
#[derive(Debug)]
pub struct StreamOutcome {
    pub(crate) was_interrupted: bool,
    pub(crate) started_at: SystemTime,
    pub(crate) origin: Nanos,
    pub(crate) ramp: Nanos,
    pub(crate) descriptors: u64,
    pub(crate) measurements: Measurements,
    pub(crate) stamped: u64,
    pub(crate) unstamped: u64,
    pub(crate) plan: StreamPlan,
}

impl StreamOutcome {
    pub fn report(&self) -> StreamReport {
        let span = self.span();
        let generator = self.generator(span.as_ref());
        let step = span.map(|span| StreamStep {
            start_seconds: (self.measurements.snapshots[0].time() - self.origin).seconds(),
            clients: self.plan.clients,
            span,
            generator: generator.clone(),
        });
        StreamReport {
            complete: !self.was_interrupted,
            interrupted: self.was_interrupted,
            stopped_because: self.was_interrupted.then(|| "interrupted".to_owned()),
            started_unix_seconds: self
                .started_at
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
            warnings: self.warnings(),
            ramp_seconds: self.ramp.seconds(),
            bytes_per_second: step.as_ref().and_then(|step| step.span.bytes_per_second),
            streaming: self.streaming(),
            setup_time_seconds: self.measurements.times.setup.summary(),
            time_to_first_packet_seconds: self.measurements.times.first_packet.summary(),
            behind_seconds: self.measurements.times.behind.summary(),
            jitter_seconds: self.measurements.times.jitter.summary(),
            segment_time_seconds: self.is_hls().then(|| self.measurements.times.segment.summary()),
            startup_time_seconds: self.is_hls().then(|| self.measurements.times.startup.summary()),
            generator,
            steps: step.into_iter().collect(),
        }
    }

    /// The run per interval.
    pub fn timeline(&self) -> &StreamTimeline {
        &self.measurements.timeline
    }

    /// The bit rates of streams that played long enough.
    pub fn stream_bits_per_second(&self) -> &[f64] {
        &self.measurements.streams.bits_per_second
    }

    /// Writes the times of all streams as an HDR interval log.
    pub fn write_histograms(&self, output: &mut impl Write) -> io::Result<()> {
        let length = self.span().map_or(Nanos::ZERO, |span| Nanos::from_seconds(span.duration_seconds));
        let start = self.measurements.snapshots.first().map_or(Nanos::ZERO, |mark| mark.time() - self.origin);
        let rows = self.measurements.times.tagged().into_iter().map(|(tag, histogram)| Interval {
            tag,
            start,
            length,
            histogram,
        });
        interval_log::write(output, self.started_at, "sojourn load: streams", rows)
    }

    fn span(&self) -> Option<Span> {
        let [from, to] = self.measurements.snapshots.as_slice() else { return None };
        Some(to.since(from))
    }

    fn is_hls(&self) -> bool {
        self.plan.transport == Transport::Http
    }

    fn streaming(&self) -> Streaming {
        let Streams { judged, conforming, counts, .. } = self.measurements.streams;
        let streams = &self.measurements.streams;
        let named = |(name, count): (&'static str, u64)| (name, count);
        Streaming {
            streams: StreamFigures {
                started: streams.started,
                judged,
                conforming,
                conforming_fraction: share(conforming, judged),
                faults: streams.faults.iter().map(|(fault, count)| named((fault.name(), *count))).collect(),
                refused: streams.refused.values().sum(),
                refused_by_status: streams.refused.clone(),
                timed_out: streams.timed_out(),
                failures_by_cause: streams
                    .failures
                    .iter()
                    .map(|(failure, count)| named((failure.name(), *count)))
                    .collect(),
                films_over: streams.films_over,
                unfinished: streams.unfinished,
                slow: streams.slow,
                vanishing: streams.vanishing,
                played_seconds: streams.played_seconds,
            },
            packets: (!self.is_hls()).then(|| Packets {
                deliveries: self.deliveries(),
                reordered: counts.reordered,
                duplicates: counts.duplicates,
                out_of_sequence: counts.out_of_sequence,
                foreign: counts.foreign,
                malformed: counts.malformed,
                overflowed: counts.overflowed,
            }),
            segments: self.is_hls().then(|| self.deliveries()),
            starvation: Starvation {
                streams: streams.starved,
                count: counts.starvations,
                seconds: counts.starved.seconds(),
            },
            bit_rate: BitRates::of(&streams.bits_per_second),
        }
    }

    fn deliveries(&self) -> Deliveries {
        let Streams { counts, expected, lost, .. } = self.measurements.streams;
        Deliveries {
            received: counts.packets,
            expected,
            lost,
            lost_fraction: share(lost, expected),
            late: counts.late,
            late_fraction: share(counts.late, counts.packets),
            void: counts.void,
            void_fraction: share(counts.void, counts.packets),
        }
    }

    fn generator(&self, span: Option<&Span>) -> StreamGenerator {
        let nothing = || Reading::unavailable("nothing was measured");
        let reasons = self.reasons(span);
        let clock = match (self.stamped, self.unstamped) {
            (0, 0) => "nothing was received".to_owned(),
            (_, 0) => "from the kernel (SO_TIMESTAMPNS)".to_owned(),
            (0, _) => "from the generator, when epoll returned".to_owned(),
            (_, lacking) => format!(
                "from the kernel (SO_TIMESTAMPNS), except {lacking} packets without a kernel timestamp"
            ),
        };
        StreamGenerator {
            cpu_fraction: span.and_then(|span| span.cpu_fraction),
            cpu_seconds_per_stream_second: span.and_then(|span| span.cpu_seconds_per_stream_second),
            core_wait_fraction: span.map_or_else(nothing, |span| span.core_wait_fraction.clone()),
            core_steal_fraction: span.map_or_else(nothing, |span| span.core_steal_fraction.clone()),
            limited: !reasons.is_empty(),
            limited_because: (!reasons.is_empty()).then(|| reasons.join("; ")),
            reasons,
            receive_lag_seconds: self.measurements.times.receive_lag.summary(),
            receive_lag_limit_seconds: self.plan.limits.receive_lag.seconds(),
            arrival_clock: clock,
            iterations_per_second: span.and_then(|span| span.iterations_per_second),
            descriptors: self.descriptors,
        }
    }

    fn reasons(&self, span: Option<&Span>) -> Vec<String> {
        let mut reasons = Vec::new();
        let own: u64 = self
            .measurements
            .streams
            .failures
            .iter()
            .filter(|(each, _)| each.is_own())
            .map(|(_, count)| count)
            .sum();
        if own > 0 {
            reasons.push(format!(
                "the generator ran out of descriptors ({}) or ports for {own} streams: raise ulimit -n, or play by \
                 --transport tcp",
                self.descriptors
            ));
        }
        let Some(span) = span else { return reasons };
        let percent = |share: f64| share * 100.0;
        if let Some(busy) = span.cpu_fraction.filter(|&busy| busy > CPU_MAX) {
            reasons.push(format!("the generator's thread used {:.0} % of a core", percent(busy)));
        }
        let share = |part: u64| share(part, span.packets).unwrap_or(0.0);
        let limit = self.plan.limits.receive_lag.seconds() * 1e3;
        if share(span.void) > VOID_SHARE_MAX {
            reasons.push(format!(
                "{:.1} % of the {} were processed more than {limit:.0} ms after they arrived{}: their samples are void",
                percent(share(span.void)),
                if self.is_hls() { "segments" } else { "packets" },
                if self.is_hls() { ", or requested as late" } else { "" },
            ));
        }
        if share(span.overflowed) > OVERFLOW_SHARE_MAX {
            reasons.push(format!(
                "{} packets were dropped at the generator's own sockets: enlarge their buffers (--receive-buffer)",
                span.overflowed
            ));
        }
        if let Some(stolen) = span.core_steal_fraction.value().filter(|&&stolen| stolen > CORE_STEAL_MAX) {
            reasons.push(format!("the hypervisor took {:.0} % of the generator's core", percent(*stolen)));
        }
        reasons
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.measurements.snapshots.len() < 2 {
            warnings.push(
                "the run ended before all clients had started: the throughput of all of them is unknown"
                    .to_owned(),
            );
        }
        if self.is_hls() && self.plan.duration < self.plan.hls.buffer {
            warnings.push(format!(
                "the run was shorter than the players' buffers ({:.1} s): it shows how playback starts, not whether it keeps up; \
                 raise --duration or lower --buffer",
                self.plan.hls.buffer.seconds()
            ));
        }
        let said = self.measurements.complaints.iter().take(COMPLAINTS_MAX);
        warnings.extend(said.map(|(why, count)| format!("{count} times: {why}")));
        warnings
    }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}
