//! A segment: a movie fragment (`moof`) with the sizes and times of its samples, then the samples (`mdat`).
//!
//! Times are decoding times from the first sample on, so none is negative. The edit list in the initialisation segment
//! says when the first picture is shown, the same for all tracks.

use std::ops::Range;

use super::Film;
use crate::mp4::boxes::BoxWriter;
use crate::mp4::{Sample, Track};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub head: Vec<u8>,
    /// The ranges of the film's bytes that follow the head, in this order.
    pub ranges: Vec<Range<u64>>,
}

/// Flag of `tfhd`: offsets count from the start of the fragment.
const BASE_IS_FRAGMENT: u32 = 0x02_0000;

/// Flags of `trun`: the offset of the first sample, and each sample's duration, size, flags and composition offset.
const RUN_FLAGS: u32 = 0x0f01;

const BOX_HEAD_BYTES: usize = 8;

/// Sample flags: a keyframe, or a sample that depends on others.
const SYNC_SAMPLE: u32 = 0x0200_0000;
const OTHER_SAMPLE: u32 = 0x0101_0000;

impl Segment {
    /// Bytes of head and ranges.
    pub fn size(&self) -> u64 {
        self.head.len() as u64 + self.ranges.iter().map(|range| range.end - range.start).sum::<u64>()
    }
}

/// Segment `number` of `film`, with these samples of each track.
pub fn write(film: &Film, number: u32, tracks: &[(&Track, Range<u32>)]) -> Segment {
    let mut writer = BoxWriter::default();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    // Positions in the head of the data offsets to fill in, and the bytes of samples before each.
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

/// Writes a track's `traf` box; returns where its data offset is to be filled in.
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
            // The file's own tables have four bytes for a duration, so it fits.
            writer.u32(sample.duration_ticks as u32);
            writer.u32(sample.size);
            writer.u32(if sample.is_sync { SYNC_SAMPLE } else { OTHER_SAMPLE });
            writer.u32(sample.composition_ticks as u32);
        }
    });
    place
}

/// The decoding time of a sample, from the film's first decoded sample.
fn decode_time(film: &Film, track: &Track, number: u32) -> u64 {
    let decode_ticks = track.sample(number).map_or(0, |sample| sample.decode_ticks as i64);
    let lead_ticks = track.ticks_of(film.lead) as i64;
    (decode_ticks - track.start_ticks() + lead_ticks).max(0) as u64
}

fn samples_in<'a>(track: &'a Track, samples: &Range<u32>) -> impl Iterator<Item = Sample> + 'a {
    track.samples_from(samples.start).take(samples.len())
}

/// Appends `range`, merging it with the last range if they are adjacent.
fn append(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
