//! Decides which samples are due next and when: the pure part of pacing.
//!
//! At normal speed and below, samples are sent in decoding order, each when a decoder needs it. At higher speeds and
//! backwards, only keyframes are sent. Sound is sent only at normal speed.

use std::time::Duration;

use crate::film::{Film, first_sample};
use sojourn_media::mp4::Track;
use sojourn_media::packetiser::Unit;
use sojourn_media::rtsp::Playing;

/// The remaining samples of a playing session.
#[derive(Clone, Debug)]
pub struct Schedule {
    playing: Playing,
    /// The due time of the very first sample, which is sent when playing starts.
    first_due: Duration,
    cursors: Vec<Cursor>,
}

#[derive(Clone, Debug)]
struct Cursor {
    /// The index of its track in the film.
    track: usize,
    next: Option<Unit>,
    sent_packets: usize,
    due: Duration,
}

#[derive(Clone, Debug)]
pub struct Due {
    /// The index of its track in the film.
    pub track: usize,
    pub unit: Unit,
    pub sent_packets: usize,
    pub at: Duration,
}

impl Schedule {
    /// The schedule of `tracks` for `playing`.
    pub fn new(film: &Film, tracks: impl IntoIterator<Item = usize>, playing: Playing) -> Schedule {
        let mut cursors = Vec::new();
        for number in tracks {
            let Some(track) = film.track(number) else { continue };
            if playing.scale == 1.0 || track.codec().is_video() {
                let first = first_sample(track, playing.from);
                let next = first.and_then(|sample| film.unit(number, sample.number));
                cursors.push(Cursor { track: number, next, sent_packets: 0, due: Duration::ZERO });
            }
        }
        let dues = cursors.iter().filter_map(|cursor| {
            let unit = cursor.next.as_ref()?;
            Some(film.index().due_time(film.track(cursor.track)?, &unit.first))
        });
        let first_due = dues.min().unwrap_or_default();
        let mut schedule = Schedule { playing, first_due, cursors };
        for position in 0..schedule.cursors.len() {
            schedule.set_due(film, position);
        }
        schedule
    }

    /// The same schedule without track `number`.
    pub fn without(mut self, number: usize) -> Schedule {
        self.cursors.retain(|cursor| cursor.track != number);
        self
    }

    /// When the next unit is due; `None` when everything was sent.
    pub fn next_due(&self) -> Option<Duration> {
        self.position().map(|position| self.cursors[position].due)
    }

    pub fn peek(&self) -> Option<Due> {
        let cursor = &self.cursors[self.position()?];
        let Cursor { track, sent_packets, due, .. } = *cursor;
        cursor.next.clone().map(|unit| Due { track, unit, sent_packets, at: due })
    }

    /// Records that this many packets of the due unit were sent; the rest stays due.
    pub fn send_part(&mut self, sent_packets: usize) {
        if let Some(position) = self.position() {
            self.cursors[position].sent_packets = sent_packets;
        }
    }

    /// Advances past the due unit.
    pub fn advance(&mut self, film: &Film) {
        let Some(position) = self.position() else { return };
        let cursor = &mut self.cursors[position];
        cursor.sent_packets = 0;
        let Some((track, unit)) = film.track(cursor.track).zip(cursor.next.take()) else { return };
        let next = following(track, &unit, &self.playing).and_then(|sample| film.unit(cursor.track, sample));
        cursor.next = next.filter(|next| {
            // By decoding time: a picture shown before the end may need one that is shown after it.
            let decoded = film.index().due_time(track, &next.first);
            self.playing.scale < 0.0 || decoded < self.playing.until + film.index().lead()
        });
        self.set_due(film, position);
    }

    /// When playback ends for a viewer that started with the first packet.
    pub fn end(&self, film: &Film) -> Duration {
        let Playing { from, until, scale, began } = self.playing;
        let passed = if sends_all(scale) {
            (until + film.index().lead()).saturating_sub(self.first_due)
        } else if scale > 0.0 {
            until.saturating_sub(from)
        } else {
            from
        };
        began + passed.div_f64(scale.abs())
    }

    /// The RTP timestamp for a film's `timestamp`, where `anchor` is the timestamp at which playing started.
    pub fn timestamp(&self, track: &Track, timestamp: u32, anchor: u32) -> u32 {
        let since = timestamp.wrapping_sub(track.rtp_timestamp_at(self.playing.from));
        if self.playing.scale == 1.0 {
            return anchor.wrapping_add(since);
        }
        // A receiver's clock runs forwards at normal speed, whatever the playing speed.
        let scaled = f64::from(since as i32) / self.playing.scale;
        anchor.wrapping_add(scaled as i64 as u32)
    }

    /// The cursor whose unit is due first.
    fn position(&self) -> Option<usize> {
        let waiting = self.cursors.iter().enumerate().filter(|(_, cursor)| cursor.next.is_some());
        waiting.min_by_key(|(_, cursor)| cursor.due).map(|(position, _)| position)
    }

    fn set_due(&mut self, film: &Film, position: usize) {
        let cursor = &mut self.cursors[position];
        let Some((unit, track)) = cursor.next.as_ref().zip(film.track(cursor.track)) else { return };
        let Playing { from, scale, began, .. } = self.playing;
        let passed = if sends_all(scale) {
            film.index().due_time(track, &unit.first).saturating_sub(self.first_due)
        } else {
            track.film_time(&unit.first).abs_diff(from)
        };
        cursor.due = began + if scale == 1.0 { passed } else { passed.div_f64(scale.abs()) };
    }
}

/// Returns true if every sample is sent at this scale.
fn sends_all(scale: f64) -> bool {
    scale > 0.0 && scale <= 1.0
}

/// The number of the sample sent after `unit`.
fn following(track: &Track, unit: &Unit, playing: &Playing) -> Option<u32> {
    if sends_all(playing.scale) {
        return Some(unit.samples.end);
    }
    if playing.scale > 0.0 {
        return track.keyframe_after(unit.samples.start);
    }
    (0..unit.samples.start).rev().find(|number| track.is_sync(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sojourn_media::mp4::example;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn playing(from: u64, until: u64, scale: f64) -> Playing {
        Playing { from: at(from), until: at(until), scale, began: at(10_000) }
    }

    /// Track, first sample and due time since the start of everything that is sent.
    fn sent(playing: Playing) -> Vec<(usize, u32, u64)> {
        let film = Film::new(example::index());
        let mut schedule = Schedule::new(&film, [0, 1], playing);
        let mut sent = Vec::new();
        while let Some(due) = schedule.peek() {
            assert_eq!(schedule.next_due(), Some(due.at));
            sent.push((due.track, due.unit.samples.start, (due.at - playing.began).as_millis() as u64));
            schedule.advance(&film);
        }
        sent
    }

    #[test]
    fn a_whole_film_in_the_order_of_decoding() {
        let sent = sent(playing(0, 60_000, 1.0));
        let pictures: Vec<_> = sent.iter().filter(|it| it.0 == 0).collect();
        let start = pictures[0].2;
        for (number, (_, sample, due)) in (0..10).zip(&pictures) {
            assert!(
                *sample == number && (due - start).abs_diff(u64::from(number) * 200) <= 1,
                "{pictures:?}"
            );
        }
        assert_eq!(pictures.len(), 10);
        assert!(sent.is_sorted_by_key(|it| it.2) && sent[0].2 == 0, "{sent:?}");
        assert!(sent.iter().any(|it| it.0 == 1));
    }

    #[test]
    fn parts_begin_with_a_picture_that_stands_alone() {
        let film = Film::new(example::index());
        let from = film.beginning(at(1_700));
        let sent = sent(Playing { from, ..playing(0, 60_000, 1.0) });
        let first = sent.iter().find(|it| it.0 == 0).unwrap();
        assert_eq!(first.1, 5, "{sent:?}");
        assert!(first.2 < 500);
    }

    #[test]
    fn slower_all_and_faster_the_key_pictures() {
        let pictures = |scale| sent(playing(0, 60_000, scale));
        let slow = pictures(0.5);
        assert_eq!(slow.len(), 10, "no sound: {slow:?}");
        assert!(slow[9].2.abs_diff(2 * 9 * 200) <= 1, "{slow:?}");
        let fast: Vec<_> = pictures(4.0).iter().map(|it| it.1).collect();
        assert_eq!(fast, [0, 5]);
        let film = Film::new(example::index());
        let from = film.beginning(at(1_900));
        let back: Vec<_> = sent(Playing { from, ..playing(0, 2_000, -2.0) }).iter().map(|it| it.1).collect();
        assert_eq!(back, [5, 0]);
    }

    #[test]
    fn all_has_been_shown_after_all_was_sent() {
        let film = Film::new(example::index());
        for (from, until, scale) in [(0, 2_000, 1.0), (1_000, 2_000, 1.0), (0, 1_000, 0.5), (0, 2_000, 4.0)] {
            let playing = playing(from, until, scale);
            let end = Schedule::new(&film, [0, 1], playing).end(&film);
            let last = Duration::from_millis(sent(playing).iter().map(|it| it.2).max().unwrap());
            let shown = (playing.until - playing.from).div_f64(scale);
            assert!(end - playing.began >= last.max(shown), "{playing:?}: {end:?}, {last:?}");
            assert!(end - playing.began <= (shown + film.index().lead()).div_f64(scale.min(1.0)), "{end:?}");
        }
        let backwards = Schedule::new(&film, [0, 1], playing(1_000, 2_000, -2.0));
        assert_eq!(backwards.end(&film), at(10_500));
    }

    #[test]
    fn a_picture_that_is_sent_in_parts_stays_due() {
        let film = Film::new(example::index());
        let mut schedule = Schedule::new(&film, [0, 1], playing(0, 2_000, 1.0));
        let whole = schedule.peek().unwrap();
        assert_eq!((whole.track, whole.sent_packets), (0, 0));
        schedule.send_part(2);
        let rest = schedule.peek().unwrap();
        assert_eq!((rest.track, rest.sent_packets, rest.at), (0, 2, whole.at));
        assert_eq!(rest.unit, whole.unit);
        schedule.advance(&film);
        while let Some(due) = schedule.peek() {
            assert_eq!(due.sent_packets, 0);
            schedule.advance(&film);
        }
    }

    #[test]
    fn the_end_of_a_part() {
        let sent = sent(playing(0, 1_000, 1.0));
        let last = sent.iter().filter(|it| it.0 == 0).map(|it| it.1).max();
        assert!(last.is_some_and(|number| (4..7).contains(&number)), "{sent:?}");
    }
}
