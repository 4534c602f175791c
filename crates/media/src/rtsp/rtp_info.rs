//! The RTP-Info field (RFC 2326, 12.33): which packet of each track is the first after PLAY.

use std::fmt;

/// One track's first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackInfo<'t> {
    /// The track, as it was set up.
    pub url: &'t str,
    /// Its sequence number.
    pub sequence: Option<u16>,
    /// The timestamp at which the range begins.
    pub timestamp: Option<u32>,
}

/// The tracks that `field` tells of; what is malformed is left out.
pub fn track_infos(field: &str) -> impl Iterator<Item = TrackInfo<'_>> {
    // A URL may have a comma, so what begins another track is the name of its first parameter.
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

/// Where the next track's text begins.
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
}
