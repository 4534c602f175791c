//! What must hold for any bytes given as a film.

use std::time::Duration;

use sojourn_media::hls::Film;
use sojourn_media::mp4::{Index, SAMPLES_MAX, Track};
use sojourn_media::packetiser::{Packetiser, Unit};
use sojourn_media::sdp;

/// The number of samples whose packets are made; more would find nothing new.
const PACKETISED_MAX: u32 = 64;

/// A film is refused, or its samples, packets and segments lie within the file and within its duration.
pub fn film(bytes: &[u8]) {
    let read_at = |offset: u64, into: &mut [u8]| {
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    };
    let index = match Index::read(bytes.len() as u64, read_at) {
        Ok(index) => index,
        Err(refusal) => return assert!(!refusal.to_string().is_empty()),
    };
    assert!(index.tracks().iter().map(|track| track.sample_count() as usize).sum::<usize>() <= SAMPLES_MAX);
    for track in index.tracks() {
        samples(&index, track, bytes.len() as u64);
        packets(track, bytes);
    }
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    let text = sdp::describe(&index, &sdp::Session { title: "film", version: 0, address });
    assert_eq!(text.matches("\r\nm=").count(), index.tracks().len());
    segments(&index, bytes.len() as u64);
}

fn samples(index: &Index, track: &Track, file_bytes: u64) {
    let mut last = 0;
    for sample in track.samples_from(0) {
        assert!(sample.end() <= file_bytes && sample.decode_ticks >= last);
        last = sample.decode_ticks;
    }
    let [first, end] = [0, track.sample_count() - 1].map(|number| track.sample(number).unwrap());
    assert!(index.due_time(track, &first) <= index.due_time(track, &end));
    for time in [Duration::ZERO, index.duration() / 2, index.duration(), Duration::MAX] {
        assert!(track.sample_at(time) < track.sample_count());
        let keyframe = track.keyframe_at_or_before(time);
        assert!(keyframe == 0 || track.is_sync(keyframe));
        assert!(track.keyframe_after(keyframe).is_none_or(|next| next > keyframe && track.is_sync(next)));
    }
}

fn packets(track: &Track, bytes: &[u8]) {
    for payload_bytes_max in [0, 100, 1460] {
        let packetiser = Packetiser::new(track, payload_bytes_max);
        let mut next = 0;
        while let Some(Unit { samples, first, size }) = packetiser.unit(track, next) {
            let content = &bytes[first.offset as usize..(first.offset + u64::from(size)) as usize];
            let unit = Unit { samples: samples.clone(), first, size };
            if let Ok(packets) = packetiser.packets(track, &unit, content) {
                for packet in packets {
                    assert!(
                        packet.payload_bytes()
                            <= payload_bytes_max.max(sojourn_media::packetiser::PAYLOAD_BYTES_MIN)
                    );
                    assert!(!packet.body.is_empty());
                }
            }
            assert!(samples.end > next);
            next = samples.end;
            if next > PACKETISED_MAX {
                break;
            }
        }
    }
}

fn segments(index: &Index, file_bytes: u64) {
    let Ok(film) = Film::new(index.clone()) else { return };
    let playlist = film.playlist();
    assert_eq!(playlist.matches("#EXTINF:").count(), film.segment_count());
    assert!(film.initialisation().len() > 100);
    // Samples may overlap in the file, so the segments may have more bytes than it.
    let expected: u64 = index.video().into_iter().chain(index.audio()).map(Track::sample_bytes).sum();
    let mut found = 0;
    for number in 0..film.segment_count() as u32 {
        let segment = film.segment(number).unwrap();
        assert!(segment.ranges.iter().all(|range| range.start <= range.end && range.end <= file_bytes));
        found += segment.size() - segment.head.len() as u64;
    }
    // Samples that the edit list cuts from the start are left out unless decoding needs them.
    assert!(found <= expected, "{found} bytes of {expected}");
}
