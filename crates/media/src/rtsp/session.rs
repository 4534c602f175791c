//! The state machine of a session: ready, playing, and back (RFC 2326, A.2).
//!
//! It knows transports and positions, not the content of packets. Time and random numbers are arguments.

use std::fmt;
use std::time::Duration;

use super::message::Status;
use super::range::{NptRange, Start};
use super::transport::Transport;

/// The slowest and fastest scale, forwards or backwards.
const SCALE_MIN: f64 = 0.25;
const SCALE_MAX: f64 = 32.0;

/// Hexadecimal digits of a session ID.
const ID_DIGITS: usize = 16;

/// A session ID. Anyone who knows it can control the session, so it must be unguessable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl SessionId {
    /// Parses a session ID; `None` if it cannot be one of ours.
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
    /// Film time at which playing started.
    pub from: Duration,
    pub until: Duration,
    /// Film seconds per second; negative when playing backwards.
    pub scale: f64,
    pub began: Duration,
}

impl Playing {
    /// Film time at `now`.
    pub fn position(&self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.began).mul_f64(self.scale.abs());
        if self.scale < 0.0 { self.from.saturating_sub(passed) } else { (self.from + passed).min(self.until) }
    }

    pub fn range(&self) -> NptRange {
        let end = if self.scale < 0.0 { Duration::ZERO } else { self.until };
        NptRange { start: Start::At(self.from), end: Some(end) }
    }
}

/// A track that was set up, with the counters of its packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// The track's position in the film.
    pub number: usize,
    pub transport: Transport,
    pub source: u32,
    /// The sequence number of the next packet.
    pub sequence: u16,
    /// The RTP timestamp at the start of the session.
    pub timestamp_base: u32,
}

/// The properties of a film on which a session depends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeline {
    pub duration: Duration,
    /// True if it can be played at other speeds: it has keyframes.
    pub supports_scale: bool,
}

#[derive(Clone, Debug)]
pub struct Session {
    pub id: SessionId,
    /// Tracks in the order of their SETUP.
    pub tracks: Vec<Track>,
    state: State,
    has_played: bool,
    /// Film time at which the next PLAY continues.
    position: Duration,
    began: Duration,
    /// When the client last sent a request or report.
    last_activity: Duration,
}

impl Session {
    /// A session without tracks.
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

    /// The RTP timestamp at `now` on `track`'s clock of `clock_rate` Hz. It advances even while nothing is played.
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

    /// Returns true if PLAY ever succeeded.
    pub fn has_played(&self) -> bool {
        self.has_played
    }

    /// Records that the client is alive at `now`.
    pub fn keep_alive(&mut self, now: Duration) {
        self.last_activity = now;
    }

    /// When the client was last known to be alive.
    pub fn last_activity(&self) -> Duration {
        self.last_activity
    }

    /// Sets up `track`, or changes its transport, which goes on with the source that it has. Returns the transport.
    ///
    /// # Errors
    /// 455 while playing.
    pub fn set_up(&mut self, track: Track) -> Result<&Transport, Status> {
        if self.playing().is_some() {
            return Err(Status::MethodNotValidInThisState);
        }
        let known = self.tracks.iter().position(|known| known.number == track.number);
        let position = known.unwrap_or(self.tracks.len());
        match self.tracks.get_mut(position) {
            Some(known) => known.transport = Transport { source: Some(known.source), ..track.transport },
            None => self.tracks.push(track),
        }
        Ok(&self.tracks[position].transport)
    }

    /// Starts playing, or seeks while playing. `begin` returns the keyframe time at or before a film time.
    ///
    /// # Errors
    /// 455 without a track, 457 if the film has no such part, 460 for one of several tracks.
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
            // At the film's end, PLAY starts from the beginning again.
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

    /// Stops sending; PLAY continues from here. A play that has just ended by itself is left as it is, because the
    /// client may not know yet.
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

    /// Records that everything has been sent.
    pub fn finish(&mut self) {
        if let Some(playing) = self.playing() {
            self.position = if playing.scale < 0.0 { Duration::ZERO } else { playing.until };
            self.state = State::Ready;
        }
    }

    /// Removes `track`, or all tracks; returns true if any are left.
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

    /// Checks that `track`, or all tracks, can be moved: they share one time line, so one of several cannot be moved
    /// alone.
    ///
    /// # Errors
    /// 455 without a track, 404 if there is no such track, 460 for one of several tracks.
    pub fn check_aggregate(&self, track: Option<usize>) -> Result<(), Status> {
        if self.tracks.is_empty() {
            return Err(Status::MethodNotValidInThisState);
        }
        match track {
            Some(number) if self.tracks.iter().all(|track| track.number != number) => Err(Status::NotFound),
            Some(_) if self.tracks.len() > 1 => Err(Status::OnlyAggregateAllowed),
            _ => Ok(()),
        }
    }

    /// The supported scale nearest to the requested one (RFC 2326, 12.34: the response names it).
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
        for number in 0..tracks {
            session.set_up(track(number)).unwrap();
        }
        session
    }

    /// A keyframe every two seconds.
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
        // Five seconds have passed.
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
        // PLAY while playing: seeks.
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
    fn a_track_that_is_set_up_again_keeps_its_source() {
        let mut session = session(1);
        let transport = Transport { source: Some(2), ..Transport::interleaved((4, 5)) };
        let again = session.set_up(Track { source: 2, transport, ..track(0) }).unwrap();
        assert_eq!((again.source, again.channels), (Some(1), Some((4, 5))));
        assert_eq!((session.tracks.len(), session.tracks[0].source), (1, 1));
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
