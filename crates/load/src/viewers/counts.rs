//! Counters of a run of viewers: packets when they arrive, streams when they end, and a timeline row per interval.

use std::{collections::BTreeMap, ops::AddAssign, time::SystemTime};

use serde::Serialize;
use sojourn_measure::{Histogram, Nanos};

use crate::{
    playout::{sequence::PacketOrder, track::Arrival},
    viewers::verdict::{Ending, Failure, Fault},
};

/// Packet counters of one stream or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub packets: u64,
    /// Their bytes, including RTP headers.
    pub bytes: u64,
    pub late: u64,
    /// Read too long after arrival to know when they arrived.
    pub void: u64,
    pub reordered: u64,
    pub duplicates: u64,
    /// From the stream's source, but too old or too far ahead.
    pub out_of_sequence: u64,
    /// From other sources, or on channels that were not agreed on.
    pub foreign: u64,
    /// Not RTP, or of another payload type than described.
    pub malformed: u64,
    /// Dropped by the kernel because the generator did not read them in time.
    pub overflowed: u64,
    /// How often there was nothing to show.
    pub starvations: u64,
    /// How long there was nothing to show.
    pub starved: Nanos,
}

impl Counts {
    /// Counts a packet of `bytes`.
    pub fn take(&mut self, arrival: &Arrival, bytes: usize) {
        match arrival.order {
            None => self.foreign += 1,
            Some(PacketOrder::Duplicate) => self.duplicates += 1,
            Some(PacketOrder::Stale | PacketOrder::Elsewhere) => self.out_of_sequence += 1,
            Some(order @ (PacketOrder::Newest | PacketOrder::Reordered)) => {
                self.packets += 1;
                self.bytes += bytes as u64;
                self.late += u64::from(arrival.late);
                self.void += u64::from(arrival.behind.is_none());
                self.reordered += u64::from(order == PacketOrder::Reordered);
            }
        }
        self.starve(arrival.starves, arrival.starved);
    }

    /// Counts time with nothing to show.
    pub fn starve(&mut self, begins: bool, length: Nanos) {
        self.starvations += u64::from(begins);
        self.starved = self.starved + length;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.late += other.late;
        self.void += other.void;
        self.reordered += other.reordered;
        self.duplicates += other.duplicates;
        self.out_of_sequence += other.out_of_sequence;
        self.foreign += other.foreign;
        self.malformed += other.malformed;
        self.overflowed += other.overflowed;
        self.starvations += other.starvations;
        self.starved = self.starved + other.starved;
    }
}

/// Sums over ended streams.
#[derive(Debug, Default)]
pub struct Streams {
    pub started: u64,
    /// Streams that played to the end of the film.
    pub films_over: u64,
    /// Streams of normal viewers that were not cut short before they played.
    pub judged: u64,
    /// Streams without a fault.
    pub conforming: u64,
    /// Streams by the first rule they broke.
    pub faults: BTreeMap<Fault, u64>,
    pub refused: BTreeMap<u16, u64>,
    pub failures: BTreeMap<Failure, u64>,
    pub slow: u64,
    pub vanishing: u64,
    /// Streams that had not started to play when the run ended.
    pub unfinished: u64,
    /// Streams with at least one starvation.
    pub starved: u64,
    /// Packets sent, by their sequence numbers.
    pub expected: u64,
    /// Expected packets that did not arrive.
    pub lost: u64,
    pub counts: Counts,
    /// Seconds from the first packet to the end, over all streams.
    pub played_seconds: f64,
    /// Bit rates of streams that played long enough.
    pub bits_per_second: Vec<f64>,
}

impl Streams {
    pub fn end(&mut self, ending: Ending) {
        match ending {
            Ending::Refused(status) => *self.refused.entry(status).or_default() += 1,
            Ending::Failed(failure) => *self.failures.entry(failure).or_default() += 1,
            Ending::FilmOver => self.films_over += 1,
            Ending::Unfinished => self.unfinished += 1,
            Ending::Played | Ending::Vanished => {}
        }
    }

    pub fn record_verdict(&mut self, fault: Option<Fault>) {
        self.judged += 1;
        match fault {
            None => self.conforming += 1,
            Some(fault) => *self.faults.entry(fault).or_default() += 1,
        }
    }

    /// Streams that ended by a timeout.
    pub fn timed_out(&self) -> u64 {
        self.failures.iter().filter(|(failure, _)| failure.is_timeout()).map(|(_, count)| count).sum()
    }
}

#[derive(Debug, Default)]
pub struct Times {
    /// From the start of the connection to the response to PLAY.
    pub setup: Histogram,
    /// From sending PLAY to the first RTP packet.
    pub first_packet: Histogram,
    /// How much later packets arrived than at the pace of the first.
    pub behind: Histogram,
    /// The jitter of each track at its end.
    pub jitter: Histogram,
    /// From when the kernel had a packet until the generator read it; with HLS also how late requests were sent.
    pub receive_lag: Histogram,
    /// With HLS: from the request for a segment until it was complete.
    pub segment: Histogram,
    /// With HLS: from connecting until the player showed something.
    pub startup: Histogram,
}

impl Times {
    /// The histograms by tag, with those of HLS if it is used.
    pub fn tagged(&self) -> Vec<(&'static str, &Histogram)> {
        let hls = [("segment_time", &self.segment), ("startup_time", &self.startup)];
        let common = [
            ("setup_time", &self.setup),
            ("time_to_first_packet", &self.first_packet),
            ("behind", &self.behind),
            ("jitter", &self.jitter),
            ("receive_lag", &self.receive_lag),
        ];
        common.into_iter().chain(hls.into_iter().filter(|(_, times)| times.count() > 0)).collect()
    }
}

/// The run per interval, as columns of equal length.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct StreamTimeline {
    columns: BTreeMap<&'static str, Vec<Option<f64>>>,
    #[serde(skip)]
    started_at: SystemTime,
}

impl StreamTimeline {
    pub fn new(started_at: SystemTime) -> StreamTimeline {
        StreamTimeline { columns: BTreeMap::new(), started_at }
    }

    /// Adds a row that ends `time` after the run's start.
    pub fn push(&mut self, time: Nanos, length: Nanos, row: &[(&'static str, Option<f64>)]) {
        let began = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let times = [
            ("time_seconds", Some(time.seconds())),
            ("length_seconds", Some(length.seconds())),
            ("unix_seconds", Some(began + time.seconds())),
        ];
        for (name, value) in times.iter().chain(row) {
            self.columns.entry(name).or_default().push(*value);
        }
    }
}
