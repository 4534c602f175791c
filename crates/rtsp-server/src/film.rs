//! A film that can be streamed: its index, what makes packets of its tracks, and what it takes to send them.

use std::time::Duration;

use sojourn_media::mp4::{Index, Sample, Track};
use sojourn_media::packetiser::{Packetiser, Unit};
use sojourn_media::rtsp::Timeline;

/// Bytes of a packet after RTP's header: with 12 of that, 8 of UDP and 40 of IPv6 it passes links whose packets have
/// 1,460 bytes, as tunnels leave them.
pub const PAYLOAD_BYTES_MAX: usize = 1400;

/// Header bytes of a packet: IPv4, UDP, RTP.
const HEADERS_BYTES: u64 = 20 + 8 + 12;

/// A film, as far as it does not depend on where its bytes come from.
#[derive(Debug)]
pub struct Film {
    index: Index,
    packetisers: Vec<Packetiser>,
    bits_per_second: Vec<u64>,
}

impl Film {
    /// The film that `index` is of.
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

    /// The next unit to send of track `number` from `sample` on.
    pub fn unit(&self, number: usize, sample: u32) -> Option<Unit> {
        self.packetisers.get(number)?.unit(self.track(number)?, sample)
    }

    pub fn timeline(&self) -> Timeline {
        Timeline { duration: self.index.duration(), supports_scale: self.index.video().is_some() }
    }

    /// The track's average rate, headers included.
    pub fn bits_per_second(&self, number: usize) -> u64 {
        self.bits_per_second.get(number).copied().unwrap_or(0)
    }

    /// Where decoding can begin for film time `time`, in film time: what PLAY answers. That is `time` itself where no
    /// picture is to be seen yet, so that sound which begins before the pictures is heard.
    pub fn beginning(&self, time: Duration) -> Duration {
        let leading = self.index.video().or_else(|| self.index.tracks().first());
        let first = leading.and_then(|track| Some((track, first_sample(track, time)?)));
        first.map_or(Duration::ZERO, |(track, sample)| track.film_time(&sample).min(time))
    }
}

/// The sample of `track` with which film time `time` begins.
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
    fn sound_before_the_first_picture_is_not_passed_over() {
        let mut bytes = example::film();
        let list = bytes.windows(4).position(|kind| kind == b"elst").unwrap() + 12;
        // The film begins a second without the pictures.
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
