//! HLS playlists (RFC 8216) as a player needs them: variants, or segments with their durations and locations.
//!
//! The library parses the lines; this module checks and bounds what it keeps of them.

use std::sync::Arc;

use m3u8_rs::{ByteRange, MasterPlaylist, MediaPlaylist, parse_playlist_res};
use sojourn_measure::Nanos;

use crate::hls::location::Location;

/// The longest accepted playlist; a film of ten hours in segments of two seconds needs less.
pub const PLAYLIST_BYTES_MAX: usize = 4 << 20;
const SEGMENTS_MAX: usize = 100_000;
/// The most variants considered.
const VARIANTS_MAX: usize = 100;
/// The largest accepted sequence number.
const NUMBER_MAX: u64 = 1 << 62;
/// The longest accepted segment.
const SEGMENT_SECONDS_MAX: f32 = 3_600.0;

#[derive(Clone, Debug, PartialEq)]
pub enum Playlist {
    /// The variants of a film.
    Master(Vec<Stream>),
    Media(Arc<Segments>),
}

/// A variant of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    pub path: String,
    /// The peak bit rate.
    pub bits_per_second: u64,
}

/// The segments of a film, or the current window of a live stream.
#[derive(Debug, PartialEq)]
pub struct Segments {
    /// In playing order.
    pub all: Vec<Segment>,
    pub first_number: u64,
    /// The target duration: no segment is longer.
    pub target: Nanos,
    /// True if no more segments will follow.
    pub is_ended: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub part: Part,
    pub length: Nanos,
    /// The initialisation part that must be read first.
    pub map: Option<Arc<Part>>,
}

/// A document or a byte range of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub path: String,
    /// The first byte and the length, if it is not the whole document.
    pub range: Option<(u64, u64)>,
}

impl Playlist {
    /// Parses the playlist at a location. The error says why it cannot be played.
    pub fn read(text: &[u8], location: &Location) -> Result<Playlist, &'static str> {
        match parse_playlist_res(text) {
            Err(_) => Err("the response is not a playlist"),
            Ok(m3u8_rs::Playlist::MasterPlaylist(found)) => master(&found, location),
            Ok(m3u8_rs::Playlist::MediaPlaylist(found)) => media(&found, location),
        }
    }
}

fn master(found: &MasterPlaylist, location: &Location) -> Result<Playlist, &'static str> {
    let playable = found.variants.iter().filter(|variant| !variant.is_i_frame).take(VARIANTS_MAX);
    let streams: Vec<Stream> = playable
        .map(|variant| Ok(Stream { path: location.join(&variant.uri)?, bits_per_second: variant.bandwidth }))
        .collect::<Result<_, &'static str>>()?;
    if streams.is_empty() {
        Err("the playlist has no playable variant")
    } else {
        Ok(Playlist::Master(streams))
    }
}

fn media(found: &MediaPlaylist, location: &Location) -> Result<Playlist, &'static str> {
    if found.media_sequence > NUMBER_MAX {
        return Err("the playlist's EXT-X-MEDIA-SEQUENCE is not a number");
    }
    if found.segments.len() > SEGMENTS_MAX {
        return Err("a playlist has too many segments");
    }
    let mut all: Vec<Segment> = Vec::with_capacity(found.segments.len());
    let (mut map, mut map_ends, mut ends) = (None, Ends::default(), Ends::default());
    for each in &found.segments {
        if let Some(named) = &each.map {
            map = Some(Arc::new(part(&named.uri, named.byte_range.as_ref(), location, &mut map_ends)?));
        }
        if !(0.0..=SEGMENT_SECONDS_MAX).contains(&each.duration) {
            return Err("a segment's duration is not a number");
        }
        all.push(Segment {
            part: part(&each.uri, each.byte_range.as_ref(), location, &mut ends)?,
            length: Nanos::from_seconds(f64::from(each.duration)),
            map: map.clone(),
        });
    }
    // A viewer starts the next film when one ends, so a film without length would be requested endlessly.
    if found.end_list && all.iter().all(|segment| segment.length == Nanos::ZERO) {
        return Err("the playlist has no segments");
    }
    let target = found.target_duration.clamp(1, SEGMENT_SECONDS_MAX as u64);
    Ok(Playlist::Media(Arc::new(Segments {
        all,
        first_number: found.media_sequence,
        target: Nanos::from_seconds(target as f64),
        is_ended: found.end_list,
    })))
}

/// Where the last byte range ended, and in which document: a range without offset continues there.
#[derive(Default)]
struct Ends {
    uri: String,
    at: u64,
}

fn part(
    uri: &str,
    range: Option<&ByteRange>,
    location: &Location,
    ends: &mut Ends,
) -> Result<Part, &'static str> {
    let path = location.join(uri)?;
    let Some(range) = range else { return Ok(Part { path, range: None }) };
    let follows = if ends.uri == uri { ends.at } else { 0 };
    let first = range.offset.unwrap_or(follows);
    let end = first.checked_add(range.length).filter(|_| range.length > 0);
    let end = end.ok_or("the byte range of a segment is malformed")?;
    *ends = Ends { uri: uri.to_owned(), at: end };
    Ok(Part { path, range: Some((first, range.length)) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Playlist, &'static str> {
        Playlist::read(text.as_bytes(), &Location { host: "h".into(), path: "/f/index.m3u8".into() })
    }

    fn segments(text: &str) -> Arc<Segments> {
        match read(text) {
            Ok(Playlist::Media(segments)) => segments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn segments_with_a_map() {
        let found = segments(
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:7\n#EXT-X-PLAYLIST-TYPE:VOD\n\
             #EXT-X-MAP:URI=\"init.mp4\"\n#EXTINF:5.500000,\n7.m4s\n#EXTINF:0.25,title\n8.m4s\n#EXT-X-ENDLIST\n",
        );
        assert_eq!((found.first_number, found.is_ended, found.target.seconds()), (7, true, 6.0));
        let parts: Vec<_> =
            found.all.iter().map(|each| (each.part.path.as_str(), each.length.seconds())).collect();
        assert_eq!(parts, [("/f/7.m4s", 5.5), ("/f/8.m4s", 0.25)]);
        assert!(found.all.iter().all(|each| each.map.as_ref().is_some_and(|map| map.path == "/f/init.mp4")));
    }

    #[test]
    fn bytes_of_one_file() {
        let found = segments(
            "#EXTM3U\r\n#EXT-X-TARGETDURATION:2\r\n#EXT-X-MAP:URI=\"a.mp4\",BYTERANGE=\"800@0\"\r\n\
             #EXTINF:2,\r\n#EXT-X-BYTERANGE:100@800\r\na.mp4\r\n#EXTINF:2,\r\n#EXT-X-BYTERANGE:50\r\na.mp4\r\n",
        );
        assert_eq!(found.all[0].map.as_ref().unwrap().range, Some((0, 800)));
        let ranges: Vec<_> = found.all.iter().map(|each| each.part.range).collect();
        assert_eq!((ranges, found.is_ended), (vec![Some((800, 100)), Some((900, 50))], false));
    }

    #[test]
    fn variants() {
        let text = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=300000,CODECS=\"avc1\"\nlow/index.m3u8\n\
            #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=100,URI=\"i.m3u8\"\n#EXT-X-STREAM-INF:BANDWIDTH=900000\nhigh.m3u8\n";
        let Ok(Playlist::Master(found)) = read(text) else { panic!("no variants") };
        let found: Vec<_> = found.iter().map(|each| (each.path.as_str(), each.bits_per_second)).collect();
        assert_eq!(found, [("/f/low/index.m3u8", 300_000), ("/f/high.m3u8", 900_000)]);
    }

    #[test]
    fn rubbish_is_refused() {
        for text in [
            "",
            "<html>",
            "#EXTM3U",
            "#EXTM3U\n#EXT-X-ENDLIST\n",
            "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttp://elsewhere/x\n",
            "#EXTM3U\n#EXTINF:-1,\na.ts\n#EXT-X-ENDLIST\n",
            "#EXTM3U\n#EXTINF:99999,\na.ts\n#EXT-X-ENDLIST\n",
            "#EXTM3U\n#EXTINF:1,\n#EXT-X-BYTERANGE:0@5\na.ts\n#EXT-X-ENDLIST\n",
            "#EXTM3U\n#EXTINF:1,\n#EXT-X-BYTERANGE:18446744073709551615@5\na.ts\n#EXT-X-ENDLIST\n",
        ] {
            let found = read(text);
            let is_empty = |found: &Playlist| matches!(found, Playlist::Media(list) if list.all.is_empty());
            assert!(found.as_ref().map_or(true, is_empty), "{text:?}: {found:?}");
        }
        let many = format!("#EXTM3U\n{}", "#EXTINF:1,\na\n".repeat(SEGMENTS_MAX + 1));
        assert!(read(&many).is_err());
    }

    proptest! {
        #[test]
        fn nothing_a_server_sends_breaks_it(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let location = Location { host: "h".into(), path: "/x".into() };
            let _ = Playlist::read(&bytes, &location);
            let _ = Playlist::read(&[b"#EXTM3U\n", &bytes[..]].concat(), &location);
        }

        #[test]
        fn nor_do_its_own_words(lines in prop::collection::vec(prop::sample::select(vec![
            "#EXTINF:1,", "#EXTINF:", "#EXTINF:nan,", "#EXTINF:1e30,", "a.ts", "#EXT-X-BYTERANGE:9@", "#EXT-X-BYTERANGE:7",
            "#EXT-X-MAP:URI=\"m\"", "#EXT-X-MAP:BYTERANGE=\"3\"", "#EXT-X-ENDLIST", "#EXT-X-STREAM-INF:BANDWIDTH=1",
            "#EXT-X-KEY:METHOD=AES-128", "#EXT-X-MEDIA-SEQUENCE:18446744073709551615", "#EXT-X-TARGETDURATION:0", "", "\"",
            "#EXT-X-DISCONTINUITY", "#EXT-X-PROGRAM-DATE-TIME:x", "#EXT-X-MEDIA:TYPE=AUDIO",
        ]), 0..40)) {
            let _ = read(&format!("#EXTM3U\n{}", lines.join("\n")));
        }
    }
}
