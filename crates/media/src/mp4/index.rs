//! A film's index: its tracks, and their samples by number and by time.
//!
//! There are three kinds of time. *Ticks* count in a track's timescale. *Film time* is what a viewer sees on the clock:
//! edit lists are applied, and audio and video agree. *Due time* is when a sample should be sent to a viewer whose film
//! starts at 0: its decoding time plus [`Index::lead`], which is the same for all tracks and keeps due times from being
//! negative.

use std::time::Duration;

use super::codec::Codec;

/// How many pictures may be decoded between a picture and one that is shown before it. The standards allow 16.
const REORDERED_MAX: usize = 32;

/// The index of a film. It is plain data that threads and sessions can share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    tracks: Vec<Track>,
    lead: Duration,
}

/// A track with at least one sample, all of one codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    pub(super) id: u32,
    pub(super) codec: Codec,
    pub(super) timescale: u32,
    /// The edit list's shift of presentation times: positive if the track's start is cut off, negative if the track
    /// starts later than the film.
    pub(super) start_ticks: i64,
    pub(super) pixel_aspect: Option<(u32, u32)>,
    pub(super) matrix: [u32; 9],
    pub(super) samples: Vec<Stored>,
    /// The numbers of the keyframes; `None` if every sample is one.
    pub(super) keyframes: Option<Vec<u32>>,
    /// When decoding the last sample ends.
    pub(super) end_ticks: u64,
    /// The presentation time at which the last shown sample ends.
    pub(super) shown_until_ticks: i64,
}

/// A sample in the index: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub offset: u64,
    pub decode_ticks: u64,
    pub size: u32,
    pub composition_ticks: i32,
}

/// A sample: a picture, or a block of audio, that is decoded at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its position in the track, in decoding order.
    pub number: u32,
    /// The offset of its first byte in the file.
    pub offset: u64,
    pub size: u32,
    /// Decoding time from the start of the track, without the edit list.
    pub decode_ticks: u64,
    /// Presentation time minus decoding time.
    pub composition_ticks: i32,
    /// Time from its decoding to that of the next sample.
    pub duration_ticks: u64,
    /// True for a keyframe: decoding can start here.
    pub is_sync: bool,
}

impl Sample {
    /// Presentation time without the edit list.
    pub fn presentation_ticks(&self) -> i64 {
        self.decode_ticks as i64 + i64::from(self.composition_ticks)
    }

    /// The offset of the byte after it in the file.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.size)
    }
}

impl Index {
    pub(super) fn new(tracks: Vec<Track>) -> Index {
        let lead = tracks.iter().map(|track| track.duration_of(track.start_ticks)).max().unwrap_or_default();
        Index { tracks, lead }
    }

    /// The tracks in file order; at least one.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    pub fn video(&self) -> Option<&Track> {
        self.tracks.iter().find(|track| track.codec.is_video())
    }

    pub fn audio(&self) -> Option<&Track> {
        self.tracks.iter().find(|track| !track.codec.is_video())
    }

    /// From the start of the film to the end of its longest track.
    pub fn duration(&self) -> Duration {
        self.tracks.iter().map(Track::duration).max().unwrap_or_default()
    }

    pub fn sample_bytes(&self) -> u64 {
        self.tracks.iter().map(Track::sample_bytes).sum()
    }

    /// How long before the film's start the first sample is decoded. What is shown at film time `t` may be due as late
    /// as `t + lead`.
    pub fn lead(&self) -> Duration {
        self.lead
    }

    /// When `sample` of `track` is due if the film starts at 0 and plays at its own speed. It increases with the sample
    /// number.
    pub fn due_time(&self, track: &Track, sample: &Sample) -> Duration {
        let decode = sample.decode_ticks as i64 - track.start_ticks;
        match decode {
            0.. => self.lead + track.duration_of(decode),
            // Rounding may place it a nanosecond before 0.
            _ => self.lead.saturating_sub(track.duration_of(-decode)),
        }
    }

    /// When `sample` of `track` is shown, on the clock of [`Index::due_time`]: the film starts at [`Index::lead`], and
    /// what the edit list cuts off comes before.
    pub fn shown_time(&self, track: &Track, sample: &Sample) -> Duration {
        let shown = sample.presentation_ticks() - track.start_ticks;
        match shown {
            0.. => self.lead + track.duration_of(shown),
            _ => self.lead.saturating_sub(track.duration_of(-shown)),
        }
    }

    /// The number of the sample of `track` shown at `time` on the same clock: the first before the track's start, the
    /// last after its end.
    pub fn sample_shown_at(&self, track: &Track, time: Duration) -> u32 {
        track.sample_at_ticks(track.ticks_at(time.as_nanos() as i128 - self.lead.as_nanos() as i128))
    }

    pub fn memory_bytes(&self) -> usize {
        let tracks = self.tracks.iter().map(|track| {
            let keyframes = track.keyframes.as_ref().map_or(0, |numbers| numbers.capacity() * 4);
            size_of::<Track>() + track.samples.capacity() * size_of::<Stored>() + keyframes
        });
        size_of::<Index>() + tracks.sum::<usize>()
    }
}

impl Track {
    /// The track's ID in the file.
    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    pub fn timescale(&self) -> u32 {
        self.timescale
    }

    /// The edit list's shift: film time 0 in the track's time. Negative if the film begins before the track.
    pub fn start_ticks(&self) -> i64 {
        self.start_ticks
    }

    /// Horizontal and vertical pixel spacing, if the file has it.
    pub fn pixel_aspect(&self) -> Option<(u32, u32)> {
        self.pixel_aspect
    }

    /// The transformation of pictures before display (`tkhd`).
    pub fn matrix(&self) -> [u32; 9] {
        self.matrix
    }

    /// From the start of the film to the end of the sample shown last.
    pub fn duration(&self) -> Duration {
        self.duration_of(self.shown_until_ticks - self.start_ticks)
    }

    pub fn sample_count(&self) -> u32 {
        self.samples.len() as u32
    }

    pub fn sample_bytes(&self) -> u64 {
        self.samples.iter().map(|sample| u64::from(sample.size)).sum()
    }

    pub fn bits_per_second(&self) -> u64 {
        let bits = u128::from(self.sample_bytes()) * 8;
        // A track of duration 0 counts as one tick.
        (bits * u128::from(self.timescale) / u128::from(self.end_ticks.max(1))) as u64
    }

    pub fn sample(&self, number: u32) -> Option<Sample> {
        let stored = self.samples.get(number as usize)?;
        let next = next_decode(&self.samples, number as usize, self.end_ticks);
        Some(Sample {
            number,
            offset: stored.offset,
            size: stored.size,
            decode_ticks: stored.decode_ticks,
            composition_ticks: stored.composition_ticks,
            duration_ticks: next - stored.decode_ticks,
            is_sync: self.is_sync(number),
        })
    }

    pub fn samples_from(&self, number: u32) -> impl Iterator<Item = Sample> + '_ {
        (number..self.sample_count()).filter_map(|number| self.sample(number))
    }

    /// When a sample is shown in film time; 0 for samples that the edit list cuts off.
    pub fn film_time(&self, sample: &Sample) -> Duration {
        self.duration_of(sample.presentation_ticks() - self.start_ticks)
    }

    /// The number of the sample shown (or heard) at film time `time`: the first before the track's start, the last
    /// after its end.
    pub fn sample_at(&self, time: Duration) -> u32 {
        self.sample_at_ticks(self.ticks_at(time.as_nanos() as i128))
    }

    fn sample_at_ticks(&self, ticks: i64) -> u32 {
        let decoded = self.samples.partition_point(|sample| sample.decode_ticks as i64 <= ticks);
        let shown = |number: &usize| presentation(&self.samples[*number]);
        // It is decoded around then, or a little later with negative composition times.
        let end = (decoded + REORDERED_MAX).min(self.samples.len());
        let candidates = decoded.saturating_sub(REORDERED_MAX)..end;
        candidates.filter(|number| shown(number) <= ticks).max_by_key(shown).unwrap_or(0) as u32
    }

    /// The number of the last keyframe shown by film time `time`; the first sample if there is none.
    pub fn keyframe_at_or_before(&self, time: Duration) -> u32 {
        let ticks = self.ticks_at(time.as_nanos() as i128);
        match &self.keyframes {
            None => self.sample_at(time),
            Some(numbers) => {
                let shown =
                    numbers.partition_point(|number| presentation(&self.samples[*number as usize]) <= ticks);
                shown.checked_sub(1).map_or(0, |position| numbers[position])
            }
        }
    }

    /// The number of the first keyframe after sample `number`.
    pub fn keyframe_after(&self, number: u32) -> Option<u32> {
        match &self.keyframes {
            None => (number + 1 < self.sample_count()).then_some(number + 1),
            Some(numbers) => numbers.get(numbers.partition_point(|it| *it <= number)).copied(),
        }
    }

    /// Returns true if sample `number` is a keyframe.
    pub fn is_sync(&self, number: u32) -> bool {
        self.keyframes.as_ref().is_none_or(|numbers| numbers.binary_search(&number).is_ok())
    }

    /// The RTP timestamp of `sample` (RFC 3550, 5.1) at [`Codec::clock_rate`], counted from the film's start. Add the
    /// stream's random offset, wrapping.
    pub fn rtp_timestamp(&self, sample: &Sample) -> u32 {
        let ticks = i128::from(sample.presentation_ticks() - self.start_ticks);
        (ticks * i128::from(self.codec.clock_rate())).div_euclid(i128::from(self.timescale)) as u32
    }

    /// The RTP timestamp of film time `time`, for the field `RTP-Info` of a PLAY response.
    pub fn rtp_timestamp_at(&self, time: Duration) -> u32 {
        (time.as_nanos() * u128::from(self.codec.clock_rate()) / 1_000_000_000) as u32
    }

    pub(crate) fn duration_of(&self, ticks: i64) -> Duration {
        let (ticks, timescale) = (ticks.max(0) as u64, u64::from(self.timescale));
        let nanoseconds = (ticks % timescale) * 1_000_000_000 / timescale;
        Duration::new(ticks / timescale, nanoseconds as u32)
    }

    /// `time` in ticks, rounded to the nearest: it comes from another track, rounded down to nanoseconds.
    pub(crate) fn ticks_of(&self, time: Duration) -> u64 {
        ((time.as_nanos() * u128::from(self.timescale) + 500_000_000) / 1_000_000_000) as u64
    }

    /// Film time in nanoseconds as ticks of the samples' presentation times.
    fn ticks_at(&self, nanoseconds: i128) -> i64 {
        // Film times were rounded down to nanoseconds; adding one recovers their tick.
        let ticks = ((nanoseconds + 1) * i128::from(self.timescale)).div_euclid(1_000_000_000);
        i64::try_from(ticks).unwrap_or(i64::MAX / 2).min(i64::MAX / 2) + self.start_ticks
    }
}

/// When the sample after `number` is decoded, or the track ends.
fn next_decode(samples: &[Stored], number: usize, end_ticks: u64) -> u64 {
    samples.get(number + 1).map_or(end_ticks, |next| next.decode_ticks)
}

/// The presentation time at which the last shown sample ends, for a track whose decoding ends at `end_ticks`.
pub(super) fn shown_until(samples: &[Stored], end_ticks: u64) -> i64 {
    let until = |(number, sample): (usize, &Stored)| {
        presentation(sample) + (next_decode(samples, number, end_ticks) - sample.decode_ticks) as i64
    };
    samples.iter().enumerate().map(until).max().unwrap_or(0)
}

pub(super) fn presentation(sample: &Stored) -> i64 {
    sample.decode_ticks as i64 + i64::from(sample.composition_ticks)
}
