//! A film as HLS (RFC 8216): a playlist, and the film cut into segments of fragmented MP4, each of which begins with a
//! keyframe.
//!
//! Nothing is transcoded or stored: a segment is a head made from the index, followed by unchanged bytes of the film.
//! The same film therefore always gives the same bytes. A segment contains the first video track and the first audio
//! track.

mod initialisation;
mod segment;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

pub use segment::Segment;

use crate::mp4::{Index, Track};

/// The minimum length of a segment except the last, as Apple recommends.
pub const SEGMENT_SECONDS: u64 = 6;

/// The most segments per film: 33 hours.
pub const SEGMENTS_MAX: usize = 20_000;

/// The largest segment, which a server holds in memory: 6 s at 44 Mbit/s, or a film with few keyframes.
pub const SEGMENT_BYTES_MAX: u64 = 32 << 20;

#[derive(Clone, Debug)]
pub struct Film {
    index: Index,
    /// The time from decoding the first sent sample to the film's start.
    lead: Duration,
    /// Where segments begin; the last entry is the film's end.
    cuts: Vec<Cut>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    /// The cut's time, as in [`Index::shown_time`].
    time: Duration,
    /// The numbers of the first video and the first audio sample.
    samples: [u32; 2],
}

/// Why a film with an index cannot be cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    #[error("the film has more than {SEGMENTS_MAX} segments of {SEGMENT_SECONDS} s")]
    TooManySegments,
    /// Too many bytes between two keyframes.
    #[error(
        "segment {number} would have {bytes} bytes, more than {SEGMENT_BYTES_MAX}\n\
         hint: code the film with a picture to begin with every few seconds"
    )]
    TooLarge { number: usize, bytes: u64 },
}

/// A resource that a client can request for a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Playlist,
    Initialisation,
    Segment(u32),
}

impl Part {
    /// Parses `index.m3u8`, `init.mp4`, or `N.m4s` as [`Part::name`] writes it.
    pub fn named(name: &str) -> Option<Part> {
        match name {
            "index.m3u8" => Some(Part::Playlist),
            "init.mp4" => Some(Part::Initialisation),
            _ => {
                let number = name.strip_suffix(".m4s")?.parse().ok()?;
                // Accept only the canonical name, so that caches hold each segment once.
                (Part::Segment(number).name() == name).then_some(Part::Segment(number))
            }
        }
    }

    /// The resource's name, relative to the film's URL.
    pub fn name(self) -> String {
        match self {
            Part::Playlist => "index.m3u8".to_owned(),
            Part::Initialisation => "init.mp4".to_owned(),
            Part::Segment(number) => format!("{number}.m4s"),
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Part::Playlist => "application/vnd.apple.mpegurl",
            Part::Initialisation => "video/mp4",
            Part::Segment(_) => "video/iso.segment",
        }
    }
}

impl Film {
    /// Cuts the film at the first keyframe at least [`SEGMENT_SECONDS`] after the previous cut.
    pub fn new(index: Index) -> Result<Film, SegmentError> {
        let cuts = cuts(&index)?;
        let lead = lead(&index, &cuts[0]);
        let film = Film { index, lead, cuts };
        for number in 0..film.segment_count() {
            let bytes = film.tracks_of(number).iter().map(|(track, samples)| bytes_of(track, samples)).sum();
            if bytes > SEGMENT_BYTES_MAX {
                return Err(SegmentError::TooLarge { number, bytes });
            }
        }
        Ok(film)
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    pub fn segment_count(&self) -> usize {
        self.cuts.len() - 1
    }

    pub fn playlist(&self) -> String {
        let times: Vec<_> = self.cuts.iter().map(|cut| cut.time).collect();
        playlist(&times)
    }

    /// The initialisation segment, which a decoder needs first.
    pub fn initialisation(&self) -> Vec<u8> {
        let first_shown = self.cuts[0].time.saturating_sub(self.index.lead().saturating_sub(self.lead));
        initialisation::write(&self.tracks(), first_shown)
    }

    pub fn segment(&self, number: u32) -> Option<Segment> {
        let position = number as usize;
        (position < self.segment_count()).then(|| segment::write(self, number, &self.tracks_of(position)))
    }

    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.cuts.capacity() * size_of::<Cut>()
    }

    /// The tracks in segments, in order.
    fn tracks(&self) -> Vec<&Track> {
        self.index.video().into_iter().chain(self.index.audio()).collect()
    }

    /// The tracks of the segment at `position` and the numbers of their samples.
    fn tracks_of(&self, position: usize) -> Vec<(&Track, Range<u32>)> {
        let [cut, next] = [&self.cuts[position], &self.cuts[position + 1]];
        let samples = |place: usize| cut.samples[place]..next.samples[place];
        let video = self.index.video().map(|track| (track, samples(0)));
        video.into_iter().chain(self.index.audio().map(|track| (track, samples(1)))).collect()
    }
}

fn bytes_of(track: &Track, samples: &Range<u32>) -> u64 {
    track.samples_from(samples.start).take(samples.len()).map(|sample| u64::from(sample.size)).sum()
}

fn cuts(index: &Index) -> Result<Vec<Cut>, SegmentError> {
    let leading = index.video().or(index.audio()).expect("an index has a track");
    let mut cuts = vec![beginning(index, leading)];
    let mut next = leading.keyframe_after(cuts[0].samples[usize::from(!leading.codec().is_video())]);
    while let Some(number) = next {
        next = leading.keyframe_after(number);
        let sample = leading.sample(number).expect("a keyframe is a sample");
        let (time, last) = (index.shown_time(leading, &sample), &cuts[cuts.len() - 1]);
        if time < last.time + Duration::from_secs(SEGMENT_SECONDS) {
            continue;
        }
        if cuts.len() == SEGMENTS_MAX {
            return Err(SegmentError::TooManySegments);
        }
        let audio = match index.audio() {
            Some(audio) if leading.codec().is_video() => {
                index.sample_shown_at(audio, time).max(last.samples[1])
            }
            _ => number,
        };
        let video = if leading.codec().is_video() { number } else { 0 };
        cuts.push(Cut { time, samples: [video, audio] });
    }
    let ends = [index.video(), index.audio()].map(|track| track.map_or(0, Track::sample_count));
    // A film of duration 0 has one segment.
    let time = (index.lead() + index.duration()).max(cuts[cuts.len() - 1].time);
    cuts.push(Cut { time, samples: ends });
    Ok(cuts)
}

/// Where the first segment begins: at the keyframe needed to decode the film's start, and one audio block before it,
/// because a decoder needs the previous block.
fn beginning(index: &Index, leading: &Track) -> Cut {
    let before = |number: u32| number.saturating_sub(1);
    if !leading.codec().is_video() {
        let number = before(leading.sample_at(Duration::ZERO));
        let time = leading.sample(number).map(|sample| index.shown_time(leading, &sample));
        return Cut { time: time.unwrap_or_default(), samples: [0, number] };
    }
    let number = leading.keyframe_at_or_before(Duration::ZERO);
    let shown = leading.sample(number).map(|sample| index.shown_time(leading, &sample));
    // Pictures may begin later than the film.
    let time = shown.unwrap_or_default().min(index.lead());
    let audio = index.audio().map_or(0, |audio| before(index.sample_shown_at(audio, time)));
    Cut { time, samples: [number, audio] }
}

/// The time from decoding the first samples to the film's start.
fn lead(index: &Index, first: &Cut) -> Duration {
    let tracks = [index.video(), index.audio()].into_iter().zip(first.samples);
    let leads = tracks.filter_map(|(track, number)| {
        let (track, sample) = track.and_then(|track| Some((track, track.sample(number)?)))?;
        Some(track.duration_of(track.start_ticks() - sample.decode_ticks as i64))
    });
    leads.max().unwrap_or_default()
}

/// The playlist of segments that begin at `times`; the last entry is the film's end.
fn playlist(times: &[Duration]) -> String {
    let lengths: Vec<_> = times.windows(2).map(|ends| ends[1].saturating_sub(ends[0])).collect();
    // RFC 8216, 4.3.3.1: the target duration must not be less than any rounded segment duration.
    let longest = lengths.iter().map(|length| length.as_secs_f64().round() as u64).max().unwrap_or(0);
    let mut text = format!(
        "#EXTM3U\n\
         #EXT-X-VERSION:7\n\
         #EXT-X-TARGETDURATION:{target}\n\
         #EXT-X-MEDIA-SEQUENCE:0\n\
         #EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXT-X-INDEPENDENT-SEGMENTS\n\
         #EXT-X-MAP:URI=\"{map}\"\n",
        target = longest.max(1),
        map = Part::Initialisation.name(),
    );
    for (number, length) in lengths.iter().enumerate() {
        let (seconds, name) = (length.as_secs_f64(), Part::Segment(number as u32).name());
        let _ = write!(text, "#EXTINF:{seconds:.6},\n{name}\n");
    }
    text.push_str("#EXT-X-ENDLIST\n");
    text
}
