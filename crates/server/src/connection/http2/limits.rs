//! The limits of one HTTP/2 connection, and the configuration of `h2` with them.
//!
//! Together they bound what a client can make the server hold (streams, fields, body bytes, disk jobs), and the work it
//! can cause for nothing (streams reset before they are answered, refused, or opened in error).

use std::time::Duration;

use h2::server::Builder;
use sojourn_http::limits::HEAD_BYTES_MAX;

use crate::connection::Lane;
use crate::memory::is_short;

/// Streams open at once; more are refused (SETTINGS_MAX_CONCURRENT_STREAMS).
pub const STREAMS_MAX: usize = 100;

/// The largest request head, counted as in RFC 9113, 6.5.2. A larger one is answered 431. The number of frames it may
/// take is limited, too (CONTINUATION flood, CVE-2024-27316).
pub const FIELD_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// The largest compressed field block, over all its frames.
pub const FIELD_BLOCK_BYTES_MAX: usize = 4 * FIELD_BYTES_MAX;
pub const CONTINUATIONS_MAX: usize = 8;

/// The largest frame that a client may send: the minimum of SETTINGS_MAX_FRAME_SIZE.
pub const FRAME_BYTES_MAX: usize = 16 * 1024;

/// The size of the client's HPACK table (SETTINGS_HEADER_TABLE_SIZE).
pub const FIELD_TABLE_BYTES: u32 = 4096;

/// The most body bytes in `h2`'s queues, over all streams, even if the client's windows are larger.
pub const WAITING_BYTES_MAX: usize = 256 * 1024;

/// The same while memory is short.
const WAITING_BYTES_MAX_SHORT: usize = 32 * 1024;

/// How many may wait now.
pub fn waiting_bytes_max() -> usize {
    if is_short() { WAITING_BYTES_MAX_SHORT } else { WAITING_BYTES_MAX }
}

/// The same for one stream, so that one stream cannot use it all.
pub const STREAM_WAITING_BYTES_MAX: usize = 64 * 1024;

/// The most bytes of frames per send.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// The most file bytes read ahead of the clients' windows, over all streams; beyond it, slices are as small as the
/// window.
pub const READ_AHEAD_BYTES_MAX: usize = 256 * 1024;

/// How much of a large body is read at a time: one output, including frame headers.
pub const SLICE_BYTES: usize = OUTPUT_BYTES_MAX - 1024;

/// The smallest slice while little was read ahead, even for a small window: one frame.
pub const SLICE_BYTES_MIN: usize = 16 * 1024;

/// Bytes that a client may still send after the last frame before the connection is closed.
pub const LINGER_BYTES_MAX: u64 = 1024 * 1024;

pub const JOBS_MAX: usize = Lane::COUNT;

/// How many more streams a client may cancel than it has read responses. Browsers cancel when the user navigates away;
/// more than that is an attack (rapid reset, CVE-2023-44487).
pub const CANCELLED_MAX: u32 = 2 * STREAMS_MAX as u32;

/// The most streams cancelled before they were even started.
const CANCELLED_AT_ONCE_MAX: usize = 20;

/// The most streams reset because of the client's errors: in a burst, and afterwards per second (CVE-2025-8671). A
/// front-end proxy may multiplex many users over one connection.
pub const FAULTS_MAX: u32 = 200;
pub const FAULTS_PER_SECOND: u32 = 20;

/// Streams that `h2` resets by itself, for bodies that differ from the announced length.
const ERRORS_MAX: usize = 10_000;

/// How many reset streams are remembered, because the client may still be sending on them.
const REMEMBERED_MAX: usize = STREAMS_MAX;
const REMEMBERED: Duration = Duration::from_secs(5);

/// Configures the server side of `h2` with these limits.
pub fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX as u32)
        .max_header_list_size(FIELD_BYTES_MAX as u32)
        .header_table_size(FIELD_TABLE_BYTES)
        .max_send_buffer_size(STREAM_WAITING_BYTES_MAX)
        .max_pending_accept_reset_streams(CANCELLED_AT_ONCE_MAX)
        .max_local_error_reset_streams(Some(ERRORS_MAX))
        .max_concurrent_reset_streams(REMEMBERED_MAX)
        .reset_stream_duration(REMEMBERED);
    builder
}
