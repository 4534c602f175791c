//! The index of an MP4 or QuickTime file: its tracks and codecs, and for each sample its position in the file, its
//! time, and whether it is a keyframe.
//!
//! [`Index::read`] reads the headers of the outermost boxes and the box `moov` through the caller's `read_at` (a file,
//! a cache, or memory), and nothing else. Supported are H.264, H.265 and AAC in unfragmented files. Everything else,
//! and everything inconsistent, is [refused](Mp4Error) with what is wrong and where.
//!
//! The parser is our own because any user's file must stay within the limits below: it believes a count only if the
//! bytes for so many entries are there. `mp4-atom` names the box of an error but not its position in the file, which
//! our messages do, and it copies the sample tables into vectors before their total could be limited.

use std::fmt;

mod audio;
pub(crate) mod boxes;
mod codec;
mod error;
pub mod example;
mod index;
mod movie;
mod tables;
#[cfg(test)]
mod tests;
mod video;

pub use codec::{Aac, Codec, H264, H265};
pub use error::Mp4Error;
pub use index::{Index, Sample, Track};

/// The four-character code of a box or codec.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FourCc(pub [u8; 4]);

impl fmt::Display for FourCc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_ascii(), formatter)
    }
}

impl fmt::Debug for FourCc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The largest `moov`. Two hours of film take about 10 MB.
pub const MOVIE_BYTES_MAX: u64 = 64 << 20;

/// The most outermost boxes searched for `moov`.
pub const OUTER_BOXES_MAX: usize = 1024;

pub const CHILDREN_MAX: usize = 4096;

/// The most tracks of a file, unsupported ones included; RTP has as many dynamic payload types.
pub const TRACKS_MAX: usize = 32;

/// The most samples of a file: a day at 24 pictures a second. Each takes 24 bytes of memory, keyframes 4 more, so an
/// index takes at most 59 MB.
pub const SAMPLES_MAX: usize = 1 << 21;

/// The largest sample, which a server holds in memory.
pub const SAMPLE_BYTES_MAX: u32 = 16 << 20;

/// The largest decoder configuration; usual ones have a few hundred bytes.
pub const CONFIGURATION_BYTES_MAX: usize = 64 << 10;

pub const EDITS_MAX: usize = 64;

/// The highest timescale: nanoseconds can still tell two ticks apart.
pub const TIMESCALE_MAX: u32 = 1_000_000_000;

/// The latest time in a track, in ticks, and so the longest duration. Sums stay far from overflow.
pub const TICKS_MAX: u64 = 1 << 48;
