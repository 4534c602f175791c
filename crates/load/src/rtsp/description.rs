//! Parses a session description (SDP, RFC 8866): the playable tracks, and the film's length.
//!
//! Other lines are skipped, whatever they contain; everything that is kept is bounded.

use sojourn_media::rtsp::{NptRange, Start};

use crate::playout::track::Track;

/// The most tracks played.
pub const TRACKS_MAX: usize = 8;
/// The longest usable URL of a film or track.
pub const NAME_BYTES_MAX: usize = 1024;
const CLOCK_RATE_MAX: u32 = 1_000_000;

/// A film as described by the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Audio and video tracks in the order of the description.
    pub tracks: Vec<TrackDescription>,
    pub length_seconds: Option<f64>,
    /// The URL for PLAY and TEARDOWN, possibly relative; `*` or none means the description's base.
    pub control: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackDescription {
    /// The URL for SETUP, possibly relative.
    pub control: String,
    /// Its RTP payload type.
    pub payload_type: u8,
    /// Timestamp units per second.
    pub clock_rate: u32,
}

impl TrackDescription {
    /// The track's parameters for playout.
    pub fn track(&self) -> Track {
        Track { clock_rate: self.clock_rate, ssrc: None }
    }
}

impl Description {
    /// Parses a description; it has no tracks if none can be played.
    pub fn read(text: &str) -> Description {
        let mut description = Description::default();
        // Whether the lines describe the film, a played track, or another track.
        let mut part = Part::Film;
        for line in text.lines() {
            if let Some(media) = line.strip_prefix("m=") {
                part = description.begin_track(media);
            } else if let Some(attribute) = line.strip_prefix("a=") {
                let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
                description.read_attribute(part, name, value.trim());
            }
        }
        // A film with a single track may be set up as a whole; among several, a track needs a URL.
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
                let (control, clock_rate) = (String::new(), static_clock_rate(payload_type));
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
            // What is invalid in a request is not a URL.
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

/// The clock rate of a payload type without rtpmap, as only static ones may be (RFC 3551, tables 4 and 5).
fn static_clock_rate(payload_type: u8) -> u32 {
    match payload_type {
        0 | 3..=5 | 7..=9 | 12 | 13 | 15 | 18 => 8000,
        6 => 16_000,
        10 | 11 => 44_100,
        16 => 11_025,
        17 => 22_050,
        // All video, and MPEG audio (14).
        _ => 90_000,
    }
}

/// Parses `96 H264/90000` to payload type and clock rate.
fn clock_rate(rtpmap: &str) -> Option<(u8, u32)> {
    let (payload_type, encoding) = rtpmap.split_once(' ')?;
    let rate: u32 = encoding.split('/').nth(1)?.trim().parse().ok()?;
    ((1..=CLOCK_RATE_MAX).contains(&rate)).then_some((payload_type.parse().ok()?, rate))
}

/// Parses the length in `npt=0-30.5`; `None` without an end, as for a live stream.
fn length(range: &str) -> Option<f64> {
    let NptRange { start: Start::At(start), end: Some(end) } = NptRange::parse(range).ok()? else {
        return None;
    };
    end.checked_sub(start).map(|length| length.as_secs_f64()).filter(|&length| length > 0.0)
}

/// Returns true if the text is valid in a request.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Resolves a control attribute against the description's base.
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
    fn static_payload_types_need_no_rtpmap() {
        let text = "m=audio 0 RTP/AVP 0\na=control:0\nm=audio 0 RTP/AVP 14\na=control:1\nm=audio 0 RTP/AVP 10\n\
            a=control:2\nm=audio 0 RTP/AVP 8\na=rtpmap:8 PCMA/16000\na=control:3\nm=video 0 RTP/AVP 26\na=control:4\n";
        let rates: Vec<u32> = Description::read(text).tracks.iter().map(|track| track.clock_rate).collect();
        assert_eq!(rates, [8000, 90_000, 44_100, 16_000, 90_000]);
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
