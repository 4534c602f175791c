//! One track as a player receives it: packets, their deadlines, and starvation.
//!
//! The player starts to show a track `prebuffer` after its first packet and never pauses. A packet's deadline is when
//! the player needs it: the start plus its media time, from the difference of RTP timestamps to the first packet. A
//! packet after its deadline is late. Starvation is the time in which everything had been shown and the next packet was
//! missing: the union of the spans from deadline to arrival of packets that advance the track.

use sojourn_measure::Nanos;
use sojourn_media::rtp::rtcp::Reception;

use crate::playout::sequence::{PacketOrder, Sequence};

const SECOND: i128 = 1_000_000_000;
/// One sixteenth of each difference goes into the jitter (RFC 3550, section 6.4.1).
const JITTER_GAIN: f64 = 16.0;

/// The relevant fields of an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub ssrc: u32,
    /// Its 16-bit sequence number.
    pub sequence: u16,
    /// Its media time in units of the track's clock.
    pub timestamp: u32,
}

/// The track's parameters from its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Units of timestamps per second.
    pub clock_rate: u32,
    /// The SSRC that the server announced.
    pub ssrc: Option<u32>,
}

/// How a packet is classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its place in the sequence; `None` for another source.
    pub order: Option<PacketOrder>,
    pub late: bool,
    /// How much later it arrived than at the pace of the first packet; `None` for a void sample.
    pub behind: Option<Nanos>,
    /// True if starvation starts with it.
    pub starves: bool,
    /// How much it extended starvation.
    pub starved: Nanos,
}

impl Arrival {
    const ELSEWHERE: Arrival =
        Arrival { order: None, late: false, behind: None, starves: false, starved: Nanos::ZERO };
}

#[derive(Clone, Debug)]
pub struct Playout {
    track: Track,
    prebuffer: Nanos,
    source: Option<Source>,
}

/// The source of the first packet.
#[derive(Clone, Debug)]
struct Source {
    ssrc: u32,
    sequence: Sequence,
    first_arrival: Nanos,
    /// The furthest media time: as a timestamp, and in units since the first packet.
    newest_timestamp: u32,
    newest_media: i64,
    /// The largest advance by a single packet.
    longest_step: i64,
    starved_until: Nanos,
    /// The previous valid packet, for jitter.
    previous: (Nanos, u32),
    jitter: f64,
}

impl Playout {
    /// A track before its first packet.
    pub fn new(track: Track, prebuffer: Nanos) -> Playout {
        Playout { track: Track { clock_rate: track.clock_rate.max(1), ..track }, prebuffer, source: None }
    }

    /// Sets the SSRC that the server announced.
    pub fn name_source(&mut self, ssrc: u32) {
        self.track.ssrc = Some(ssrc);
    }

    /// Counts a packet that arrived at `arrival`. If the sample `is_void`, its time is not used.
    pub fn take(&mut self, packet: &Packet, arrival: Nanos, is_void: bool) -> Arrival {
        let rate = self.track.clock_rate;
        let Some(source) = &mut self.source else { return self.begin(packet, arrival) };
        if packet.ssrc != source.ssrc {
            return Arrival::ELSEWHERE;
        }
        let order = source.sequence.take(packet.sequence);
        if !matches!(order, PacketOrder::Newest | PacketOrder::Reordered) {
            return Arrival { order: Some(order), ..Arrival::ELSEWHERE };
        }
        let ahead = i64::from(packet.timestamp.wrapping_sub(source.newest_timestamp) as i32);
        let media = source.newest_media + ahead;
        let mut found = Arrival { order: Some(order), ..Arrival::ELSEWHERE };
        if !is_void {
            source.measure_jitter(packet.timestamp, arrival, rate);
            let paced = source.shown_at(media, Nanos::ZERO, rate);
            let deadline = source.shown_at(media, self.prebuffer, rate);
            found.behind = Some(arrival - paced);
            found.late = arrival > deadline;
            if ahead > 0 && found.late {
                (found.starves, found.starved) = source.starve(deadline, arrival);
            }
        }
        if ahead > 0 {
            source.longest_step = source.longest_step.max(ahead);
            source.newest_media = media;
            source.newest_timestamp = packet.timestamp;
        }
        found
    }

    fn begin(&mut self, packet: &Packet, arrival: Nanos) -> Arrival {
        if self.track.ssrc.is_some_and(|ssrc| ssrc != packet.ssrc) {
            return Arrival::ELSEWHERE;
        }
        self.source = Some(Source {
            ssrc: packet.ssrc,
            sequence: Sequence::new(packet.sequence),
            first_arrival: arrival,
            newest_timestamp: packet.timestamp,
            newest_media: 0,
            longest_step: 0,
            starved_until: Nanos::ZERO,
            previous: (arrival, packet.timestamp),
            jitter: 0.0,
        });
        Arrival { order: Some(PacketOrder::Newest), behind: Some(Nanos::ZERO), ..Arrival::ELSEWHERE }
    }

    /// Starvation at `now` that no packet has ended yet: whether it begins, and its length so far.
    pub fn starve_until(&mut self, now: Nanos) -> (bool, Nanos) {
        let Some(source) = &mut self.source else { return (false, Nanos::ZERO) };
        let following = source.newest_media + source.longest_step;
        let deadline = source.shown_at(following, self.prebuffer, self.track.clock_rate);
        if now > deadline { source.starve(deadline, now) } else { (false, Nanos::ZERO) }
    }

    /// Seconds of media per second since the first packet, if the span is at least `least`.
    pub fn pace(&self, until: Nanos, least: Nanos) -> Option<f64> {
        let source = self.source.as_ref()?;
        let elapsed = until - source.first_arrival;
        let media = (source.newest_media + source.longest_step) as f64 / f64::from(self.track.clock_rate);
        (elapsed >= least).then(|| media / elapsed.seconds())
    }

    /// Received media time in seconds.
    pub fn media_seconds(&self) -> f64 {
        let newest = self.source.as_ref().map_or(0, |source| source.newest_media);
        newest as f64 / f64::from(self.track.clock_rate)
    }

    /// When the first packet arrived.
    pub fn first_arrival(&self) -> Option<Nanos> {
        self.source.as_ref().map(|source| source.first_arrival)
    }

    /// The jitter as estimated in RFC 3550; `None` without packets.
    pub fn jitter(&self) -> Option<Nanos> {
        let source = self.source.as_ref()?;
        Some(Nanos::from_seconds(source.jitter / f64::from(self.track.clock_rate)))
    }

    /// The number of packets sent, by their sequence numbers.
    pub fn expected(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.sequence.expected())
    }

    /// Expected packets that have not arrived.
    pub fn lost(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.sequence.lost())
    }

    /// The report block of a receiver report, without the reference to the last sender report.
    pub fn receiver_report(&mut self) -> Option<Reception> {
        let source = self.source.as_mut()?;
        let sequence = &mut source.sequence;
        Some(Reception {
            source: source.ssrc,
            fraction_lost: sequence.fraction_lost(),
            lost: i32::try_from(sequence.lost()).unwrap_or(i32::MAX),
            highest_sequence: sequence.extended(),
            jitter: source.jitter as u32,
            ..Reception::default()
        })
    }
}

impl Source {
    /// When a player that starts `prebuffer` after the first packet shows a media time.
    fn shown_at(&self, media: i64, prebuffer: Nanos, clock_rate: u32) -> Nanos {
        let offset = i128::from(media) * SECOND / i128::from(clock_rate);
        let at = i128::from(self.first_arrival.0) + i128::from(prebuffer.0) + offset;
        Nanos(at.clamp(0, i128::from(u64::MAX)) as u64)
    }

    /// Adds the part of the span that is not counted yet to the starved time.
    fn starve(&mut self, from: Nanos, until: Nanos) -> (bool, Nanos) {
        let (begins, added) = (from > self.starved_until, until - from.max(self.starved_until));
        self.starved_until = self.starved_until.max(until);
        (begins, added)
    }

    fn measure_jitter(&mut self, timestamp: u32, arrival: Nanos, clock_rate: u32) {
        let (before, previous) = self.previous;
        let passed = (arrival.0 as f64 - before.0 as f64) * 1e-9 * f64::from(clock_rate);
        let difference = passed - f64::from(timestamp.wrapping_sub(previous) as i32);
        self.jitter += (difference.abs() - self.jitter) / JITTER_GAIN;
        self.previous = (arrival, timestamp);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;
    const TRACK: Track = Track { clock_rate: 1_000, ssrc: None };

    fn packet(sequence: u16, timestamp: u32) -> Packet {
        Packet { ssrc: 7, sequence, timestamp }
    }

    /// Plays packets of 100 ms each that arrive at these milliseconds after the first; the prebuffer is one second.
    fn played(arrivals: &[u64]) -> (Playout, Vec<Arrival>) {
        let mut playout = Playout::new(TRACK, Nanos(1_000 * MS));
        let take = |(index, at): (usize, &u64)| {
            let packet = packet(index as u16, (u32::MAX - 50).wrapping_add(100 * index as u32));
            playout.take(&packet, Nanos((5_000 + at) * MS), false)
        };
        let found = arrivals.iter().enumerate().map(take).collect();
        (playout, found)
    }

    #[test]
    fn a_packet_is_late_after_its_deadline_and_starves_the_player() {
        // Shown at 1000, 1100, 1200, 1300 and 1400 ms.
        let (playout, found) = played(&[0, 100, 1_250, 1_280, 1_300]);
        assert_eq!(
            found.iter().map(|each| each.late).collect::<Vec<_>>(),
            [false, false, true, false, false]
        );
        assert_eq!((found[2].starves, found[2].starved), (true, Nanos(50 * MS)));
        assert_eq!(found[2].behind, Some(Nanos(1_050 * MS)));
        assert_eq!(playout.media_seconds(), 0.4);
    }

    #[test]
    fn a_starvation_lasts_until_there_is_something_to_show() {
        // Wanted at 1100, 1200, 1300, 1400 and 1500 ms: nothing to show from 1100 to 1290, 1300 to 1310, 1500 to 1600.
        let (_, found) = played(&[0, 1_250, 1_290, 1_310, 1_350, 1_600]);
        let starved: Vec<u64> = found.iter().map(|each| each.starved.0 / MS).collect();
        assert_eq!(starved, [0, 150, 40, 10, 0, 100]);
        assert_eq!(found.iter().filter(|each| each.starves).count(), 3);
    }

    #[test]
    fn silence_starves_from_when_the_next_packet_was_wanted() {
        let (mut playout, _) = played(&[0, 100, 200]);
        let at = |ms: u64| Nanos((5_000 + ms) * MS);
        assert_eq!(playout.starve_until(at(1_300)), (false, Nanos::ZERO));
        assert_eq!(playout.starve_until(at(1_500)), (true, Nanos(200 * MS)));
        assert_eq!(playout.starve_until(at(1_600)), (false, Nanos(100 * MS)));
    }

    #[test]
    fn pace_is_media_time_over_time() {
        let (playout, _) = played(&[0, 200, 400, 600, 800]);
        let pace = |until: u64| playout.pace(Nanos((5_000 + until) * MS), Nanos(500 * MS));
        assert_eq!(pace(400), None);
        assert_eq!(pace(1_000), Some(0.5));
    }

    #[test]
    fn other_sources_and_void_samples_say_nothing_of_time() {
        let mut playout = Playout::new(Track { ssrc: Some(7), ..TRACK }, Nanos(1_000 * MS));
        let other = Packet { ssrc: 8, ..packet(0, 0) };
        assert_eq!(playout.take(&other, Nanos(MS), false).order, None);
        assert!(playout.first_arrival().is_none());
        playout.take(&packet(1, 0), Nanos(MS), false);
        let void = playout.take(&packet(2, 100), Nanos(9_000 * MS), true);
        assert_eq!((void.order, void.late, void.behind), (Some(PacketOrder::Newest), false, None));
        assert_eq!(playout.jitter(), Some(Nanos::ZERO));
        assert_eq!(playout.expected(), 2);
    }

    #[test]
    fn jitter_is_that_of_the_standard() {
        // Differences of 0, 20 and 40 ms: J = 0, 20/16, and (1.25 + (40 − 1.25)/16).
        let (playout, _) = played(&[0, 100, 220, 360]);
        assert_eq!(playout.jitter().map(|jitter| jitter.0 / 1_000), Some(3_671));
    }

    proptest! {
        /// Whatever a server sends, nothing overflows, and starvation never exceeds the elapsed time.
        #[test]
        fn rubbish_is_survived(packets in prop::collection::vec((any::<u16>(), any::<u32>(), 0_u64..10_000), 1..200)) {
            let mut playout = Playout::new(TRACK, Nanos(0));
            let (mut now, mut starved) = (Nanos(1), Nanos::ZERO);
            for (sequence, timestamp, wait) in packets {
                now = now + Nanos(wait * MS);
                starved = starved + playout.take(&packet(sequence, timestamp), now, false).starved;
            }
            starved = starved + playout.starve_until(now).1;
            prop_assert!(starved <= now);
            prop_assert!(playout.lost() <= playout.expected());
            let _ = (playout.pace(now, Nanos(1)), playout.jitter(), playout.receiver_report());
        }
    }
}
