//! A segment: a movie fragment (`moof`) that says where its samples are and when, then the samples (`mdat`).
//!
//! Times are decoding times from the first sample on, so that none is negative. When the first picture is shown by them,
//! the same for all tracks, is said by the initialisation's edit list.

use std::ops::Range;

use super::Film;
use crate::mp4::boxes::BoxWriter;
use crate::mp4::{Sample, Track};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub head: Vec<u8>,
    /// Bytes of the film that follow, in this order.
    pub ranges: Vec<Range<u64>>,
}

/// `tfhd`: places count from the start of the fragment.
const BASE_IS_FRAGMENT: u32 = 0x02_0000;

/// `trun`: the place of the first sample is said, and each sample's duration, size, flags and composition offset.
const RUN_FLAGS: u32 = 0x0f01;

const BOX_HEAD_BYTES: usize = 8;

/// Flags of a sample: a keyframe, or one that depends on others.
const SYNC_SAMPLE: u32 = 0x0200_0000;
const OTHER_SAMPLE: u32 = 0x0101_0000;

impl Segment {
    /// Bytes of head and ranges.
    pub fn size(&self) -> u64 {
        self.head.len() as u64 + self.ranges.iter().map(|range| range.end - range.start).sum::<u64>()
    }
}

/// The segment with this number, of these samples of `film`.
pub fn write(film: &Film, number: u32, tracks: &[(&Track, Range<u32>)]) -> Segment {
    let mut writer = BoxWriter::default();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    // Where in the head the place of a track's first sample is said, and how many bytes come before that sample.
    let mut places: Vec<(usize, u32)> = Vec::new();
    let mut bytes = 0_u32;
    writer.boxed(b"moof", |writer| {
        writer.full(b"mfhd", 0, 0, |writer| writer.u32(number + 1));
        for ((track, samples), track_number) in tracks.iter().zip(1..) {
            if samples.is_empty() {
                continue;
            }
            writer.boxed(b"traf", |writer| {
                let place = fragment_of(writer, film, track, track_number, samples);
                places.push((place, bytes));
            });
            for sample in samples_in(track, samples) {
                bytes += sample.size;
                append(&mut ranges, sample.offset..sample.end());
            }
        }
    });
    let content = writer.position() + BOX_HEAD_BYTES;
    for (place, before) in places {
        writer.replace_u32(place, content as u32 + before);
    }
    writer.u32(BOX_HEAD_BYTES as u32 + bytes);
    writer.bytes(b"mdat");
    Segment { head: writer.into_bytes(), ranges }
}

/// Writes what is said of a track; returns where the place of its first sample is to be.
fn fragment_of(
    writer: &mut BoxWriter,
    film: &Film,
    track: &Track,
    number: u32,
    samples: &Range<u32>,
) -> usize {
    writer.full(b"tfhd", 0, BASE_IS_FRAGMENT, |writer| writer.u32(number));
    writer.full(b"tfdt", 1, 0, |writer| writer.u64(decode_time(film, track, samples.start)));
    let mut place = 0;
    writer.full(b"trun", 1, RUN_FLAGS, |writer| {
        writer.u32(samples.len() as u32);
        place = writer.position();
        writer.u32(0);
        for sample in samples_in(track, samples) {
            // The file says them in four bytes, too.
            writer.u32(sample.duration_ticks as u32);
            writer.u32(sample.size);
            writer.u32(if sample.is_sync { SYNC_SAMPLE } else { OTHER_SAMPLE });
            writer.u32(sample.composition_ticks as u32);
        }
    });
    place
}

/// When the sample with this number is decoded, from the film's lead.
fn decode_time(film: &Film, track: &Track, number: u32) -> u64 {
    let decode_ticks = track.sample(number).map_or(0, |sample| sample.decode_ticks as i64);
    let lead_ticks = track.ticks_of(film.lead) as i64;
    (decode_ticks - track.start_ticks() + lead_ticks).max(0) as u64
}

fn samples_in<'a>(track: &'a Track, samples: &Range<u32>) -> impl Iterator<Item = Sample> + 'a {
    track.samples_from(samples.start).take(samples.len())
}

/// Adds `range`, to the last if it follows it.
fn append(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
