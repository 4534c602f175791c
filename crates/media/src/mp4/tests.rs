//! The index of the example film, and the refusal of damaged and foreign files.

use std::time::Duration;

use super::example::{self, boxed, film, full, index, read, words};
use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

/// The example with the bytes `from`, which occur once, replaced by `to`.
fn changed(from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut film = film();
    let place = memchr::memmem::find(&film, from).expect("it is in the film");
    film[place..place + to.len()].copy_from_slice(to);
    film
}

fn refusal(film: &[u8]) -> String {
    read(film).expect_err("refused").to_string()
}

#[test]
fn tracks_and_their_coding() {
    let index = index();
    let [video, audio] = index.tracks() else { panic!("two tracks") };
    assert_eq!((video.id(), audio.id()), (1, 2));
    let Codec::H264(h264) = video.codec() else { panic!("H.264") };
    assert_eq!(
        (h264.profile_level, h264.length_bytes, h264.size_pixels),
        ([0x42, 0xc0, 0x0a], 4, (176, 144))
    );
    assert_eq!(h264.parameter_sets, [example::SPS.into(), example::PPS.into()]);
    let Codec::Aac(aac) = audio.codec() else { panic!("AAC") };
    assert_eq!((aac.object_type, aac.sample_rate, aac.channels), (2, 8000, 1));
    assert_eq!(&*aac.configuration, example::AAC_CONFIGURATION);
    assert_eq!((video.codec().clock_rate(), audio.codec().clock_rate()), (90_000, 8000));
    assert_eq!(index.duration(), Duration::from_secs(2));
}

#[test]
fn samples_lie_where_they_are() {
    let (film, index) = (film(), index());
    for (track, contents) in index.tracks().iter().zip([example::pictures(), example::sounds()]) {
        assert_eq!(track.sample_count() as usize, contents.len());
        for (sample, content) in track.samples_from(0).zip(contents) {
            assert_eq!(film[sample.offset as usize..sample.end() as usize], content);
        }
    }
}

#[test]
fn the_edit_list_makes_picture_and_sound_agree() {
    let index = index();
    let [video, audio] = index.tracks() else { panic!("two tracks") };
    let shown = |track: &Track, number| track.film_time(&track.sample(number).unwrap());
    assert_eq!(shown(video, 0), Duration::ZERO);
    // The second decoded picture is the fifth shown, 0.2 s each.
    assert_eq!(shown(video, 1), 800 * MILLISECOND);
    assert_eq!(shown(audio, 1), Duration::ZERO);
    assert_eq!(shown(audio, 2), 128 * MILLISECOND);
    assert_eq!(video.rtp_timestamp(&video.sample(1).unwrap()), 72_000);
    assert_eq!(audio.rtp_timestamp(&audio.sample(0).unwrap()), 1024_u32.wrapping_neg());
}

#[test]
fn what_the_edit_list_cuts_from_the_end_is_left_out_unless_decoding_needs_it() {
    let edited = |begin: u32, milliseconds: u32| {
        let edit = |duration| words(&[1, duration, begin, 1 << 16]);
        read(&changed(&edit(0), &edit(milliseconds))).unwrap()
    };
    // Three pictures, and the fifth, which is decoded before the second and the third.
    let index = edited(18_000, 600);
    let video = &index.tracks()[0];
    assert_eq!((video.sample_count(), video.keyframe_after(0)), (4, None));
    assert_eq!(video.sample(3).unwrap().duration_ticks, 18_000);
    assert_eq!(video.duration(), 1000 * MILLISECOND);
    for (milliseconds, count) in [(1, 1), (1000, 5), (1001, 6), (2000, 10), (u32::MAX, 10)] {
        let index = edited(18_000, milliseconds);
        assert_eq!(index.tracks()[0].sample_count(), count, "{milliseconds}");
    }
    let index = edited(1024, 300);
    let audio = &index.tracks()[1];
    assert_eq!((audio.sample_count(), audio.duration()), (4, 384 * MILLISECOND));
}

#[test]
fn a_channel_layout_is_not_a_number_of_channels() {
    for (layout, channels) in [(1, 1), (6, 6), (7, 8), (11, 7), (12, 8), (13, 24), (14, 8)] {
        let film = changed(example::AAC_CONFIGURATION, &[0x15, 0x80 | layout << 3]);
        let index = read(&film).unwrap();
        let Codec::Aac(aac) = index.tracks()[1].codec() else { panic!("AAC") };
        assert_eq!(aac.channels, channels, "{layout}");
    }
}

#[test]
fn samples_are_due_in_order_and_none_before_the_start() {
    let index = index();
    assert_eq!(index.lead(), 200 * MILLISECOND);
    for track in index.tracks() {
        let due: Vec<_> = track.samples_from(0).map(|sample| index.due_time(track, &sample)).collect();
        assert!(due.is_sorted(), "{due:?}");
        for sample in track.samples_from(0) {
            let latest = track.film_time(&sample) + index.lead();
            assert!(index.due_time(track, &sample) <= latest, "{sample:?}");
        }
    }
    let [video, audio] = index.tracks() else { panic!("two tracks") };
    assert_eq!(index.due_time(video, &video.sample(0).unwrap()), Duration::ZERO);
    assert_eq!(index.due_time(audio, &audio.sample(0).unwrap()), 72 * MILLISECOND);
}

#[test]
fn seeking_finds_what_is_shown_and_where_decoding_can_begin() {
    let index = index();
    let [video, audio] = index.tracks() else { panic!("two tracks") };
    // In display order: decoding numbers 0, 2, 3, 4, 1.
    for (tenths, number) in [(0, 0), (1, 0), (2, 2), (4, 3), (6, 4), (8, 1), (9, 1), (10, 5), (99, 6)] {
        assert_eq!(video.sample_at(100 * MILLISECOND * tenths), number, "{tenths}");
    }
    for (tenths, number) in [(0, 0), (9, 0), (10, 5), (99, 5)] {
        assert_eq!(video.keyframe_at_or_before(100 * MILLISECOND * tenths), number, "{tenths}");
    }
    assert_eq!((video.keyframe_after(0), video.keyframe_after(5)), (Some(5), None));
    assert_eq!(audio.keyframe_at_or_before(300 * MILLISECOND), audio.sample_at(300 * MILLISECOND));
    assert_eq!((audio.keyframe_after(3), audio.keyframe_after(15)), (Some(4), None));
    for sample in audio.samples_from(1) {
        assert_eq!(audio.sample_at(audio.film_time(&sample)), sample.number);
    }
}

#[test]
fn what_is_not_streamed_is_named() {
    for (from, to, says) in [
        (b"avc1", b"av01", "track 1 is video coded as AV1 (av01)"),
        (b"avc1", b"what", "track 1 is video coded as what"),
        (b"mp4a", b"ac-3", "track 2 is audio coded as Dolby Digital (ac-3)"),
    ] {
        let refusal = refusal(&changed(from, to));
        assert!(refusal.starts_with(says), "{refusal}");
    }
    let mp3 = refusal(&changed(&[4, 17, 0x40, 0x15], &[4, 17, 0x6b, 0x15]));
    assert!(mp3.starts_with("track 2 is audio coded as MP3 (mp4a.6b)"), "{mp3}");
    let unusual = refusal(&changed(example::AAC_CONFIGURATION, &[0xbd, 0x88]));
    assert!(unusual.contains("AAC of another kind (mp4a.40.23)"), "{unusual}");
}

#[test]
fn fragments_foreign_files_and_cut_files_are_told_apart() {
    let fragmented = [example::header(), boxed(b"moov", &[&boxed(b"mvex", &[])])].concat();
    assert!(matches!(read(&fragmented), Err(Mp4Error::Fragmented { .. })));
    let fragment = [example::header(), boxed(b"moof", &[])].concat();
    assert!(matches!(read(&fragment), Err(Mp4Error::Fragmented { offset: 16, .. })));
    for foreign in [b"".as_slice(), b"RIFF", b"RIFF....AVI LIST", &[0x1a, 0x45, 0xdf, 0xa3, 0, 0, 0, 0, 0]] {
        assert!(matches!(read(foreign), Err(Mp4Error::Foreign)), "{foreign:?}");
    }
    let film = film();
    let cut = refusal(&film[..film.len() / 2]);
    assert!(cut.starts_with("box mdat") && cut.contains("extends beyond its end"), "{cut}");
    assert!(matches!(read(&film[..16]), Err(Mp4Error::NoMovie { size_bytes: 16 })));
    let silent = [example::header(), example::movie(&[])].concat();
    assert!(matches!(read(&silent), Err(Mp4Error::NoTracks)));
}

#[test]
fn a_sample_beyond_the_end_is_told_with_its_place() {
    let first = words(&[example::SAMPLES_OFFSET as u32]);
    let beyond = refusal(&changed(&[&words(&[1]), &first[..]].concat(), &words(&[1, 1 << 30])));
    assert!(beyond.contains("sample 0 of track 1") && beyond.contains("at byte 1073741824"), "{beyond}");
}

#[test]
fn a_few_bytes_cannot_promise_much() {
    // A common sample size: four bytes give the number of samples.
    let many = |count: u32| {
        let table = [
            video_description(),
            full(b"stts", 0, &[&words(&[1, count, 1])]),
            full(b"stsc", 0, &[&words(&[1, 1, count, 1])]),
            full(b"stsz", 0, &[&words(&[0, count])]),
            full(b"stco", 0, &[&words(&[1, 0])]),
        ];
        let track = example::track(1, b"vide", 1000, &[0, 0], &table.concat());
        [example::header(), example::movie(&[track])].concat()
    };
    assert!(refusal(&many(u32::MAX)).contains("content of box stsz"));
    let mut empty = many(SAMPLES_MAX as u32 + 1);
    let sizes = empty.windows(4).position(|kind| kind == b"stsz").unwrap();
    // 1 byte per sample.
    empty[sizes + 11] = 1;
    assert!(refusal(&empty).contains("at most 2097152 are allowed"));
}

/// A film of four samples of 3, 5, 7 and 9 bytes, described by these tables of sizes, chunks and samples per chunk.
fn told_by(sizes: &[u8], chunks: &[u8], runs: &[u32]) -> Vec<u8> {
    let table = [
        video_description(),
        full(b"stts", 0, &[&words(&[1, 4, 40])]),
        full(b"stsc", 0, &[&words(runs)]),
        sizes.to_vec(),
        chunks.to_vec(),
    ];
    let track = example::track(1, b"vide", 1000, &[0, 0], &table.concat());
    [example::header(), boxed(b"mdat", &[&[0; 64]]), example::movie(&[track])].concat()
}

#[test]
fn tables_of_every_width_say_the_same() {
    let first = example::SAMPLES_OFFSET as u32;
    let sizes = [
        full(b"stsz", 0, &[&words(&[0, 4, 3, 5, 7, 9])]),
        full(b"stz2", 0, &[&words(&[4, 4]), &[0x35, 0x79]]),
        full(b"stz2", 0, &[&words(&[8, 4]), &[3, 5, 7, 9]]),
        full(b"stz2", 0, &[&words(&[16, 4]), &[0, 3, 0, 5, 0, 7, 0, 9]]),
    ];
    let chunks = [
        // Chunks of one, one and two samples; the last chunk comes first in the file.
        full(b"stco", 0, &[&words(&[3, first + 40, first + 20, first])]),
        full(b"co64", 0, &[&words(&[3, 0, first + 40, 0, first + 20, 0, first])]),
    ];
    for sizes in &sizes {
        for chunks in &chunks {
            let index = read(&told_by(sizes, chunks, &[2, 1, 1, 1, 3, 2, 1])).unwrap();
            let places = index.tracks()[0].samples_from(0).map(|it| (it.offset - u64::from(first), it.size));
            assert_eq!(places.collect::<Vec<_>>(), [(40, 3), (20, 5), (0, 7), (7, 9)]);
            assert!(index.tracks()[0].is_sync(3), "without a table, all are");
        }
    }
    let short = refusal(&told_by(&sizes[0], &chunks[0], &[1, 1, 1, 1]));
    assert!(short.contains("track 1 has 4 samples, but places of only 3"), "{short}");
    let other = refusal(&told_by(&sizes[0], &chunks[0], &[2, 1, 1, 1, 3, 2, 2]));
    assert!(other.contains("a track that changes its coding midway"), "{other}");
    let odd = refusal(&told_by(&full(b"stz2", 0, &[&words(&[5, 4]), &[0; 4]]), &chunks[0], &[1, 1, 2, 1]));
    assert!(odd.contains("sizes of 5 bits"), "{odd}");
}

fn video_description() -> Vec<u8> {
    let track = example::video_track(&example::pictures());
    let start = track.windows(4).position(|kind| kind == b"stsd").unwrap() - 4;
    let length = u32::from_be_bytes(track[start..start + 4].try_into().unwrap()) as usize;
    track[start..start + length].to_vec()
}

#[test]
fn times_beyond_reason_are_refused() {
    let late = words(&[1, 10, 18_000]);
    assert!(read(&changed(&late, &words(&[1, 10, u32::MAX]))).is_ok());
    let few = refusal(&changed(&late, &words(&[1, 9, 18_000])));
    assert!(few.contains("box stts has the times of 9 of 10 samples"), "{few}");
    let fast = refusal(&changed(&words(&[0, 0, 90_000]), &words(&[0, 0, u32::MAX])));
    assert!(fast.contains("at most 1000000000 are allowed"), "{fast}");
    let never = refusal(&changed(&words(&[0, 0, 90_000]), &words(&[0, 0, 0])));
    assert!(never.contains("box mdhd has 0 units a second"), "{never}");
    let cut = refusal(&changed(&words(&[1, 0, 1024, 1 << 16]), &words(&[1, 0, 1024, 2 << 16])));
    assert!(cut.contains("the edit list of track 2"), "{cut}");
}

/// With any byte of the index changed, or the file cut anywhere, the result is either a refusal or an index whose
/// samples lie in the file in order of time.
#[test]
#[cfg_attr(miri, ignore = "it takes minutes")]
fn no_damage_gets_through() {
    let film = film();
    let index_start = film.windows(4).position(|kind| kind == b"moov").unwrap() - 4;
    for end in (0..film.len()).step_by(7) {
        assert!(read(&film[..end]).is_err(), "{end}");
    }
    for place in index_start..film.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, film[place] ^ 4] {
            let mut damaged = film.clone();
            damaged[place] = value;
            let Ok(index) = read(&damaged) else { continue };
            for track in index.tracks() {
                let samples: Vec<_> = track.samples_from(0).collect();
                assert!(samples.iter().all(|sample| sample.end() <= film.len() as u64));
                assert!(samples.is_sorted_by_key(|sample| sample.decode_ticks));
                track.keyframe_at_or_before(Duration::MAX);
                index.due_time(track, &samples[0]);
            }
        }
    }
}
