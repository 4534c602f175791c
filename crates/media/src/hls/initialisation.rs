//! The initialisation segment: the boxes of a film without samples, which describe its tracks (ISO/IEC 14496-12).

use std::time::Duration;

use crate::mp4::boxes::BoxWriter;
use crate::mp4::{Aac, Codec, Track};

/// The film's own timescale; no time in it uses that.
const MOVIE_TIMESCALE: u32 = 1000;

/// 1.0 as 16.16 fixed point, and 72 dots per inch.
const ONE: u32 = 1 << 16;
const DOTS_PER_INCH: u32 = 72 << 16;

/// The language code "und" (undetermined), five bits per letter.
const LANGUAGE: u16 = 0x55c4;

/// Flags of `tkhd`: enabled and in the movie. Flag of `url `: the samples are in the same file.
const TRACK_FLAGS: u32 = 3;
const SAME_FILE: u32 = 1;

/// The segment for these tracks, numbered from 1. `start` is the time from decoding the first sample to showing the
/// film's first picture.
pub fn write(tracks: &[&Track], start: Duration) -> Vec<u8> {
    let mut writer = BoxWriter::default();
    writer.boxed(b"ftyp", |writer| {
        writer.bytes(b"iso6\0\0\0\0iso6mp41");
    });
    writer.boxed(b"moov", |writer| {
        movie_header(writer, tracks.len() as u32 + 1);
        for (number, track) in (1..).zip(tracks) {
            writer.boxed(b"trak", |writer| write_track(writer, number, track, start));
        }
        writer.boxed(b"mvex", |writer| {
            for number in 1..=tracks.len() as u32 {
                // The first sample description; fragments override the defaults.
                writer.full(b"trex", 0, 0, |writer| {
                    writer.u32(number);
                    writer.u32(1);
                    writer.zeros(12);
                });
            }
        });
    });
    writer.into_bytes()
}

fn movie_header(writer: &mut BoxWriter, next_track: u32) {
    writer.full(b"mvhd", 0, 0, |writer| {
        writer.zeros(8);
        writer.u32(MOVIE_TIMESCALE);
        writer.u32(0);
        writer.u32(ONE);
        writer.u16(0x100);
        writer.zeros(10);
        unity_matrix(writer);
        writer.zeros(24);
        writer.u32(next_track);
    });
}

fn unity_matrix(writer: &mut BoxWriter) {
    for value in [ONE, 0, 0, 0, ONE, 0, 0, 0, 1 << 30] {
        writer.u32(value);
    }
}

fn write_track(writer: &mut BoxWriter, number: u32, track: &Track, start: Duration) {
    let size = match track.codec() {
        Codec::H264(h264) => Some(h264.size_pixels),
        Codec::H265(h265) => Some(h265.size_pixels),
        Codec::Aac(_) => None,
    };
    writer.full(b"tkhd", 0, TRACK_FLAGS, |writer| {
        writer.zeros(8);
        writer.u32(number);
        writer.zeros(4 + 4 + 8 + 4);
        writer.u16(if size.is_some() { 0 } else { 0x100 });
        writer.zeros(2);
        track.matrix().into_iter().for_each(|value| writer.u32(value));
        let (width, height) = size.unwrap_or_default();
        writer.u32(u32::from(width) << 16);
        writer.u32(u32::from(height) << 16);
    });
    writer.boxed(b"edts", |writer| {
        writer.full(b"elst", 1, 0, |writer| {
            writer.u32(1);
            // The duration 0 stands for fragments of unknown length.
            writer.u64(0);
            writer.u64(track.ticks_of(start));
            writer.u32(ONE);
        });
    });
    writer.boxed(b"mdia", |writer| {
        writer.full(b"mdhd", 0, 0, |writer| {
            writer.zeros(8);
            writer.u32(track.timescale());
            writer.u32(0);
            writer.u16(LANGUAGE);
            writer.u16(0);
        });
        writer.full(b"hdlr", 0, 0, |writer| {
            writer.zeros(4);
            writer.bytes(if size.is_some() { b"vide" } else { b"soun" });
            writer.zeros(13);
        });
        writer.boxed(b"minf", |writer| media_information(writer, track));
    });
}

fn media_information(writer: &mut BoxWriter, track: &Track) {
    if track.codec().is_video() {
        writer.full(b"vmhd", 0, 1, |writer| writer.zeros(8));
    } else {
        writer.full(b"smhd", 0, 0, |writer| writer.zeros(4));
    }
    writer.boxed(b"dinf", |writer| {
        writer.full(b"dref", 0, 0, |writer| {
            writer.u32(1);
            writer.full(b"url ", 0, SAME_FILE, |_| {});
        });
    });
    writer.boxed(b"stbl", |writer| {
        writer.full(b"stsd", 0, 0, |writer| {
            writer.u32(1);
            description(writer, track);
        });
        for empty in [b"stts", b"stsc", b"stco"] {
            writer.full(empty, 0, 0, |writer| writer.u32(0));
        }
        writer.full(b"stsz", 0, 0, |writer| writer.zeros(8));
    });
}

fn description(writer: &mut BoxWriter, track: &Track) {
    // Parameter sets are only in the sample entry (`avc1`, `hvc1`) or also among the samples (`avc3`, `hev1`).
    let kinds = |sets: &[Box<[u8]>], here, anywhere| if sets.is_empty() { anywhere } else { here };
    match track.codec() {
        Codec::H264(h264) => {
            let kind = kinds(&h264.parameter_sets, b"avc1", b"avc3");
            video(writer, kind, h264.size_pixels, (b"avcC", &h264.configuration), track.pixel_aspect());
        }
        Codec::H265(h265) => {
            let kind = kinds(&h265.parameter_sets, b"hvc1", b"hev1");
            video(writer, kind, h265.size_pixels, (b"hvcC", &h265.configuration), track.pixel_aspect());
        }
        Codec::Aac(aac) => audio(writer, aac),
    }
}

fn video(
    writer: &mut BoxWriter,
    kind: &[u8; 4],
    (width, height): (u16, u16),
    (configuration_kind, configuration): (&[u8; 4], &[u8]),
    pixel_aspect: Option<(u32, u32)>,
) {
    writer.boxed(kind, |writer| {
        writer.zeros(6);
        writer.u16(1);
        writer.zeros(16);
        writer.u16(width);
        writer.u16(height);
        writer.u32(DOTS_PER_INCH);
        writer.u32(DOTS_PER_INCH);
        writer.zeros(4);
        writer.u16(1);
        writer.zeros(32);
        writer.u16(24);
        writer.u16(u16::MAX);
        writer.boxed(configuration_kind, |writer| writer.bytes(configuration));
        if let Some((wide, high)) = pixel_aspect {
            writer.boxed(b"pasp", |writer| {
                writer.u32(wide);
                writer.u32(high);
            });
        }
    });
}

fn audio(writer: &mut BoxWriter, aac: &Aac) {
    writer.boxed(b"mp4a", |writer| {
        writer.zeros(6);
        writer.u16(1);
        writer.zeros(8);
        writer.u16(aac.channels);
        writer.u16(16);
        writer.zeros(4);
        // 16.16 fixed point; a rate that does not fit is only in the decoder configuration.
        writer.u32(u16::try_from(aac.sample_rate).map_or(0, |rate| u32::from(rate) << 16));
        writer.full(b"esds", 0, 0, |writer| stream_descriptor(writer, &aac.configuration));
    });
}

/// The nested descriptors that hold a decoder's configuration (ISO/IEC 14496-1, 7.2.6).
fn stream_descriptor(writer: &mut BoxWriter, configuration: &[u8]) {
    const SYNC_LAYER: &[u8] = &[2];
    let specific = 5 + configuration.len();
    let decoder = 13 + specific;
    descriptor_head(writer, 3, 3 + 5 + decoder + 5 + SYNC_LAYER.len());
    writer.zeros(3);
    descriptor_head(writer, 4, decoder);
    // Object type MPEG-4 AAC, audio stream; buffer size and bit rates are left 0.
    writer.bytes(&[0x40, 0x15]);
    writer.zeros(11);
    descriptor_head(writer, 5, configuration.len());
    writer.bytes(configuration);
    descriptor_head(writer, 6, SYNC_LAYER.len());
    writer.bytes(SYNC_LAYER);
}

/// A descriptor's tag, and its length in four groups of seven bits.
fn descriptor_head(writer: &mut BoxWriter, tag: u8, length: usize) {
    writer.u8(tag);
    for shift in [21, 14, 7] {
        writer.u8((length >> shift & 0x7f) as u8 | 0x80);
    }
    writer.u8((length & 0x7f) as u8);
}
