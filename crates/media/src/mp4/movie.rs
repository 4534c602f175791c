//! Reads a file's index: finds `moov`, then reads its tracks.

use std::io;

use super::FourCc;
use super::audio::{self, AudioEntry};
use super::boxes::Reader;
use super::codec::Codec;
use super::error::{Mp4Error, REMUX};
use super::index::{Index, Track, shown_until};
use super::video::{self, codec_name};
use super::{EDITS_MAX, MOVIE_BYTES_MAX, OUTER_BOXES_MAX, TICKS_MAX, TIMESCALE_MAX, TRACKS_MAX, tables};

/// Bytes of a box header with a 64-bit size.
const LONG_HEAD_BYTES: usize = 16;

/// Bytes of `tkhd` between duration and matrix: reserved, layer, group, volume.
const TRACK_LAYOUT_BYTES: usize = 16;

/// The boxes with which files begin.
const FIRST_BOXES: [&[u8; 4]; 9] =
    [b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"styp", b"moof"];

impl Index {
    /// Reads the index of a file of `file_bytes`. `read_at` reads at an offset until the slice is full or the file
    /// ends, and returns the number of bytes read.
    pub fn read(
        file_bytes: u64,
        read_at: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> Result<Index, Mp4Error> {
        let (offset, movie) = Outer { file_bytes, read_at }.movie()?;
        tracks(Reader::new(FourCc(*b"moov"), &movie, offset), file_bytes)
    }
}

struct Outer<R> {
    file_bytes: u64,
    read_at: R,
}

impl<R: FnMut(u64, &mut [u8]) -> io::Result<usize>> Outer<R> {
    /// The content of `moov` and its offset in the file.
    fn movie(&mut self) -> Result<(u64, Vec<u8>), Mp4Error> {
        let mut offset = 0;
        for _ in 0..OUTER_BOXES_MAX {
            if self.file_bytes.saturating_sub(offset) < 8 {
                // QuickTime files may end with a terminator.
                return Err(if offset == 0 { Mp4Error::Foreign } else { self.no_movie() });
            }
            let head = self.head(offset)?;
            if offset == 0 && !FIRST_BOXES.iter().any(|kind| **kind == head.kind.0) {
                return Err(Mp4Error::Foreign);
            }
            let end = offset.saturating_add(head.bytes);
            match &head.kind.0 {
                b"moof" | b"sidx" => return Err(Mp4Error::Fragmented { kind: head.kind, offset }),
                b"moov" => {
                    let content = head.bytes - head.head_bytes;
                    if content > MOVIE_BYTES_MAX {
                        let what = format!("box moov of {content} bytes");
                        return Err(Mp4Error::TooMuch { what, offset, limit: MOVIE_BYTES_MAX });
                    }
                    self.check_end(&head, offset, end)?;
                    let start = offset + head.head_bytes;
                    let mut movie = vec![0; content as usize];
                    self.fill(start, &mut movie, "box moov")?;
                    return Ok((start, movie));
                }
                // If the box is cut off, no index can follow it.
                _ => self.check_end(&head, offset, end)?,
            }
            offset = end;
        }
        let what = "more outermost boxes without a moov among them".to_owned();
        Err(Mp4Error::TooMuch { what, offset, limit: OUTER_BOXES_MAX as u64 })
    }

    fn head(&mut self, offset: u64) -> Result<Head, Mp4Error> {
        let mut bytes = [0; LONG_HEAD_BYTES];
        let length = LONG_HEAD_BYTES.min((self.file_bytes - offset) as usize);
        self.fill(offset, &mut bytes[..length], "a box's head")?;
        let mut reader = Reader::new(FourCc(*b"file"), &bytes[..length], offset);
        let size = reader.u32()?;
        let kind = FourCc(reader.array()?);
        let (bytes, head_bytes) = match size {
            0 => (self.file_bytes - offset, 8),
            1 => (reader.u64()?, LONG_HEAD_BYTES as u64),
            size => (u64::from(size), 8),
        };
        if bytes < head_bytes {
            let what = format!("box {kind} is smaller than its own head");
            return Err(Mp4Error::Malformed { what, offset });
        }
        Ok(Head { kind, bytes, head_bytes })
    }

    fn check_end(&self, head: &Head, offset: u64, end: u64) -> Result<(), Mp4Error> {
        match end <= self.file_bytes {
            true => Ok(()),
            false => {
                let what = format!("box {} (of a file of {} bytes)", head.kind, self.file_bytes);
                Err(Mp4Error::Truncated { what, offset, end })
            }
        }
    }

    fn fill(&mut self, offset: u64, into: &mut [u8], what: &str) -> Result<(), Mp4Error> {
        let mut filled = 0;
        while filled < into.len() {
            let place = offset + filled as u64;
            match (self.read_at)(place, &mut into[filled..]) {
                Ok(0) => {
                    let end = offset + into.len() as u64;
                    return Err(Mp4Error::Truncated { what: what.to_owned(), offset, end });
                }
                Ok(count) => filled += count.min(into.len() - filled),
                Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Mp4Error::Read { offset: place, source }),
            }
        }
        Ok(())
    }

    fn no_movie(&self) -> Mp4Error {
        Mp4Error::NoMovie { size_bytes: self.file_bytes }
    }
}

struct Head {
    kind: FourCc,
    bytes: u64,
    head_bytes: u64,
}

fn tracks(movie: Reader<'_>, file_bytes: u64) -> Result<Index, Mp4Error> {
    if let Some(extends) = movie.find(b"mvex")? {
        return Err(Mp4Error::Fragmented { kind: extends.kind, offset: extends.offset() });
    }
    if let Some(compressed) = movie.find(b"cmov")? {
        let what = "a compressed index (box cmov)".to_owned();
        return Err(Mp4Error::Unsupported { what, offset: compressed.offset(), hint: REMUX });
    }
    let movie_timescale = timescale(movie.require(b"mvhd")?)?;
    let (mut tracks, mut count, mut taken) = (Vec::new(), 0, 0);
    for child in movie.children() {
        let child = child?;
        if child.kind.0 != *b"trak" {
            continue;
        }
        count += 1;
        if count > TRACKS_MAX {
            let what = format!("track number {count}");
            return Err(Mp4Error::TooMuch { what, offset: child.offset(), limit: TRACKS_MAX as u64 });
        }
        if let Some(track) = track(child, movie_timescale, file_bytes, taken)? {
            taken += track.samples.len();
            tracks.push(track);
        }
    }
    if tracks.is_empty() { Err(Mp4Error::NoTracks) } else { Ok(Index::new(tracks)) }
}

/// The track in `trak`; `None` if it is neither video nor audio, or has no samples.
fn track(
    trak: Reader<'_>,
    movie_timescale: u32,
    file_bytes: u64,
    taken: usize,
) -> Result<Option<Track>, Mp4Error> {
    let TrackHeader { id, matrix } = track_header(trak.require(b"tkhd")?)?;
    let media = trak.require(b"mdia")?;
    let mut handler = media.require(b"hdlr")?;
    handler.take(8)?;
    let is_video = match &handler.array()? {
        b"vide" => true,
        b"soun" => false,
        _ => return Ok(None),
    };
    let timescale = timescale(media.require(b"mdhd")?)?;
    let table = media.require(b"minf")?.require(b"stbl")?;
    let (codec, pixel_aspect) = coding(table.require(b"stsd")?, id, is_video)?;
    let mut samples = tables::read(table, id, file_bytes, taken)?;
    if samples.samples.is_empty() {
        return Ok(None);
    }
    let Edit { start_ticks, end_ticks: shown_end } = match trak.find(b"edts")? {
        Some(edits) => match edits.find(b"elst")? {
            Some(list) => edit(list, id, timescale, movie_timescale)?,
            None => Edit::default(),
        },
        None => Edit::default(),
    };
    if let Some(end) = shown_end {
        samples.cut_off(end);
    }
    let tables::Samples { samples, keyframes, end_ticks } = samples;
    let shown_until_ticks = shown_until(&samples, end_ticks);
    Ok(Some(Track {
        id,
        codec,
        timescale,
        start_ticks,
        pixel_aspect,
        matrix,
        samples,
        keyframes,
        end_ticks,
        shown_until_ticks,
    }))
}

struct TrackHeader {
    id: u32,
    matrix: [u32; 9],
}

fn track_header(mut header: Reader<'_>) -> Result<TrackHeader, Mp4Error> {
    let is_wide = header.version()? == 1;
    header.time(is_wide)?;
    header.time(is_wide)?;
    let id = header.u32()?;
    header.u32()?;
    let _duration = header.time(is_wide)?;
    header.take(TRACK_LAYOUT_BYTES)?;
    let mut matrix = [0; 9];
    for value in &mut matrix {
        *value = header.u32()?;
    }
    Ok(TrackHeader { id, matrix })
}

/// The timescale in `mvhd` or `mdhd`.
fn timescale(mut header: Reader<'_>) -> Result<u32, Mp4Error> {
    let is_wide = header.version()? == 1;
    header.time(is_wide)?;
    header.time(is_wide)?;
    match header.u32()? {
        0 => Err(header.malformed(format!("box {} has 0 units a second", header.kind))),
        units if units > TIMESCALE_MAX => {
            let what = format!("{units} units a second in box {}", header.kind);
            Err(Mp4Error::TooMuch { what, offset: header.offset(), limit: u64::from(TIMESCALE_MAX) })
        }
        units => Ok(units),
    }
}

/// The track's codec: the first entry of `stsd`.
fn coding(mut entries: Reader<'_>, id: u32, is_video: bool) -> Result<(Codec, Option<(u32, u32)>), Mp4Error> {
    entries.version()?;
    entries.u32()?;
    let Some(entry) = entries.children().next().transpose()? else {
        return Err(entries.malformed(format!("track {id} has no entry in box stsd")));
    };
    let other = |codec| Mp4Error::Codec { track: id, codec, offset: entry.offset() };
    if is_video {
        match video::read(entry)? {
            Some(video) => Ok((video.codec, video.pixel_aspect)),
            None => Err(other(codec_name(entry.kind, "video"))),
        }
    } else {
        match audio::read(entry)? {
            Some(AudioEntry::Aac(aac)) => Ok((Codec::Aac(aac), None)),
            Some(AudioEntry::Other(name)) => Err(other(name)),
            None => Err(other(codec_name(entry.kind, "audio"))),
        }
    }
}

/// The part of a track that its edit list shows, in presentation times of the track.
#[derive(Default)]
struct Edit {
    /// Where the film begins: positive if the track's start is cut off, negative if the track starts later.
    start_ticks: i64,
    /// Where the track ends, if the list says so.
    end_ticks: Option<i64>,
}

/// The edit list: the film may begin before the track, and may skip the track's start and its end. Cuts within the film
/// are refused.
fn edit(mut list: Reader<'_>, id: u32, timescale: u32, movie_timescale: u32) -> Result<Edit, Mp4Error> {
    let is_wide = list.version()? == 1;
    let offset = list.offset();
    let count = list.count(if is_wide { 20 } else { 12 })?;
    if count > EDITS_MAX {
        let what = format!("an edit list of {count} entries");
        return Err(Mp4Error::TooMuch { what, offset, limit: EDITS_MAX as u64 });
    }
    let (mut delay, mut shown) = (0_u64, None);
    for _ in 0..count {
        let duration = list.time(is_wide)?;
        let media_time = if is_wide { list.u64()? as i64 } else { i64::from(list.u32()? as i32) };
        let rate = list.u32()?;
        match (shown, media_time) {
            (None, -1) => delay = delay.saturating_add(duration),
            (None, 0..) if rate == 1 << 16 => shown = Some((media_time as u64, duration)),
            _ => {
                let what =
                    format!("the edit list of track {id}, which cuts within the film or changes its speed,");
                return Err(Mp4Error::Unsupported { what, offset, hint: REENCODE });
            }
        }
    }
    let in_track = |duration: u64| u128::from(duration) * u128::from(timescale) / u128::from(movie_timescale);
    let (begin, duration) = shown.unwrap_or((0, 0));
    let delay = in_track(delay);
    if delay > u128::from(TICKS_MAX) || begin > TICKS_MAX {
        let what = format!("a time of {} units in the edit list of track {id}", delay.max(u128::from(begin)));
        return Err(Mp4Error::TooMuch { what, offset, limit: TICKS_MAX });
    }
    // Without a duration it goes on to the track's end.
    let end = (duration > 0).then(|| u128::from(begin) + in_track(duration));
    Ok(Edit {
        start_ticks: begin as i64 - delay as i64,
        end_ticks: end.and_then(|end| i64::try_from(end).ok()),
    })
}

const REENCODE: &str = "ffmpeg -i IN OUT.mp4 applies it";
