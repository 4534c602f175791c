//! Reads a session description (SDP, RFC 8866): the playable tracks, and the film's length.
//!
//! Other lines are skipped, whatever they contain; all that is read is bounded.

use sojourn_media::rtsp::{NptRange, Start};

use crate::playout::track::Track;

/// Tracks beyond these are not played.
pub const TRACKS_MAX: usize = 8;
/// A longer name of a film or a track could not be asked for.
pub const NAME_BYTES_MAX: usize = 1024;
/// The clock of a payload type without a description (RFC 3551): video of 90 kHz.
const CLOCK_RATE_DEFAULT: u32 = 90_000;
const CLOCK_RATE_MAX: u32 = 1_000_000;

/// A film as the server describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Audio and video, in the order of the description.
    pub tracks: Vec<TrackDescription>,
    pub length_seconds: Option<f64>,
    /// The URL that PLAY and TEARDOWN speak of, relative or not; `*` and nothing mean the description's own.
    pub control: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackDescription {
    /// The URL of SETUP, relative or not.
    pub control: String,
    /// The payload type that its packets carry.
    pub payload_type: u8,
    /// Units of its timestamps per second.
    pub clock_rate: u32,
}

impl TrackDescription {
    /// The track's parameters for playout.
    pub fn track(&self) -> Track {
        Track { clock_rate: self.clock_rate, ssrc: None }
    }
}

impl Description {
    /// Reads one; without tracks if there are none to be played.
    pub fn read(text: &str) -> Description {
        let mut description = Description::default();
        // Whether the lines belong to the film as a whole, to a track that is played, or to another.
        let mut part = Part::Film;
        for line in text.lines() {
            if let Some(media) = line.strip_prefix("m=") {
                part = description.begin_track(media);
            } else if let Some(attribute) = line.strip_prefix("a=") {
                let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
                description.read_attribute(part, name, value.trim());
            }
        }
        // A film of one track may be set up as a whole; among several, one without a name cannot be.
        if description.tracks.len() > 1 {
            description.tracks.retain(|track| !track.control.is_empty());
        }
        description
    }

    fn begin_track(&mut self, media: &str) -> Part {
        let mut words = media.split_ascii_whitespace();
        let kind = words.next().unwrap_or_default();
        let is_rtp = words.nth(1).is_some_and(|profile| profile.starts_with("RTP/AVP"));
        let payload_type = words.next().and_then(|word| word.parse().ok());
        match payload_type {
            Some(payload_type) if is_rtp && payload_type < 128 && matches!(kind, "video" | "audio") => {
                if self.tracks.len() == TRACKS_MAX {
                    return Part::Other;
                }
                let (control, clock_rate) = (String::new(), CLOCK_RATE_DEFAULT);
                self.tracks.push(TrackDescription { control, payload_type, clock_rate });
                Part::Track
            }
            _ => Part::Other,
        }
    }

    fn read_attribute(&mut self, part: Part, name: &str, value: &str) {
        match (part, name) {
            (Part::Film, "control") if is_name(value) => {
                self.control = Some(value.to_owned());
            }
            (Part::Film | Part::Track, "range") => {
                self.length_seconds = self.length_seconds.or_else(|| length(value));
            }
            // What could not stand in a request is no name.
            (Part::Track, "control") if is_name(value) => {
                self.tracks.last_mut().expect("a track has begun").control = value.to_owned();
            }
            (Part::Track, "rtpmap") => {
                let track = self.tracks.last_mut().expect("a track has begun");
                if let Some((payload_type, rate)) = clock_rate(value)
                    && payload_type == track.payload_type
                {
                    track.clock_rate = rate;
                }
            }
            _ => {}
        }
    }
}

#[derive(Clone, Copy)]
enum Part {
    Film,
    Track,
    Other,
}

/// The payload type and the clock of `96 H264/90000`.
fn clock_rate(rtpmap: &str) -> Option<(u8, u32)> {
    let (payload_type, encoding) = rtpmap.split_once(' ')?;
    let rate: u32 = encoding.split('/').nth(1)?.trim().parse().ok()?;
    ((1..=CLOCK_RATE_MAX).contains(&rate)).then_some((payload_type.parse().ok()?, rate))
}

/// The length of `npt=0-30.5`; nothing where there is no end, as of what is live.
fn length(range: &str) -> Option<f64> {
    let NptRange { start: Start::At(start), end: Some(end) } = NptRange::parse(range).ok()? else {
        return None;
    };
    end.checked_sub(start).map(|length| length.as_secs_f64()).filter(|&length| length > 0.0)
}

/// Returns true if a text can stand in a request.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The URL that a control attribute means against the description's own base.
pub fn joined(base: &str, control: &str) -> String {
    if control.is_empty() || control == "*" {
        base.to_owned()
    } else if control.starts_with("rtsp://") {
        control.to_owned()
    } else if base.ends_with('/') {
        format!("{base}{control}")
    } else {
        format!("{base}/{control}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILM: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\na=range:npt=0-30.5\r\na=control:*\r\n\
        m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:stream=0\r\n\
        m=application 0 RTP/AVP 98\r\na=control:stream=2\r\n\
        m=audio 0 RTP/AVP 97 98\r\na=rtpmap:98 L16/8000\r\na=rtpmap:97 mpeg4-generic/22050/1\r\na=control:stream=1\r\n";

    #[test]
    fn tracks_are_audio_and_video_with_their_clocks() {
        let film = Description::read(FILM);
        let found: Vec<_> = film
            .tracks
            .iter()
            .map(|track| (track.control.as_str(), track.payload_type, track.clock_rate))
            .collect();
        assert_eq!(found, [("stream=0", 96, 90_000), ("stream=1", 97, 22_050)]);
        assert_eq!((film.length_seconds, film.control.as_deref()), (Some(30.5), Some("*")));
    }

    #[test]
    fn lengths() {
        assert_eq!(length("npt=0:00:01.5-0:01:02"), Some(60.5));
        assert_eq!(length("npt=now-"), None);
        assert_eq!(length("npt=5-5"), None);
        assert_eq!(length("npt=0-nan"), None);
        assert_eq!(length("clock=1-2"), None);
    }

    #[test]
    fn controls_join_the_base() {
        assert_eq!(joined("rtsp://a/film/", "trackID=1"), "rtsp://a/film/trackID=1");
        assert_eq!(joined("rtsp://a/film", "trackID=1"), "rtsp://a/film/trackID=1");
        assert_eq!(joined("rtsp://a/film", "rtsp://b/x"), "rtsp://b/x");
        assert_eq!(joined("rtsp://a/film", "*"), "rtsp://a/film");
    }

    #[test]
    fn rubbish_has_no_tracks() {
        for text in [
            "",
            "m=",
            "m=video",
            "m=video 0 RTP/AVP x",
            "m=video 0 UDP 96\na=control:x",
            "a=control",
            "\u{0}m=\n\n",
        ] {
            assert!(Description::read(text).tracks.is_empty(), "{text:?}");
        }
        let many = "m=video 0 RTP/AVP 96\na=control:x\n".repeat(100);
        assert_eq!(Description::read(&many).tracks.len(), TRACKS_MAX);
    }
}
