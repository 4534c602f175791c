//! A film that can be streamed: its index, its tracks' packetisers, and their bit rates.

use std::time::Duration;

use sojourn_content::CHUNK_BYTES;
use sojourn_media::mp4::{Index, Sample, Track};
use sojourn_media::packetiser::{Packetiser, Unit};
use sojourn_media::rtsp::Timeline;

/// Payload bytes per packet. With 12 bytes of RTP, 8 of UDP and 40 of IPv6 it fits links with an MTU of 1,460, as with
/// tunnels.
pub const PAYLOAD_BYTES_MAX: usize = 1400;

/// Header bytes per packet: IPv4, UDP, RTP.
const HEADERS_BYTES: u64 = 20 + 8 + 12;

/// A film is read in chunks of this duration to twice as much, within these bounds: each session holds the one or two
/// that it is sending, and a thousand with films of their own should not need much more memory than what they send.
const CHUNK_SECONDS: f64 = 0.25;
const CHUNK_BYTES_MIN: u64 = 8 * 1024;

/// The parts of a film that do not depend on where its bytes come from.
#[derive(Debug)]
pub struct Film {
    index: Index,
    packetisers: Vec<Packetiser>,
    bits_per_second: Vec<u64>,
}

impl Film {
    pub fn new(index: Index) -> Film {
        let packetisers: Vec<_> =
            index.tracks().iter().map(|track| Packetiser::new(track, PAYLOAD_BYTES_MAX)).collect();
        let tracks = index.tracks().iter().zip(&packetisers);
        let bits_per_second = tracks.map(|(track, packetiser)| bits_per_second(track, packetiser)).collect();
        Film { index, packetisers, bits_per_second }
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    pub fn track(&self, number: usize) -> Option<&Track> {
        self.index.tracks().get(number)
    }

    pub fn packetiser(&self, number: usize) -> &Packetiser {
        &self.packetisers[number]
    }

    /// The next unit to send of track `number`, starting at `sample`.
    pub fn unit(&self, number: usize, sample: u32) -> Option<Unit> {
        self.packetisers.get(number)?.unit(self.track(number)?, sample)
    }

    pub fn timeline(&self) -> Timeline {
        Timeline { duration: self.index.duration(), supports_scale: self.index.video().is_some() }
    }

    /// The track's mean bit rate, including headers.
    pub fn bits_per_second(&self, number: usize) -> u64 {
        self.bits_per_second.get(number).copied().unwrap_or(0)
    }

    /// The size of the chunks in which it is read: a power of two.
    pub fn chunk_bytes(&self) -> u64 {
        let bytes = CHUNK_SECONDS * self.bits_per_second.iter().sum::<u64>() as f64 / 8.0;
        (bytes as u64 + 1).next_power_of_two().clamp(CHUNK_BYTES_MIN, CHUNK_BYTES)
    }

    /// The film time at which decoding can start for film time `time`, for the response to PLAY. It is `time` itself if
    /// no picture is shown yet, so that sound before the first picture is heard.
    pub fn beginning(&self, time: Duration) -> Duration {
        let leading = self.index.video().or_else(|| self.index.tracks().first());
        let first = leading.and_then(|track| Some((track, first_sample(track, time)?)));
        first.map_or(Duration::ZERO, |(track, sample)| track.film_time(&sample).min(time))
    }
}

/// The first sample of `track` for film time `time`.
pub fn first_sample(track: &Track, time: Duration) -> Option<Sample> {
    track.sample(track.keyframe_at_or_before(time))
}

fn bits_per_second(track: &Track, packetiser: &Packetiser) -> u64 {
    let (mut bytes, mut next) = (0, 0);
    while let Some(unit) = packetiser.unit(track, next) {
        let packets = u64::from(unit.size).div_ceil(PAYLOAD_BYTES_MAX as u64).max(1);
        bytes += u64::from(unit.size) + packets * HEADERS_BYTES;
        next = unit.samples.end;
    }
    (8.0 * bytes as f64 / track.duration().as_secs_f64().max(1.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_media::mp4::example;

    #[test]
    fn a_chunk_is_a_quarter_to_half_a_second_of_the_film() {
        let film = |bits_per_second| {
            let index = example::read(&example::film()).unwrap();
            Film { bits_per_second: vec![bits_per_second, 0], ..Film::new(index) }
        };
        assert_eq!(film(10_000).chunk_bytes(), CHUNK_BYTES_MIN);
        assert_eq!(film(300_000).chunk_bytes(), 16 * 1024);
        assert_eq!(film(600_000).chunk_bytes(), 32 * 1024);
        assert_eq!(film(50_000_000).chunk_bytes(), CHUNK_BYTES);
    }

    #[test]
    fn sound_before_the_first_picture_is_not_passed_over() {
        let mut bytes = example::film();
        let list = bytes.windows(4).position(|kind| kind == b"elst").unwrap() + 12;
        // The film begins a second before the pictures.
        bytes[list..list + 8].copy_from_slice(&example::words(&[1000, u32::MAX]));
        let film = Film::new(example::read(&bytes).unwrap());
        let second = Duration::from_secs(1);
        assert!(film.track(0).unwrap().film_time(&film.track(0).unwrap().sample(0).unwrap()) >= second);
        for time in [Duration::ZERO, second / 2] {
            assert_eq!(film.beginning(time), time);
        }
        assert!(film.beginning(3 * second) >= second);
    }
}
