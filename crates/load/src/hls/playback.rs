//! Decides which request an HLS player sends next, and handles the responses. Does no I/O.
//!
//! It requests a playlist, perhaps after a master playlist, and then segments with their initialisation parts one after
//! another, as long as the player's buffer has room. It reloads the playlist of a live stream.

use std::sync::Arc;

use sojourn_measure::Nanos;

use crate::{
    hls::{
        location::Location,
        playlist::{Part, Playlist, Segment, Segments, Stream},
    },
    playout::{START_WITHIN, USER_AGENT, segments::Player, track::Arrival},
};

/// A live stream is joined this many target durations before its end (RFC 8216, 6.3.3).
const LIVE_TARGETS: u64 = 3;
/// How many master playlists are followed in a row at most.
const MASTERS_MAX: u32 = 2;

/// Which variant of a film is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The one with the lowest bandwidth.
    Lowest,
    Highest,
    /// By position in the playlist, from 1.
    Number(usize),
}

/// The parameters of HLS players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HlsPlan {
    pub variant: Variant,
    /// The most media to buffer before requesting more.
    pub buffer: Nanos,
}

impl Default for HlsPlan {
    fn default() -> Self {
        HlsPlan { variant: Variant::Highest, buffer: Nanos(30_000_000_000) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    Playlist,
    Map(Arc<Part>),
    Segment(Segment),
}

#[derive(Clone, Debug, PartialEq)]
pub struct HlsRequest {
    pub resource: Resource,
    /// When it could have been sent at the earliest.
    pub due: Nanos,
    pub sent: Option<Nanos>,
    /// When the first byte of the response arrived.
    pub first_byte: Option<Nanos>,
    path: String,
    range: Option<(u64, u64)>,
}

/// The next step of a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Ask,
    At(Nanos),
    /// Everything has been received.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ResponseClass {
    /// A playlist, or an initialisation part.
    Preparation,
    Segment(Arrival),
    Refused(u16),
    Invalid(String),
}

/// A response without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HlsResponse {
    pub status: u16,
    pub body_bytes: u64,
    /// When its last byte arrived.
    pub arrival: Nanos,
    /// True if the generator was too late for the arrival time to be valid.
    pub is_void: bool,
}

/// One film as played by one viewer.
#[derive(Clone, Debug)]
pub struct Playback {
    location: Location,
    plan: HlsPlan,
    /// The start position, as a share of the positions allowed; `None` starts at the beginning.
    start: Option<f64>,
    masters: u32,
    segments: Option<Arc<Segments>>,
    /// The number of the next segment.
    number: u64,
    /// When the playlist was last loaded, and whether it had new segments.
    listed: (Nanos, bool),
    /// When the last response was complete.
    answered: Nanos,
    /// Segments that had left a live playlist when they were due.
    missed: u64,
    taken: u64,
    map: Option<Arc<Part>>,
    player: Player,
    request: Option<HlsRequest>,
}

impl Playback {
    /// Starts to play the playlist at a location.
    pub fn new(
        location: Location,
        plan: HlsPlan,
        startup: Nanos,
        start: Option<f64>,
        now: Nanos,
    ) -> Playback {
        let request = HlsRequest::playlist(&location, now);
        Playback {
            location,
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
            request: Some(request),
        }
    }

    pub fn player(&self) -> &Player {
        &self.player
    }

    pub fn player_mut(&mut self) -> &mut Player {
        &mut self.player
    }

    pub fn request(&self) -> Option<&HlsRequest> {
        self.request.as_ref()
    }

    pub fn request_mut(&mut self) -> Option<&mut HlsRequest> {
        self.request.as_mut()
    }

    /// Returns true once segments are known.
    pub fn is_prepared(&self) -> bool {
        self.segments.is_some()
    }

    /// Segments that should have been received, and those of them that had left the playlist.
    pub fn expected_and_lost(&self) -> (u64, u64) {
        (self.taken + self.missed, self.missed)
    }

    /// The bytes of the current request.
    pub fn request_bytes(&self) -> Vec<u8> {
        let Some(request) = &self.request else { return Vec::new() };
        let mut text = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\n",
            request.path, self.location.host
        );
        if let Some((first, length)) = request.range {
            text += &format!("Range: bytes={first}-{}\r\n", first + (length - 1));
        }
        text += "\r\n";
        text.into_bytes()
    }

    /// The next step. If it is to ask, the request is known from then on.
    pub fn next(&mut self, now: Nanos) -> Next {
        if self.request.is_some() {
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
            self.request = Some(match segment.map.as_ref().filter(|map| self.map.as_ref() != Some(map)) {
                Some(map) => HlsRequest::part(Resource::Map(map.clone()), map, due),
                None => HlsRequest::part(Resource::Segment(segment.clone()), &segment.part, due),
            });
            return Next::Ask;
        }
        if segments.is_ended {
            return Next::Nothing;
        }
        // RFC 8216, 6.3.4: reload after the target duration, or half of it if nothing was new.
        let (came, has_news) = self.listed;
        let again_at = came + if has_news { segments.target } else { Nanos(segments.target.0 / 2) };
        if again_at > now {
            return Next::At(again_at);
        }
        self.request = Some(HlsRequest::playlist(&self.location, again_at.max(self.answered)));
        Next::Ask
    }

    /// Handles a complete response; `playlist` parses its body if it should be one.
    pub fn on_response(
        &mut self,
        answer: &HlsResponse,
        playlist: impl FnOnce(&Location) -> Result<Playlist, &'static str>,
    ) -> ResponseClass {
        let Some(request) = self.request.take() else {
            return ResponseClass::Invalid("an unexpected response".to_owned());
        };
        self.answered = answer.arrival;
        match (answer.status, request.range) {
            (200, None) => {}
            (206, Some((_, length))) if answer.body_bytes == length => {}
            (206, Some(_)) => {
                return ResponseClass::Invalid("a different byte range than requested".to_owned());
            }
            (200, Some(_)) => {
                return ResponseClass::Invalid(
                    "the whole file instead of the requested byte range".to_owned(),
                );
            }
            (status, _) => return ResponseClass::Refused(status),
        }
        match request.resource {
            Resource::Playlist => match playlist(&self.location) {
                Ok(Playlist::Master(streams)) => self.choose(&streams, answer.arrival),
                Ok(Playlist::Media(segments)) => self.list(segments, answer.arrival),
                Err(why) => ResponseClass::Invalid(why.to_owned()),
            },
            Resource::Map(map) => {
                self.map = Some(map);
                ResponseClass::Preparation
            }
            Resource::Segment(segment) => {
                self.number += 1;
                self.taken += 1;
                let arrival = self.player.take(segment.length, answer.arrival, answer.is_void);
                let end =
                    self.segments.as_ref().map(|all| (all.first_number + all.all.len() as u64, all.is_ended));
                if end.is_some_and(|(end, is_ended)| is_ended && self.number >= end) {
                    self.player.finish(answer.arrival);
                }
                ResponseClass::Segment(arrival)
            }
        }
    }

    fn choose(&mut self, streams: &[Stream], now: Nanos) -> ResponseClass {
        let rate = |stream: &&Stream| stream.bits_per_second;
        let chosen = match self.plan.variant {
            Variant::Lowest => streams.iter().min_by_key(rate),
            Variant::Highest => streams.iter().max_by_key(rate),
            Variant::Number(number) => streams.get(number.wrapping_sub(1)),
        };
        let Some(stream) = chosen else {
            return ResponseClass::Invalid(format!(
                "the film has {} variants, but not the requested one",
                streams.len()
            ));
        };
        self.masters += 1;
        if self.masters > MASTERS_MAX {
            return ResponseClass::Invalid("master playlists are nested too deeply".to_owned());
        }
        self.location.path.clone_from(&stream.path);
        self.request = Some(HlsRequest::playlist(&self.location, now));
        ResponseClass::Preparation
    }

    fn list(&mut self, segments: Arc<Segments>, now: Nanos) -> ResponseClass {
        let end = |all: &Segments| all.first_number.saturating_add(all.all.len() as u64);
        match &self.segments {
            None => self.number = segments.first_number + first(&segments, self.start) as u64,
            // The live window has moved on: segments before it are lost.
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
        ResponseClass::Preparation
    }
}

/// The segment with which a viewer starts.
fn first(segments: &Segments, start: Option<f64>) -> usize {
    let count = segments.all.len();
    if segments.is_ended {
        return (start.unwrap_or(0.0) * START_WITHIN * count as f64) as usize;
    }
    let from_end = Nanos(LIVE_TARGETS * segments.target.0);
    let mut media = Nanos::ZERO;
    let before = segments.all.iter().rev().take_while(|segment| {
        media = media + segment.length;
        media <= from_end
    });
    count - before.count().max(1).min(count)
}

impl HlsRequest {
    fn playlist(location: &Location, due: Nanos) -> HlsRequest {
        let (resource, path) = (Resource::Playlist, location.path.clone());
        HlsRequest { resource, due, sent: None, first_byte: None, path, range: None }
    }

    fn part(resource: Resource, part: &Part, due: Nanos) -> HlsRequest {
        HlsRequest { resource, due, sent: None, first_byte: None, path: part.path.clone(), range: part.range }
    }

    pub fn is_media(&self) -> bool {
        !matches!(self.resource, Resource::Playlist)
    }
}

#[cfg(test)]
mod tests;
