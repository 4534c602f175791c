//! Reads a film's segments back: every sample once, in order, at its time.

use std::time::Duration;

use super::*;
use crate::mp4::example;

/// 26 s of video, cut at 6, 12, 18 and 24 s.
const SECONDS: u8 = 26;

fn film() -> (Vec<u8>, Film) {
    let bytes = example::film_of_seconds(SECONDS);
    let film = Film::new(example::read(&bytes).unwrap()).unwrap();
    (bytes, film)
}

fn content(film: &[u8], segment: &Segment) -> Vec<u8> {
    let mut bytes = segment.head.clone();
    segment.ranges.iter().for_each(|range| bytes.extend(&film[range.start as usize..range.end as usize]));
    assert_eq!(bytes.len() as u64, segment.size());
    bytes
}

/// The contents of the boxes of `kind` directly within `bytes`.
fn boxes<'a>(mut bytes: &'a [u8], kind: &[u8; 4]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (content, rest) = bytes.split_at(word(bytes, 0) as usize);
        if content[4..8] == *kind {
            found.push(&content[8..]);
        }
        bytes = rest;
    }
    found
}

fn word(bytes: &[u8], place: usize) -> u32 {
    u32::from_be_bytes(bytes[place..place + 4].try_into().unwrap())
}

#[test]
fn the_playlist_says_where_the_film_is_cut() {
    let (_, film) = film();
    let segments: String = (0..4).map(|number| format!("#EXTINF:6.000000,\n{number}.m4s\n")).collect();
    let expected = format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init.mp4\"\n{segments}#EXTINF:2.496000,\n4.m4s\n#EXT-X-ENDLIST\n"
    );
    assert_eq!(film.playlist(), expected);
    assert_eq!(film.segment_count(), 5);
    assert_eq!(film.segment(5), None);
}

#[test]
fn segments_hold_every_sample_once_and_when_it_is_due() {
    let (bytes, film) = film();
    let mut next = [0; 2];
    for number in 0..film.segment_count() as u32 {
        let content = content(&bytes, &film.segment(number).unwrap());
        let moof = boxes(&content, b"moof")[0];
        assert_eq!(word(boxes(moof, b"mfhd")[0], 4), number + 1);
        for (place, traf) in boxes(moof, b"traf").into_iter().enumerate() {
            let (track, run) = (&film.index().tracks()[place], boxes(traf, b"trun")[0]);
            assert_eq!(word(boxes(traf, b"tfhd")[0], 4) as usize, place + 1);
            let decode = word(boxes(traf, b"tfdt")[0], 8) as u64;
            let first = track.sample(next[place]).unwrap();
            let due = film.index().due_time(track, &first);
            assert_eq!(Duration::from_secs(decode) / track.timescale(), due);
            let mut offset = word(run, 8) as usize;
            for entry in run[12..].chunks(16) {
                let sample = track.sample(next[place]).unwrap();
                assert_eq!([word(entry, 0), word(entry, 4)], [sample.duration_ticks as u32, sample.size]);
                assert_eq!(word(entry, 8) == 0x0200_0000, sample.is_sync);
                assert_eq!(word(entry, 12) as i32, sample.composition_ticks);
                let size = sample.size as usize;
                assert_eq!(content[offset..offset + size], bytes[sample.offset as usize..][..size]);
                offset += size;
                next[place] += 1;
            }
        }
    }
    assert_eq!(next, [5 * u32::from(SECONDS), 8 * u32::from(SECONDS)]);
}

#[test]
#[cfg_attr(miri, ignore = "it takes minutes")]
fn what_is_cut_from_the_start_is_left_out_up_to_the_last_keyframe() {
    let mut bytes = example::film_of_seconds(SECONDS);
    let lists = bytes.windows(4).enumerate().filter(|(_, kind)| *kind == b"elst");
    let starts: Vec<usize> = lists.map(|(place, _)| place + 16).collect();
    for (start, timescale) in starts.into_iter().zip([90_000, 8_000]) {
        bytes[start..start + 4].copy_from_slice(&example::words(&[timescale * 5 / 2]));
    }
    let film = Film::new(example::read(&bytes).unwrap()).unwrap();
    // The keyframe before 2.5 s, and audio from there with the block before it.
    assert_eq!(film.cuts[0].samples, [10, 16]);
    let content = content(&bytes, &film.segment(0).unwrap());
    let times: Vec<u32> = boxes(boxes(&content, b"moof")[0], b"traf")
        .into_iter()
        .map(|traf| word(boxes(traf, b"tfdt")[0], 8))
        .collect();
    assert_eq!(times[0], 0);
    // 16 audio blocks last 2.048 s; the picture is decoded at 2 s.
    assert_eq!(times[1], 384);
    let seconds: f64 = film
        .playlist()
        .lines()
        .filter_map(|line| line.strip_prefix("#EXTINF:")?.strip_suffix(',')?.parse::<f64>().ok())
        .sum();
    assert!((seconds - 24.496).abs() < 0.3, "{seconds}");
}

#[test]
fn every_segment_begins_with_a_keyframe() {
    let (_, film) = film();
    for cut in &film.cuts[..film.segment_count()] {
        assert!(film.index().tracks()[0].is_sync(cut.samples[0]), "{cut:?}");
    }
}

#[test]
fn the_initialisation_says_how_the_tracks_are_coded() {
    let (_, film) = film();
    let bytes = film.initialisation();
    let moov = boxes(&bytes, b"moov")[0];
    assert_eq!(boxes(boxes(moov, b"mvex")[0], b"trex").len(), 2);
    for (trak, wanted) in boxes(moov, b"trak").into_iter().zip([example::SPS, example::AAC_CONFIGURATION]) {
        let media = boxes(trak, b"mdia")[0];
        let table = boxes(boxes(media, b"minf")[0], b"stbl")[0];
        let description = boxes(table, b"stsd")[0];
        assert!(description.windows(wanted.len()).any(|window| window == wanted));
    }
    // Our own reader accepts it up to the box that makes it fragmented.
    assert!(matches!(example::read(&bytes), Err(crate::mp4::Mp4Error::Fragmented { .. })));
}

#[test]
fn parts_have_one_name() {
    for part in [Part::Playlist, Part::Initialisation, Part::Segment(0), Part::Segment(u32::MAX)] {
        assert_eq!(Part::named(&part.name()), Some(part));
    }
    for name in ["", ".m4s", "00.m4s", "+1.m4s", "-1.m4s", "4294967296.m4s", "index.M3U8", "1.ts"] {
        assert_eq!(Part::named(name), None, "{name}");
    }
}
