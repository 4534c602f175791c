//! What a run of viewers measures: packets when they arrive, streams when they end, snapshots and timeline rows.

use std::{collections::BTreeMap, time::SystemTime};

use sojourn_measure::{Histogram, Nanos, clock};

use crate::{
    playout::track::Arrival,
    statistics::snapshot::Level,
    viewers::{
        conformance,
        counts::{Counts, StreamTimeline, Streams, Times},
        plan::Quality,
        snapshot::Snapshot,
        verdict::{Ending, Fault},
        viewer::{Behaviour, Viewer},
    },
};

/// After this long without a packet, the clock decides whether the viewer starves.
pub(crate) const STARVATION_ASKED_AFTER: Nanos = Nanos(1_000_000_000);

#[derive(Debug)]
pub(crate) struct Measurements {
    /// Packets of all viewers.
    pub(crate) counts: Counts,
    pub(crate) streams: Streams,
    pub(crate) times: Times,
    /// How late packets were since the last timeline row.
    pub(crate) recent: Histogram,
    pub(crate) playing: Level,
    pub(crate) timeline: StreamTimeline,
    pub(crate) last_row: LastRow,
    /// At the start and end of the measured part.
    pub(crate) snapshots: Vec<Snapshot>,
    /// Invalid responses, by what is wrong with them.
    pub(crate) complaints: BTreeMap<String, u64>,
    /// A sample with a larger receive lag is void.
    receive_lag_max: Nanos,
}

/// The figures of the last timeline row, all since the run's start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastRow {
    pub(crate) at: Nanos,
    pub(crate) cpu: Nanos,
    pub(crate) counts: Counts,
    pub(crate) lost: u64,
}

impl LastRow {
    pub(crate) fn new(at: Nanos) -> LastRow {
        LastRow { at, cpu: clock::thread_cpu(), ..LastRow::default() }
    }
}

impl Measurements {
    pub(crate) fn new(origin: Nanos, started_at: SystemTime, receive_lag_max: Nanos) -> Measurements {
        Measurements {
            counts: Counts::default(),
            streams: Streams::default(),
            times: Times::default(),
            recent: Histogram::coarse(),
            playing: Level::default(),
            timeline: StreamTimeline::new(started_at),
            last_row: LastRow::new(origin),
            snapshots: Vec::new(),
            complaints: BTreeMap::new(),
            receive_lag_max,
        }
    }

    pub(crate) fn complain(&mut self, why: String) {
        *self.complaints.entry(why).or_default() += 1;
    }

    /// Records how late the generator was; returns true if that makes the sample void.
    pub(crate) fn receive_lag(&mut self, lag: Nanos) -> bool {
        self.times.receive_lag.record(lag);
        lag > self.receive_lag_max
    }

    /// Counts a packet or segment of `bytes`.
    pub(crate) fn arrival(&mut self, viewer: &mut Viewer, arrival: &Arrival, bytes: usize) {
        if let Some(behind) = arrival.behind.filter(|_| viewer.is_judged()) {
            self.times.behind.record(behind);
            self.recent.record(behind);
        }
        viewer.counts.take(arrival, bytes);
        self.counts.take(arrival, bytes);
    }

    pub(crate) fn foreign(&mut self, viewer: &mut Viewer) {
        viewer.counts.foreign += 1;
        self.counts.foreign += 1;
    }

    pub(crate) fn malformed(&mut self, viewer: &mut Viewer, why: &str) {
        viewer.counts.malformed += 1;
        self.counts.malformed += 1;
        self.complain(why.to_owned());
    }

    /// Records the kernel's count of datagrams dropped at a track's socket since it was opened.
    pub(crate) fn overflow(&mut self, viewer: &mut Viewer, track: usize, overflowed: u32) {
        let Some(pair) = &mut viewer.tracks_mut()[track].udp else { return };
        let more = u64::from(overflowed.wrapping_sub(pair.overflowed));
        pair.overflowed = overflowed;
        viewer.counts.overflowed += more;
        self.counts.overflowed += more;
    }

    /// Counts time with nothing to show that no packet has ended yet.
    pub(crate) fn starve(&mut self, viewer: &mut Viewer, now: Nanos) {
        let before = viewer.counts;
        viewer.starve_until(now);
        self.counts.starvations += viewer.counts.starvations - before.starvations;
        self.counts.starved = self.counts.starved + (viewer.counts.starved - before.starved);
    }

    pub(crate) fn playing(&mut self, viewer: &mut Viewer, now: Nanos) {
        viewer.playing_since = Some(now);
        self.playing.up(now);
        self.times.setup.record(now - viewer.began);
    }

    /// Records a viewer that could not even start to connect.
    pub(crate) fn not_begun(&mut self, behaviour: Behaviour, ending: Ending) {
        self.streams.end(ending);
        if behaviour == Behaviour::Normal {
            self.streams.record_verdict(Some(Fault::Failed));
        }
    }

    /// Counts how a stream ended, and judges it.
    pub(crate) fn ended(&mut self, viewer: &mut Viewer, ending: Ending, quality: &Quality, now: Nanos) {
        viewer.ending = Some(ending);
        if viewer.playing_since.is_some() {
            self.playing.down(now);
        }
        let last = viewer.last_packet.unwrap_or(now);
        // With HLS the film ends when it has been shown, not when it has arrived.
        let until = if ending == Ending::FilmOver && viewer.hls().is_none() { last } else { now };
        if matches!(ending, Ending::Played | Ending::Failed(_)) && now - last >= STARVATION_ASKED_AFTER {
            viewer.starve_until(now);
        }
        self.streams.end(ending);
        match viewer.behaviour {
            Behaviour::Slow => self.streams.slow += 1,
            Behaviour::Vanishing(_) => self.streams.vanishing += 1,
            Behaviour::Normal => self.record_verdict(viewer, ending, quality, until),
        }
    }

    fn record_verdict(&mut self, viewer: &Viewer, ending: Ending, quality: &Quality, until: Nanos) {
        let streams = &mut self.streams;
        streams.counts += viewer.counts;
        streams.starved += u64::from(viewer.counts.starvations > 0);
        let (expected, lost) = viewer.expected_and_lost();
        streams.expected += expected;
        streams.lost += lost;
        if let Some(first) = viewer.first_packet() {
            streams.played_seconds += (until - first).seconds();
        }
        viewer.tracks().iter().filter_map(|track| track.playout.jitter()).for_each(|jitter| {
            self.times.jitter.record(jitter);
        });
        streams.bits_per_second.extend(conformance::bits_per_second(viewer, until));
        if ending != Ending::Unfinished {
            streams.record_verdict(conformance::fault(ending, viewer, quality, until));
        }
    }
}
