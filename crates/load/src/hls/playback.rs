//! What a viewer of HLS asks for next, and what it makes of the answers: without sockets.
//!
//! A playlist, of variants first where there are any; then, one after another, what its segments need and they
//! themselves, as long as the player has room. The playlist of a live film is asked for again and again.

use std::sync::Arc;

use sojourn_measure::Nanos;

use crate::{
    hls::{
        location::Place,
        playlist::{Part, Playlist, Segment, Segments, Stream},
    },
    playout::{START_WITHIN, USER_AGENT, segments::Player, track::Arrival},
};

/// A live film is begun so many of its longest segments before its end (RFC 8216, 6.3.3).
const LIVE_TARGETS: u64 = 3;
/// Playlists of variants that lead to another are not followed for ever.
const MASTERS_MAX: u32 = 2;

/// Which of a film's variants is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// That of the least bandwidth.
    Lowest,
    Highest,
    /// By its place in the playlist, from 1 on.
    Number(usize),
}

/// The parameters of HLS players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HlsPlan {
    pub variant: Variant,
    /// How much media they have at most before they ask for more.
    pub buffer: Nanos,
}

impl Default for HlsPlan {
    fn default() -> Self {
        HlsPlan { variant: Variant::Highest, buffer: Nanos(30_000_000_000) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    Playlist,
    Map(Arc<Part>),
    Segment(Segment),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub wanted: Wanted,
    /// Since when it could have been asked.
    pub due: Nanos,
    pub sent: Option<Nanos>,
    /// When the first byte of the answer came.
    pub first_byte: Option<Nanos>,
    path: String,
    range: Option<(u64, u64)>,
}

/// The next step of a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Ask,
    At(Nanos),
    /// Everything has arrived.
    Nothing,
}

/// The classification of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered {
    /// A playlist, or what a segment needs.
    Prepared,
    /// A segment; how it came.
    Segment(Arrival),
    Refused(u16),
    Broken(String),
}

/// An answer without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body_bytes: u64,
    /// When its last byte came.
    pub arrival: Nanos,
    /// True if the generator was too late for that to say anything.
    pub is_void: bool,
}

/// One film as one viewer plays it.
#[derive(Clone, Debug)]
pub struct Playback {
    place: Place,
    plan: HlsPlan,
    /// Where in the film to begin, as a share of what may be a start; `None` begins at the beginning.
    start: Option<f64>,
    masters: u32,
    segments: Option<Arc<Segments>>,
    /// The number of the segment that comes next.
    number: u64,
    /// When the playlist came last, and whether it had anything new.
    listed: (Nanos, bool),
    /// When the last answer was complete.
    answered: Nanos,
    /// Segments that a live film had no longer when their turn came.
    missed: u64,
    taken: u64,
    map: Option<Arc<Part>>,
    player: Player,
    asked: Option<Asked>,
}

impl Playback {
    /// Begins to play what is at a place.
    pub fn new(place: Place, plan: HlsPlan, startup: Nanos, start: Option<f64>, now: Nanos) -> Playback {
        let asked = Asked::playlist(&place, now);
        Playback {
            place,
            plan,
            start,
            masters: 0,
            segments: None,
            number: 0,
            listed: (now, true),
            answered: now,
            missed: 0,
            taken: 0,
            map: None,
            player: Player::new(startup),
            asked: Some(asked),
        }
    }

    pub fn player(&self) -> &Player {
        &self.player
    }

    pub fn player_mut(&mut self) -> &mut Player {
        &mut self.player
    }

    pub fn asked(&self) -> Option<&Asked> {
        self.asked.as_ref()
    }

    pub fn asked_mut(&mut self) -> Option<&mut Asked> {
        self.asked.as_mut()
    }

    /// Returns true if segments are known, so that it plays or will.
    pub fn is_prepared(&self) -> bool {
        self.segments.is_some()
    }

    /// Segments that were to be had, and those of them that could not.
    pub fn expected_and_lost(&self) -> (u64, u64) {
        (self.taken + self.missed, self.missed)
    }

    /// The request for what is asked, as it is sent.
    pub fn request(&self) -> Vec<u8> {
        let Some(asked) = &self.asked else { return Vec::new() };
        let mut text = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\n",
            asked.path, self.place.host
        );
        if let Some((first, length)) = asked.range {
            text += &format!("Range: bytes={first}-{}\r\n", first + (length - 1));
        }
        text += "\r\n";
        text.into_bytes()
    }

    /// Says what is to be done next; what is to be asked for is known then.
    pub fn next(&mut self, now: Nanos) -> Next {
        if self.asked.is_some() {
            return Next::Ask;
        }
        let room_at = self.player.has_less_at(self.plan.buffer);
        if room_at > now {
            return Next::At(room_at);
        }
        let Some(segments) = self.segments.clone() else { return Next::Nothing };
        let index = self.number.saturating_sub(segments.first_number);
        if let Some(segment) = segments.all.get(index as usize) {
            let due = room_at.max(self.answered);
            self.asked = Some(match segment.map.as_ref().filter(|map| self.map.as_ref() != Some(map)) {
                Some(map) => Asked::part(Wanted::Map(map.clone()), map, due),
                None => Asked::part(Wanted::Segment(segment.clone()), &segment.part, due),
            });
            return Next::Ask;
        }
        if segments.is_ended {
            return Next::Nothing;
        }
        // RFC 8216, 6.3.4: after a longest segment's time, or half of it where nothing was new.
        let (came, has_news) = self.listed;
        let again_at = came + if has_news { segments.target } else { Nanos(segments.target.0 / 2) };
        if again_at > now {
            return Next::At(again_at);
        }
        self.asked = Some(Asked::playlist(&self.place, again_at.max(self.answered)));
        Next::Ask
    }

    /// Takes a complete answer; `playlist` reads the body where it should be one.
    pub fn on_answer(
        &mut self,
        answer: &Answer,
        playlist: impl FnOnce(&Place) -> Result<Playlist, &'static str>,
    ) -> Answered {
        let Some(asked) = self.asked.take() else {
            return Answered::Broken("an answer that nobody asked for".to_owned());
        };
        self.answered = answer.arrival;
        match (answer.status, asked.range) {
            (200, None) => {}
            (206, Some((_, length))) if answer.body_bytes == length => {}
            (206, Some(_)) => return Answered::Broken("other bytes than those asked for".to_owned()),
            (200, Some(_)) => {
                return Answered::Broken("the whole document instead of the bytes asked for".to_owned());
            }
            (status, _) => return Answered::Refused(status),
        }
        match asked.wanted {
            Wanted::Playlist => match playlist(&self.place) {
                Ok(Playlist::Master(streams)) => self.choose(&streams, answer.arrival),
                Ok(Playlist::Media(segments)) => self.list(segments, answer.arrival),
                Err(why) => Answered::Broken(why.to_owned()),
            },
            Wanted::Map(map) => {
                self.map = Some(map);
                Answered::Prepared
            }
            Wanted::Segment(segment) => {
                self.number += 1;
                self.taken += 1;
                let arrival = self.player.take(segment.length, answer.arrival, answer.is_void);
                let end =
                    self.segments.as_ref().map(|all| (all.first_number + all.all.len() as u64, all.is_ended));
                if end.is_some_and(|(end, is_ended)| is_ended && self.number >= end) {
                    self.player.finish(answer.arrival);
                }
                Answered::Segment(arrival)
            }
        }
    }

    fn choose(&mut self, streams: &[Stream], now: Nanos) -> Answered {
        let rate = |stream: &&Stream| stream.bits_per_second;
        let chosen = match self.plan.variant {
            Variant::Lowest => streams.iter().min_by_key(rate),
            Variant::Highest => streams.iter().max_by_key(rate),
            Variant::Number(number) => streams.get(number.wrapping_sub(1)),
        };
        let Some(stream) = chosen else {
            return Answered::Broken(format!(
                "the film has {} variants, not the one asked for",
                streams.len()
            ));
        };
        self.masters += 1;
        if self.masters > MASTERS_MAX {
            return Answered::Broken("playlists of variants lead to others without end".to_owned());
        }
        self.place.path.clone_from(&stream.path);
        self.asked = Some(Asked::playlist(&self.place, now));
        Answered::Prepared
    }

    fn list(&mut self, segments: Arc<Segments>, now: Nanos) -> Answered {
        let end = |all: &Segments| all.first_number.saturating_add(all.all.len() as u64);
        match &self.segments {
            None => self.number = segments.first_number + first(&segments, self.start) as u64,
            // Others than were there: what was missed is not to be had any more.
            Some(_) if self.number < segments.first_number => {
                self.missed += segments.first_number - self.number;
                self.number = segments.first_number;
            }
            Some(_) => {}
        }
        let has_news = self.segments.as_ref().is_none_or(|before| end(before) != end(&segments));
        self.listed = (now, has_news);
        if segments.is_ended && self.number >= end(&segments) {
            self.player.finish(now);
        }
        self.segments = Some(segments);
        Answered::Prepared
    }
}

/// With which segment a viewer begins.
fn first(segments: &Segments, start: Option<f64>) -> usize {
    let count = segments.all.len();
    if segments.is_ended {
        return (start.unwrap_or(0.0) * START_WITHIN * count as f64) as usize;
    }
    let wanted = Nanos(LIVE_TARGETS * segments.target.0);
    let mut media = Nanos::ZERO;
    let before = segments.all.iter().rev().take_while(|segment| {
        media = media + segment.length;
        media <= wanted
    });
    count - before.count().max(1).min(count)
}

impl Asked {
    fn playlist(place: &Place, due: Nanos) -> Asked {
        let (wanted, path) = (Wanted::Playlist, place.path.clone());
        Asked { wanted, due, sent: None, first_byte: None, path, range: None }
    }

    fn part(wanted: Wanted, part: &Part, due: Nanos) -> Asked {
        Asked { wanted, due, sent: None, first_byte: None, path: part.path.clone(), range: part.range }
    }

    pub fn is_media(&self) -> bool {
        !matches!(self.wanted, Wanted::Playlist)
    }
}

#[cfg(test)]
mod tests;
