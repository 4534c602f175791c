//! The limits of one HTTP/2 connection.
//!
//! Together they bound what a client can make the server hold (streams, fields, body bytes, disk jobs), and the work it
//! can cause for nothing (streams reset before they are answered, refused, or opened in error).

use std::time::Duration;

use sojourn_http::http2::{Limits, WINDOW_BYTES};
use sojourn_http::limits::HEAD_BYTES_MAX;

use crate::connection::Lane;
use crate::memory::is_short;

/// Streams open at once; more are refused (SETTINGS_MAX_CONCURRENT_STREAMS).
pub const STREAMS_MAX: usize = 100;

/// The largest request head, counted as in RFC 9113, 6.5.2. A larger one is answered 431. The number of frames it may
/// take is limited, too (CONTINUATION flood, CVE-2024-27316).
const FIELD_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// The largest compressed field block, over all its frames.
const FIELD_BLOCK_BYTES_MAX: usize = 4 * FIELD_BYTES_MAX;
const CONTINUATIONS_MAX: usize = 8;

/// The most bytes of frames per send; no more frames of the client are read while so many wait.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// The same while memory is short.
const OUTPUT_BYTES_MAX_SHORT: usize = 16 * 1024;

/// How many may be gathered now.
pub fn output_bytes_max() -> usize {
    if is_short() { OUTPUT_BYTES_MAX_SHORT } else { OUTPUT_BYTES_MAX }
}

/// How much of an output is left by bodies for heads: with those of a few new streams it is still encrypted and sent at
/// once, and has no small rest.
pub const HEADS_BYTES: usize = 4 * 1024;

/// The least room in an output for another part of a body.
pub const ROOM_BYTES_MIN: usize = 512;

/// The most file bytes read ahead of the client's windows, over all streams; beyond it, no more than the windows allow.
pub const READ_AHEAD_BYTES_MAX: usize = 64 * 1024;

/// The most file bytes read and not sent, even if the windows allow more: two slices beyond those read ahead. These can be
/// sent when the client reads, so streams never wait for each other.
pub const UNSENT_BYTES_MAX: usize = 3 * READ_AHEAD_BYTES_MAX;

/// How many bytes the kernel takes that it has not sent yet. It would take up to some megabytes of a client that reads nothing
/// any more, and what is more urgent would come after them.
pub const KERNEL_UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// How much of a large body is read at a time: one output, including frame headers.
pub const SLICE_BYTES: usize = OUTPUT_BYTES_MAX - HEADS_BYTES - 1024;

/// The smallest slice while little was read ahead, even for a small window: one frame.
pub const SLICE_BYTES_MIN: usize = 16 * 1024;

/// Parts of a body in memory from this size on are sent from where they are; copying smaller ones is cheaper.
pub const GATHERED_BYTES_MIN: usize = 4 * 1024;

/// Bytes that a client may still send after the last frame before the connection is closed.
pub const LINGER_BYTES_MAX: u64 = 1024 * 1024;

pub const JOBS_MAX: usize = Lane::COUNT;

/// How many more streams a client may cancel than it has read responses. Browsers cancel when the user navigates away;
/// more than that is an attack (rapid reset, CVE-2023-44487).
pub const CANCELLED_MAX: u32 = 2 * STREAMS_MAX as u32;

/// The most streams cancelled before they were even started, in what is read at a time.
pub const CANCELLED_AT_ONCE_MAX: u32 = 20;

/// The most streams reset because of the client's errors: in a burst, and afterwards per second (CVE-2025-8671). A
/// front-end proxy may multiplex many users over one connection.
pub const FAULTS_MAX: u32 = 200;
pub const FAULTS_PER_SECOND: u32 = 20;

/// What the protocol's machine enforces of these limits.
pub fn of_protocol() -> Limits {
    Limits {
        streams_max: STREAMS_MAX as u32,
        field_bytes_max: FIELD_BYTES_MAX,
        block_bytes_max: FIELD_BLOCK_BYTES_MAX,
        continuations_max: CONTINUATIONS_MAX,
        stream_window: WINDOW_BYTES,
        connection_window: WINDOW_BYTES,
        output_bytes_max: OUTPUT_BYTES_MAX,
    }
}

/// The number of errors that a client may still make, of those that reset only their stream (RFC 9113, 5.4.2): a rate
/// limit, so it grows with time.
#[derive(Debug)]
pub struct ErrorAllowance {
    left: u32,
    grown: Duration,
}

impl Default for ErrorAllowance {
    fn default() -> ErrorAllowance {
        ErrorAllowance { left: FAULTS_MAX, grown: Duration::ZERO }
    }
}

impl ErrorAllowance {
    /// Returns false if one more exceeds the allowance.
    pub fn take(&mut self, now: Duration) -> bool {
        let more = now.saturating_sub(self.grown).as_secs().saturating_mul(FAULTS_PER_SECOND.into());
        if more > 0 {
            self.left = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(self.left).min(FAULTS_MAX);
            self.grown = now;
        }
        self.left.checked_sub(1).map(|left| self.left = left).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_grows_with_time() {
        let mut allowance = ErrorAllowance::default();
        let mut count = |seconds: f64| {
            let now = Duration::from_secs_f64(seconds);
            std::iter::repeat_with(|| allowance.take(now)).take_while(|is_allowed| *is_allowed).count()
        };
        assert_eq!(count(0.0), FAULTS_MAX as usize);
        assert_eq!(count(0.9), 0);
        assert_eq!(count(1.0), FAULTS_PER_SECOND as usize);
        assert_eq!(count(1.0), 0);
        assert_eq!(count(1000.0), FAULTS_MAX as usize);
    }
}
