//! The media playlist (RFC 8216, 4.3) of a film that is there whole.

use std::fmt::Write;
use std::time::Duration;

use super::Part;

/// The playlist of segments that begin at `times`, of which the last is the film's end.
pub fn write(times: &[Duration]) -> String {
    let lengths: Vec<_> = times.windows(2).map(|ends| ends[1].saturating_sub(ends[0])).collect();
    // No segment may be longer when both are rounded (4.3.3.1).
    let longest = lengths.iter().map(|length| length.as_secs_f64().round() as u64).max().unwrap_or(0);
    let mut text = format!(
        "#EXTM3U\n\
         #EXT-X-VERSION:7\n\
         #EXT-X-TARGETDURATION:{target}\n\
         #EXT-X-MEDIA-SEQUENCE:0\n\
         #EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXT-X-INDEPENDENT-SEGMENTS\n\
         #EXT-X-MAP:URI=\"{map}\"\n",
        target = longest.max(1),
        map = Part::Initialisation.name(),
    );
    for (number, length) in lengths.iter().enumerate() {
        let (seconds, name) = (length.as_secs_f64(), Part::Segment(number as u32).name());
        let _ = write!(text, "#EXTINF:{seconds:.6},\n{name}\n");
    }
    text.push_str("#EXT-X-ENDLIST\n");
    text
}
