//! The index of an MP4 or QuickTime file: which tracks it has, how they are coded, and where each sample lies, when it
//! is due and whether decoding can begin with it.
//!
//! [`Index::read`] asks for the headers of the file's outermost boxes and for its box `moov`, nothing else, by a
//! `read_at` of the caller's: a file, a cache, bytes in memory. What is streamed is H.264, H.265 and AAC in plain
//! files; everything else, and everything that does not add up, is [refused](Mp4Error) with what is wrong and where.
//!
//! The parser is our own, because anybody's file must cost no more than the limits below: it believes no count before the
//! bytes that the count promises are there. Not `mp4-atom`: its errors name a box but not its place in the file, which our
//! messages do, and it copies the sample tables into vectors before their sum could be limited.

mod audio;
pub(crate) mod boxes;
mod codec;
mod error;
#[cfg(any(test, feature = "example"))]
pub mod example;
mod index;
mod movie;
mod tables;
#[cfg(test)]
mod tests;
mod video;

pub use boxes::FourCc;
pub use codec::{Aac, Codec, H264, H265};
pub use error::Mp4Error;
pub use index::{Index, Sample, Track};

/// The largest `moov` that is read. Two hours of film take about 10 MB.
pub const MOVIE_BYTES_MAX: u64 = 64 << 20;

/// Outermost boxes that are looked at before `moov` must have come.
pub const OUTER_BOXES_MAX: usize = 1024;

pub const CHILDREN_MAX: usize = 4096;

/// Tracks of a file, also of kinds that are not streamed: RTP has as many payload types to give them.
pub const TRACKS_MAX: usize = 32;

/// Samples of a file: each takes 24 bytes of memory, and 4 more if decoding can begin with it but not with all, so that
/// an index has 59 MB at most. A day of 24 pictures a second.
pub const SAMPLES_MAX: usize = 1 << 21;

/// Bytes of one sample: a server has a whole one in memory.
pub const SAMPLE_BYTES_MAX: u32 = 16 << 20;

/// Bytes of a decoder's configuration: parameter sets are a few hundred.
pub const CONFIGURATION_BYTES_MAX: usize = 64 << 10;

/// Entries of an edit list.
pub const EDITS_MAX: usize = 64;

/// Ticks a second, so that a nanosecond tells two of them apart.
pub const TIMESCALE_MAX: u32 = 1_000_000_000;

/// The latest time in a track, in units of its timescale, and so the longest duration. Sums stay far from overflow.
pub const TICKS_MAX: u64 = 1 << 48;
