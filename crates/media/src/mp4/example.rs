//! Small films for tests, also those of other crates, with every box written as a muxer would.
//!
//! Two seconds of H.264 at 5 pictures a second, whose display order differs from the decoding order, and of AAC at 8
//! kHz.

use super::Index;

pub fn boxed(kind: &[u8; 4], content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    [&(content.len() as u32 + 8).to_be_bytes()[..], kind, &content].concat()
}

/// A full box: with version and flags.
pub fn full(kind: &[u8; 4], version: u8, content: &[&[u8]]) -> Vec<u8> {
    boxed(kind, &[&[version, 0, 0, 0], &content.concat()])
}

pub fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

pub const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x0a, 0xda, 0x7b];
pub const PPS: &[u8] = &[0x68, 0xce, 0x3c, 0x80];

/// AAC-LC, 8 kHz, one channel.
pub const AAC_CONFIGURATION: &[u8] = &[0x15, 0x88];

/// The offset of the first sample in the example file: after `ftyp` and the head of `mdat`.
pub const SAMPLES_OFFSET: u64 = 16 + 8;

const PICTURES: u32 = 10;

/// The example's pictures: one NAL unit each, two in the first of each group.
pub fn pictures() -> Vec<Vec<u8>> {
    some_pictures(PICTURES)
}

fn some_pictures(count: u32) -> Vec<Vec<u8>> {
    let unit = |kind: u8, length: usize| {
        [&(length as u32).to_be_bytes()[..], &[kind], &vec![kind ^ 0x55; length - 1]].concat()
    };
    let picture = |number: u32| match number % 5 {
        0 => [unit(0x06, 9), unit(0x65, 3000)].concat(),
        _ => unit(0x41, 100 + number as usize),
    };
    (0..count).map(picture).collect()
}

/// The example's sound: 16 access units, together 2.048 s.
pub fn sounds() -> Vec<Vec<u8>> {
    some_sounds(16)
}

fn some_sounds(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![number; 40 + usize::from(number)]).collect()
}

/// The complete film: `ftyp`, samples, index.
pub fn film() -> Vec<u8> {
    film_of(&pictures(), &sounds())
}

/// A film of this length, at most 30 s.
pub fn film_of_seconds(seconds: u8) -> Vec<u8> {
    // 8 access units last 1.024 s.
    film_of(&some_pictures(5 * u32::from(seconds)), &some_sounds(8 * seconds))
}

fn film_of(pictures: &[Vec<u8>], sounds: &[Vec<u8>]) -> Vec<u8> {
    let samples = [pictures.concat(), sounds.concat()].concat();
    let tracks = [video_track(pictures), audio_track(sounds, pictures.concat().len() as u32)];
    [header(), boxed(b"mdat", &[&samples]), movie(&tracks)].concat()
}

pub fn index() -> Index {
    read(&film()).expect("the example is sound")
}

pub fn read(film: &[u8]) -> Result<Index, super::Mp4Error> {
    Index::read(film.len() as u64, |offset, into| {
        let rest = film.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    })
}

pub fn header() -> Vec<u8> {
    boxed(b"ftyp", &[b"isom\0\0\0\0"])
}

pub fn movie(tracks: &[Vec<u8>]) -> Vec<u8> {
    boxed(b"moov", &[&full(b"mvhd", 0, &[&words(&[0, 0, 1000, 2048]), &[0; 80]]), &tracks.concat()])
}

pub fn video_track(pictures: &[Vec<u8>]) -> Vec<u8> {
    let configuration =
        [&[1, 0x42, 0xc0, 0x0a, 0xff, 0xe1, 0, SPS.len() as u8][..], SPS, &[1, 0, PPS.len() as u8], PPS];
    let size = [0, 176, 0, 144];
    let entry = [&[0; 24][..], &size, &[0; 50], &boxed(b"avcC", &configuration)];
    let (count, groups) = (pictures.len() as u32, pictures.len() as u32 / 5);
    let keyframes: Vec<u32> = (0..groups).map(|group| 5 * group + 1).collect();
    // Decoded as I P B B B, shown as I B B B P.
    let order = [1, 18_000, 1, 72_000, 3, 0].repeat(groups as usize);
    let table = [
        full(b"stsd", 0, &[&words(&[1]), &boxed(b"avc1", &entry)]),
        full(b"stts", 0, &[&words(&[1, count, 18_000])]),
        full(b"ctts", 0, &[&words(&[3 * groups]), &words(&order)]),
        full(b"stss", 0, &[&words(&[groups]), &words(&keyframes)]),
        full(b"stsc", 0, &[&words(&[1, 1, count, 1])]),
        sizes(pictures),
        full(b"stco", 0, &[&words(&[1, SAMPLES_OFFSET as u32])]),
    ];
    // The film begins when the first picture is shown.
    track(1, b"vide", 90_000, &[0, 18_000], &table.concat())
}

pub fn audio_track(sounds: &[Vec<u8>], video_bytes: u32) -> Vec<u8> {
    let specific = [&[5, AAC_CONFIGURATION.len() as u8], AAC_CONFIGURATION].concat();
    let decoder = [&[4, 13 + specific.len() as u8, 0x40, 0x15][..], &[0; 11], &specific].concat();
    let stream = [&[3, 3 + decoder.len() as u8, 0, 1, 0][..], &decoder].concat();
    let rate = words(&[8000 << 16]);
    let entry = [&[0; 16][..], &[0, 1, 0, 16, 0, 0, 0, 0], &rate, &full(b"esds", 0, &[&stream])];
    let count = sounds.len() as u32;
    let mut chunk = SAMPLES_OFFSET as u32 + video_bytes;
    let mut chunks = vec![count / 8];
    for sounds in sounds.chunks(8) {
        chunks.push(chunk);
        chunk += sounds.concat().len() as u32;
    }
    let table = [
        full(b"stsd", 0, &[&words(&[1]), &boxed(b"mp4a", &entry)]),
        full(b"stts", 0, &[&words(&[1, count, 1024])]),
        full(b"stsc", 0, &[&words(&[1, 1, 8, 1])]),
        sizes(sounds),
        full(b"stco", 0, &[&words(&chunks)]),
    ];
    track(2, b"soun", 8000, &[0, 1024], &table.concat())
}

fn sizes(samples: &[Vec<u8>]) -> Vec<u8> {
    let sizes: Vec<u32> = samples.iter().map(|sample| sample.len() as u32).collect();
    full(b"stsz", 0, &[&words(&[0, sizes.len() as u32]), &words(&sizes)])
}

/// A track with one edit: its duration, and the position in the track where it begins.
pub fn track(id: u32, handler: &[u8; 4], timescale: u32, edit: &[u32; 2], table: &[u8]) -> Vec<u8> {
    let header = full(b"tkhd", 0, &[&words(&[0, 0, id]), &[0; 68]]);
    let edits = full(b"elst", 0, &[&words(&[1, edit[0], edit[1], 1 << 16])]);
    let media_header = full(b"mdhd", 0, &[&words(&[0, 0, timescale, 0, 0])]);
    let media_handler = full(b"hdlr", 0, &[&words(&[0]), handler, &[0; 13]]);
    let media = [&media_header[..], &media_handler, &boxed(b"minf", &[&boxed(b"stbl", &[table])])];
    boxed(b"trak", &[&header, &boxed(b"edts", &[&edits]), &boxed(b"mdia", &media)])
}
