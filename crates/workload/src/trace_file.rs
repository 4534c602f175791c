//! The trace file: a compact binary [`Trace`](crate::trace::Trace), read front to back and fully validated.
//!
//! Little-endian throughout, in this order:
//!
//! | what | bytes |
//! |---|---|
//! | origin: Unix time in ns (i64), clock ahead of UTC in s (i32) | 12 |
//! | counts of documents, sessions, requests (u32 each) | 12 |
//! | in a file with times: count of paths that have them (u32) | 4 |
//! | behind it the times of all requests (*times*) | 2 × 8 to 2 × 64 |
//! | each of these paths: length of the host (u16) and of the path (u32), host and path in UTF-8, *times* | 6 + host + path + 2 × 8 to 2 × 64 |
//! | each document: size in bytes (u64), status (u16), length of the host (u16) and of the name (u32), host and name in UTF-8 | 16 + host + name |
//! | each session, by its start: start in ns (u64), count of requests (u32) | 12 |
//! | behind it each of its requests: offset in ns (u64), document (u32) | 12 |
//!
//! *Times* are two distributions, of requests and of upstreams, each of eight u64: count (if it is 0, the others are left
//! out), mean, p50, p90, p95, p99, p99.9 and greatest in ns. A file without times has the older magic, so that older versions
//! read it.
//!
//! Nothing follows. Memory is not reserved by the counts in the file but grows with the bytes read, and only the current
//! session is held.

mod indexed;
mod read;
mod without_failed;
mod write;

use crate::limits::{HOST_BYTES_MAX, LINE_BYTES_MAX, MAP_BYTES_MAX};
use std::io;

use thiserror::Error;

pub use indexed::{Index, IndexedTrace, PLACES_MAX};
pub use read::{Place, TraceReader};
pub use without_failed::{WithoutFailed, got};
pub use write::TraceWriter;

use crate::trace::Origin;

const MAGIC: [u8; 8] = *b"SJTRACE3";
/// The magic of a file that includes request durations.
const MAGIC_WITH_TIMES: [u8; 8] = *b"SJTRACE4";
/// Common prefix of all versions; the last byte of the magic is the version.
const MAGIC_NAME: &[u8] = b"SJTRACE";

/// The longest name: a whole line of a log, each byte replaced by the three of U+FFFD, behind the longest prefix of a
/// mapping.
pub const NAME_BYTES_MAX: usize = 3 * LINE_BYTES_MAX + MAP_BYTES_MAX;

/// The longest host with each byte replaced by the three of U+FFFD; a mapped host is shorter.
pub const HOST_TEXT_BYTES_MAX: usize = 3 * HOST_BYTES_MAX;

/// The limit of times after the trace's origin, and of the origin itself from 1970: 146 years, so that sums stay within
/// 63 bits.
pub const TIME_NS_MAX: u64 = 1 << 62;

/// The header of a trace file, before its documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub origin: Origin,
    pub documents: u32,
    pub sessions: u32,
    pub requests: u32,
}

#[derive(Debug, Error)]
pub enum TraceFileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file does not start with the magic of a trace file.
    #[error("not a Sojourn trace file: it does not begin with SJTRACE3 or SJTRACE4")]
    NotATrace,
    #[error(
        "a trace file of another version (SJTRACE{}, not SJTRACE3 or SJTRACE4): import its log again with `sojourn trace LOG --output TRACE`", char::from(*.0)
    )]
    OtherVersion(u8),
    #[error("the trace file ends in the middle of its {0}")]
    Truncated(&'static str),
    #[error("the trace file has data after its last request")]
    TrailingBytes,
    /// A count, length or time exceeds its limit.
    #[error("the trace file has {value} as {what}; the limit is {limit}")]
    TooLarge { what: &'static str, value: u64, limit: u64 },
    /// Values in the file contradict each other.
    #[error("the trace file is damaged: {0}")]
    Inconsistent(&'static str),
}
