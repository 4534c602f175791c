//! Why an MP4 file is refused: what is wrong, at which byte or in which track, and what helps.

use std::io;

use super::FourCc;

#[derive(Debug, thiserror::Error)]
pub enum Mp4Error {
    #[error("reading at byte {offset} failed: {source}")]
    Read { offset: u64, source: io::Error },
    #[error("this is not an MP4 or QuickTime file: it does not start with one of their boxes")]
    Foreign,
    /// The file ends before the box `moov`.
    #[error(
        "the file has no index (box moov) in its {size_bytes} bytes: its writer was interrupted, or it was not \
         copied whole"
    )]
    NoMovie { size_bytes: u64 },
    /// A box or table promises more bytes than there are.
    #[error("{what} at byte {offset} extends beyond its end at byte {end}: the file is damaged or truncated")]
    Truncated { what: String, offset: u64, end: u64 },
    #[error("{what} at byte {offset}: the file is damaged")]
    Malformed { what: String, offset: u64 },
    #[error("{what} at byte {offset}: at most {limit} are allowed")]
    TooMuch {
        /// The quantity over its limit, and its value.
        what: String,
        offset: u64,
        limit: u64,
    },
    /// The samples are in fragments, so there is no index of the whole film.
    #[error(
        "the film is fragmented (box {kind} at byte {offset}) and so has no index of the whole\n\
         hint: ffmpeg -i IN -c copy -movflags +faststart OUT.mp4 makes it plain without coding it again"
    )]
    Fragmented {
        /// The box that shows that the file is fragmented.
        kind: FourCc,
        offset: u64,
    },
    /// A codec that cannot be streamed.
    #[error(
        "track {track} is {codec} at byte {offset}, which is not streamed\n\
         hint: convert it: H.264 and H.265 video and AAC audio are"
    )]
    Codec {
        /// The track's number in the file.
        track: u32,
        codec: String,
        offset: u64,
    },
    /// A feature of the format that is not supported.
    #[error("{what} at byte {offset} is not supported\nhint: {hint}")]
    Unsupported { what: String, offset: u64, hint: &'static str },
    #[error("the film has neither video nor audio")]
    NoTracks,
}

pub(super) const REMUX: &str = "ffmpeg -i IN -c copy OUT.mp4 writes it anew";
