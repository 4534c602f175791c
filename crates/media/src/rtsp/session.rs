//! The machine that a client's requests move: from set up to playing and back (RFC 2326, A.2).
//!
//! It knows how packets travel and what is played, not what is in them. Time is an argument; random numbers are
//! handed in.

use std::fmt;
use std::time::Duration;

use super::message::Status;
use super::range::{NptRange, Start};
use super::transport::Transport;

/// The slowest and the fastest scale, forwards or backwards.
const SCALE_MIN: f64 = 0.25;
const SCALE_MAX: f64 = 32.0;

/// Hexadecimal digits of a session's name.
const ID_DIGITS: usize = 16;

/// A session's ID. Anyone who knows it may control the session, so it must be unguessable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl SessionId {
    /// The session that `text` names, unless it can be none of ours.
    pub fn parse(text: &str) -> Option<SessionId> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_lowercase());
        u64::from_str_radix(text, 16).ok().filter(|_| text.len() == ID_DIGITS && is_number).map(SessionId)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016X}", self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Ready,
    Playing(Playing),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Playing {
    /// Where it began, in film time.
    pub from: Duration,
    pub until: Duration,
    /// Film time that passes in a second; negative backwards.
    pub scale: f64,
    pub began: Duration,
}

impl Playing {
    /// Where the film is at `now`.
    pub fn position(&self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.began).mul_f64(self.scale.abs());
        if self.scale < 0.0 { self.from.saturating_sub(passed) } else { (self.from + passed).min(self.until) }
    }

    pub fn range(&self) -> NptRange {
        let end = if self.scale < 0.0 { Duration::ZERO } else { self.until };
        NptRange { start: Start::At(self.from), end: Some(end) }
    }
}

/// A track that was set up, and the numbers of its packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Its place in the film.
    pub number: usize,
    pub transport: Transport,
    pub source: u32,
    /// The next packet's sequence number.
    pub sequence: u16,
    /// The timestamp that stands for the moment the session began.
    pub timestamp_base: u32,
}

/// The film's properties that a session depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeline {
    pub duration: Duration,
    /// True if it can pass at another speed than its own: it has pictures from which decoding can begin.
    pub supports_scale: bool,
}

/// A client's session with a film.
#[derive(Clone, Debug)]
pub struct Session {
    pub id: SessionId,
    /// Tracks that are set up, in the order of that.
    pub tracks: Vec<Track>,
    state: State,
    has_played: bool,
    /// Where the next PLAY goes on.
    position: Duration,
    began: Duration,
    /// When the client last gave a sign of life.
    last_activity: Duration,
}

impl Session {
    /// A session with nothing set up.
    pub fn new(id: SessionId, now: Duration) -> Session {
        Session {
            id,
            tracks: Vec::new(),
            state: State::Ready,
            has_played: false,
            position: Duration::ZERO,
            began: now,
            last_activity: now,
        }
    }

    /// The timestamp by `track`'s clock, of so many units a second, that stands for `now`: it runs on whether anything
    /// is played or not.
    pub fn timestamp(&self, track: &Track, clock_rate: u32, now: Duration) -> u32 {
        let passed = now.saturating_sub(self.began).as_nanos() * u128::from(clock_rate) / 1_000_000_000;
        track.timestamp_base.wrapping_add(passed as u32)
    }

    pub fn began(&self) -> Duration {
        self.began
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn playing(&self) -> Option<Playing> {
        match self.state {
            State::Ready => None,
            State::Playing(playing) => Some(playing),
        }
    }

    /// Returns true if anything was ever played.
    pub fn has_played(&self) -> bool {
        self.has_played
    }

    /// The client gave a sign of life.
    pub fn keep_alive(&mut self, now: Duration) {
        self.last_activity = now;
    }

    /// Since when nothing has been last_activity of the client.
    pub fn last_activity(&self) -> Duration {
        self.last_activity
    }

    /// Sets up `track`, or changes the way of its packets.
    ///
    /// # Errors
    /// 455 while playing.
    pub fn set_up(&mut self, track: Track) -> Result<(), Status> {
        if self.playing().is_some() {
            return Err(Status::MethodNotValidInThisState);
        }
        match self.tracks.iter_mut().find(|known| known.number == track.number) {
            Some(known) => known.transport = track.transport,
            None => self.tracks.push(track),
        }
        Ok(())
    }

    /// Begins to play, or goes on elsewhere; `begin` says where, at or before a film time, decoding can begin.
    ///
    /// # Errors
    /// 455 with nothing set up, 457 if there is no such part of the film, 460 for one of several tracks.
    pub fn play(
        &mut self,
        track: Option<usize>,
        wanted: (Option<NptRange>, Option<f64>),
        film: Timeline,
        begin: impl Fn(Duration) -> Duration,
        now: Duration,
    ) -> Result<Playing, Status> {
        self.check_aggregate(track)?;
        let (range, scale) = wanted;
        let scale = self.scale(scale, film);
        let position = self.playing().map_or(self.position, |playing| playing.position(now));
        let start = match range.map(|range| range.start) {
            Some(Start::At(time)) => time,
            // At its end there is nothing to go on with: from the beginning again.
            Some(Start::Now) | None if position >= film.duration => Duration::ZERO,
            Some(Start::Now) | None => position,
        };
        let end = range.and_then(|range| range.end).unwrap_or(film.duration);
        let is_backwards = scale < 0.0;
        if start >= film.duration || (!is_backwards && end <= start) {
            return Err(Status::InvalidRange);
        }
        let (from, until) = (begin(start), end.min(film.duration));
        let playing = Playing { from, until, scale, began: now };
        self.state = State::Playing(playing);
        self.has_played = true;
        Ok(playing)
    }

    /// Stops sending; PLAY goes on from here. What has ended by itself stays as it is: a client may not know it yet.
    ///
    /// # Errors
    /// 455 if nothing was ever played, 460 for one of several tracks.
    pub fn pause(&mut self, track: Option<usize>, now: Duration) -> Result<(), Status> {
        self.check_aggregate(track)?;
        match self.state {
            State::Playing(playing) => self.position = playing.position(now),
            State::Ready if self.has_played => {}
            State::Ready => return Err(Status::MethodNotValidInThisState),
        }
        self.state = State::Ready;
        Ok(())
    }

    /// All was sent that was to be played.
    pub fn finish(&mut self) {
        if let Some(playing) = self.playing() {
            self.position = if playing.scale < 0.0 { Duration::ZERO } else { playing.until };
            self.state = State::Ready;
        }
    }

    /// Ends `track`, or all of it; returns whether anything is left.
    ///
    /// # Errors
    /// 404 if there is no such track.
    pub fn tear_down(&mut self, track: Option<usize>) -> Result<bool, Status> {
        let Some(number) = track else {
            self.tracks.clear();
            return Ok(false);
        };
        let position = self.tracks.iter().position(|track| track.number == number).ok_or(Status::NotFound)?;
        self.tracks.remove(position);
        Ok(!self.tracks.is_empty())
    }

    /// Tracks have one time line, so one of several cannot be moved alone.
    fn check_aggregate(&self, track: Option<usize>) -> Result<(), Status> {
        if self.tracks.is_empty() {
            return Err(Status::MethodNotValidInThisState);
        }
        match track {
            Some(number) if self.tracks.iter().all(|track| track.number != number) => Err(Status::NotFound),
            Some(_) if self.tracks.len() > 1 => Err(Status::OnlyAggregateAllowed),
            _ => Ok(()),
        }
    }

    /// The scale that is the nearest to what was asked for (RFC 2326, 12.34: the response says which it is).
    fn scale(&self, wanted: Option<f64>, film: Timeline) -> f64 {
        match wanted {
            Some(scale) if film.supports_scale && scale < 0.0 => scale.clamp(-SCALE_MAX, -1.0),
            Some(scale) if film.supports_scale => scale.clamp(SCALE_MIN, SCALE_MAX),
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILM: Timeline = Timeline { duration: Duration::from_secs(30), supports_scale: true };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn track(number: usize) -> Track {
        let transport = Transport::udp((8000, 8001));
        Track { number, transport, source: 1, sequence: 0, timestamp_base: 0 }
    }

    fn session(tracks: usize) -> Session {
        let mut session = Session::new(SessionId(7), at(0));
        (0..tracks).for_each(|number| session.set_up(track(number)).unwrap());
        session
    }

    /// Pictures to begin with every two seconds.
    fn begin(time: Duration) -> Duration {
        at(time.as_secs() / 2 * 2)
    }

    fn play(session: &mut Session, range: &str, scale: Option<f64>, now: u64) -> Result<String, Status> {
        let range = (!range.is_empty()).then(|| NptRange::parse(range).unwrap());
        let playing = session.play(None, (range, scale), FILM, begin, at(now))?;
        Ok(format!("{} x{}", playing.range(), playing.scale))
    }

    #[test]
    fn a_film_from_beginning_to_end() {
        let mut session = session(2);
        assert_eq!(session.pause(None, at(9)), Err(Status::MethodNotValidInThisState));
        assert_eq!(play(&mut session, "", None, 10).as_deref(), Ok("npt=0-30 x1"));
        assert_eq!(session.set_up(track(0)), Err(Status::MethodNotValidInThisState));
        session.pause(None, at(15)).unwrap();
        session.pause(None, at(16)).unwrap();
        // Five seconds had passed.
        assert_eq!(play(&mut session, "", None, 100).as_deref(), Ok("npt=4-30 x1"));
        session.finish();
        assert_eq!(session.state(), State::Ready);
        assert_eq!(play(&mut session, "npt=now-", None, 200).as_deref(), Ok("npt=0-30 x1"));
        assert_eq!(session.tear_down(Some(0)), Ok(true));
        assert_eq!(session.tear_down(Some(0)), Err(Status::NotFound));
        assert_eq!(session.tear_down(Some(1)), Ok(false));
    }

    #[test]
    fn parts_of_a_film() {
        let mut session = session(1);
        assert_eq!(play(&mut session, "npt=11.5-20", None, 0).as_deref(), Ok("npt=10-20 x1"));
        // While it plays: it goes on elsewhere.
        assert_eq!(play(&mut session, "npt=25-99", None, 1).as_deref(), Ok("npt=24-30 x1"));
        for nothing in ["npt=30-", "npt=99-100", "npt=5-5", "npt=6-5"] {
            assert_eq!(play(&mut session, nothing, None, 2), Err(Status::InvalidRange), "{nothing}");
        }
    }

    #[test]
    fn other_speeds() {
        let mut session = session(1);
        assert_eq!(play(&mut session, "npt=4-", Some(4.0), 0).as_deref(), Ok("npt=4-30 x4"));
        assert_eq!(session.playing().unwrap().position(at(3)), at(16));
        assert_eq!(play(&mut session, "", Some(-1000.0), 3).as_deref(), Ok("npt=16-0 x-32"));
        assert_eq!(session.playing().unwrap().position(at(9)), at(0));
        let still = Timeline { supports_scale: false, ..FILM };
        let playing = session.play(None, (None, Some(8.0)), still, begin, at(20)).unwrap();
        assert_eq!(playing.scale, 1.0);
    }

    #[test]
    fn tracks_move_together() {
        let mut two = session(2);
        let play =
            |session: &mut Session, track| session.play(track, (None, None), FILM, begin, at(0)).map(|_| ());
        assert_eq!(play(&mut two, Some(1)), Err(Status::OnlyAggregateAllowed));
        assert_eq!(play(&mut two, Some(5)), Err(Status::NotFound));
        assert_eq!(play(&mut session(1), Some(0)), Ok(()));
        assert_eq!(play(&mut session(0), None), Err(Status::MethodNotValidInThisState));
    }

    #[test]
    fn names() {
        let id = SessionId(0xab);
        assert_eq!(id.to_string(), "00000000000000AB");
        assert_eq!(SessionId::parse("00000000000000AB"), Some(id));
        for other in ["", "AB", "00000000000000ab", "+0000000000000AB", "00000000000000ABC"] {
            assert_eq!(SessionId::parse(other), None, "{other}");
        }
    }
}
