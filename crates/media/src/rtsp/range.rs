//! The Range field in normal play time (RFC 2326, 3.6): which part of a film to play.

use std::fmt;
use std::time::Duration;

/// Where playing starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this film time.
    At(Duration),
    Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NptRange {
    pub start: Start,
    /// Where playing ends; `None` for the film's end.
    pub end: Option<Duration>,
}

/// Why a Range is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("the range is not in normal play time")]
    Unit,
    /// Invalid syntax of normal play time.
    #[error("the range is malformed")]
    Malformed,
}

/// The largest number of seconds; sums do not overflow.
const SECONDS_MAX: u64 = 1 << 40;

impl NptRange {
    /// Parses `field`; parameters after the range are ignored.
    ///
    /// # Errors
    /// If it uses another unit, or is malformed.
    pub fn parse(field: &str) -> Result<NptRange, RangeError> {
        let range = field.split(';').next().unwrap_or_default().trim();
        let (unit, range) = range.split_once('=').ok_or(RangeError::Malformed)?;
        if unit.trim() != "npt" {
            return Err(RangeError::Unit);
        }
        let (start, end) = range.split_once('-').ok_or(RangeError::Malformed)?;
        let (start, end) = (start.trim(), end.trim());
        let end = if end.is_empty() { None } else { Some(time(end).ok_or(RangeError::Malformed)?) };
        let start = match start {
            "now" => Start::Now,
            // From the current position to that time.
            "" if end.is_some() => Start::Now,
            "" => return Err(RangeError::Malformed),
            text => Start::At(time(text).ok_or(RangeError::Malformed)?),
        };
        Ok(NptRange { start, end })
    }
}

impl fmt::Display for NptRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.start {
            Start::At(time) => write!(out, "npt={}-", Seconds(time))?,
            Start::Now => write!(out, "npt=now-")?,
        }
        self.end.map_or(Ok(()), |end| write!(out, "{}", Seconds(end)))
    }
}

/// Writes seconds, with microseconds if they are not 0.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.0.as_secs(), self.0.subsec_micros());
        out.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Parses `12.5` or `1:02:03.25`.
fn time(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let seconds = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(seconds), None, ..) => number(seconds)?,
        (Some(hours), Some(minutes), Some(seconds), None) => {
            let (minutes, seconds) = (number(minutes)?, number(seconds)?);
            if minutes > 59 || seconds > 59 {
                return None;
            }
            number(hours)?.checked_mul(3600)? + minutes * 60 + seconds
        }
        _ => return None,
    };
    if seconds > SECONDS_MAX {
        return None;
    }
    let is_fraction = fraction.bytes().all(|byte| byte.is_ascii_digit());
    // Digits beyond nanoseconds are dropped.
    let nanoseconds = format!("{:0<9.9}", fraction).parse().ok().filter(|_| is_fraction)?;
    Some(Duration::new(seconds, nanoseconds))
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackInfo<'t> {
    /// The track's URL, as in SETUP.
    pub url: &'t str,
    pub sequence: Option<u16>,
    pub timestamp: Option<u32>,
}

/// The tracks in an RTP-Info field; malformed ones are skipped.
pub fn track_infos(field: &str) -> impl Iterator<Item = TrackInfo<'_>> {
    // URLs may contain commas, so a new track is recognised by its first parameter's name.
    let mut rest = field.trim();
    std::iter::from_fn(move || {
        loop {
            let text = rest.strip_prefix("url=")?;
            let end = next_url(text).unwrap_or(text.len());
            rest = text[end..].trim_start_matches([',', ' ', '\t']);
            if let Some(info) = track_info(text[..end].trim_end_matches([',', ' ', '\t'])) {
                return Some(info);
            }
        }
    })
}

/// The offset at which the next track begins.
fn next_url(text: &str) -> Option<usize> {
    text.match_indices("url=").map(|(at, _)| at).find(|at| text[..*at].trim_end().ends_with(','))
}

fn track_info(text: &str) -> Option<TrackInfo<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let mut info =
        TrackInfo { url: parts.next().filter(|url| !url.is_empty())?, sequence: None, timestamp: None };
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name {
            "seq" => info.sequence = value.parse().ok(),
            "rtptime" => info.timestamp = value.parse().ok(),
            _ => {}
        }
    }
    Some(info)
}

impl fmt::Display for TrackInfo<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "url={}", self.url)?;
        if let Some(sequence) = self.sequence {
            write!(out, ";seq={sequence}")?;
        }
        self.timestamp.map_or(Ok(()), |timestamp| write!(out, ";rtptime={timestamp}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(field: &str, expected: Result<&str, RangeError>) {
        let range = NptRange::parse(field).map(|range| range.to_string());
        assert_eq!(range, expected.map(str::to_owned), "{field}");
    }

    #[test]
    fn ranges() {
        check("npt=0.000-", Ok("npt=0-"));
        check("npt=12.5-20", Ok("npt=12.5-20"));
        check("npt= 1:02:03.25 - ;time=19970123T143720Z", Ok("npt=3723.25-"));
        check("npt=now-", Ok("npt=now-"));
        check("npt=-30", Ok("npt=now-30"));
        check("npt=0.0000000009-", Ok("npt=0-"));
    }

    #[test]
    fn refusals() {
        check("smpte=10:12:33:20-", Err(RangeError::Unit));
        check("clock=19961108T143720.25Z-", Err(RangeError::Unit));
        for malformed in [
            "",
            "npt",
            "npt=",
            "npt=-",
            "npt=5",
            "npt=a-",
            "npt=1:2-",
            "npt=1:60:00-",
            "npt=+1-",
            "npt=1.5.5-",
            "npt=1.x-",
            "npt=99999999999999999999-",
            "npt=9999999999999-",
            "npt=1--2",
        ] {
            check(malformed, Err(RangeError::Malformed));
        }
    }

    #[test]
    fn several_tracks() {
        let field = "url=rtsp://h/a,b.mp4/trackID=1;seq=12;rtptime=345, url=rtsp://h/a,b.mp4/trackID=2;rtptime=9,url=x";
        let all: Vec<_> = track_infos(field).collect();
        let first = TrackInfo { url: "rtsp://h/a,b.mp4/trackID=1", sequence: Some(12), timestamp: Some(345) };
        assert_eq!(all[0], first);
        assert_eq!(
            (all[1].url, all[1].sequence, all[1].timestamp),
            ("rtsp://h/a,b.mp4/trackID=2", None, Some(9))
        );
        assert_eq!((all[2].url, all.len()), ("x", 3));
        assert_eq!(first.to_string(), "url=rtsp://h/a,b.mp4/trackID=1;seq=12;rtptime=345");
    }

    #[test]
    fn rubbish() {
        for field in ["", ",", "url=", "seq=1", "url=;seq=1"] {
            assert_eq!(track_infos(field).count(), 0, "{field}");
        }
        let odd = track_infos("url=a;seq=70000;rtptime=-1").next().unwrap();
        assert_eq!((odd.url, odd.sequence, odd.timestamp), ("a", None, None));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(start in 0..1_000_000_000_u64, end in proptest::option::of(0..1_000_000_000_u64)) {
            let at = Duration::from_micros;
            let range = NptRange { start: Start::At(at(start)), end: end.map(at) };
            prop_assert_eq!(NptRange::parse(&range.to_string()), Ok(range));
        }
    }
}
