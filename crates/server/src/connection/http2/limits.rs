//! The limits of one HTTP/2 connection, by name, and where the protocol's implementation is told of them.
//!
//! Together they bound what a client can make us hold: streams, fields, bytes of bodies, jobs for the disk; and what it
//! can make us do for nothing: streams reset before they are answered, refused, or opened in error.

use std::time::Duration;

use h2::server::Builder;
use sojourn_http::limits::HEAD_BYTES_MAX;

use crate::connection::Lane;

/// Streams open at once; more are refused (SETTINGS_MAX_CONCURRENT_STREAMS).
pub const STREAMS_MAX: usize = 100;

/// The fields of a request, counted as RFC 9113, 6.5.2 has it. More are answered 431; the frames they may come in are
/// limited with them (the CONTINUATION flood, CVE-2024-27316).
pub const FIELD_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// A field block as it comes, compressed, and the frames after the first that it may come in.
pub const FIELD_BLOCK_BYTES_MAX: usize = 4 * FIELD_BYTES_MAX;
pub const CONTINUATIONS_MAX: usize = 8;

/// The largest frame that a client may send: the protocol's least (SETTINGS_MAX_FRAME_SIZE).
pub const FRAME_BYTES_MAX: usize = 16 * 1024;

/// The client's HPACK table (SETTINGS_HEADER_TABLE_SIZE).
pub const FIELD_TABLE_BYTES: u32 = 4096;

/// Bytes of bodies that may wait in the implementation's queues, of all streams together. The client's windows may be
/// larger; they do not make us hold more.
pub const WAITING_BYTES_MAX: usize = 256 * 1024;

/// The same of one stream, so that one cannot have it all.
pub const STREAM_WAITING_BYTES_MAX: usize = 64 * 1024;

/// Frames that are sent in one go.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of files that may be read ahead of the clients' windows, of all streams together: beyond it a slice is as small
/// as the window.
pub const READ_AHEAD_BYTES_MAX: usize = 256 * 1024;

/// Bytes of a large body read at a time: one output, with the headers of its frames.
pub const SLICE_BYTES: usize = OUTPUT_BYTES_MAX - 1024;

/// At least so much of it, however small the client's window, while little was read ahead: a frame.
pub const SLICE_BYTES_MIN: usize = 16 * 1024;

/// Bytes that a client may still send after the last frame before the connection closes.
pub const LINGER_BYTES_MAX: u64 = 1024 * 1024;

/// Jobs for the disk under way at once.
pub const JOBS_MAX: usize = Lane::COUNT;

/// Streams that a client may cancel beyond those that it took the answer of. Browsers cancel when their user
/// navigates away; more cancels than that are an attack (rapid reset, CVE-2023-44487).
pub const CANCELLED_MAX: u32 = 2 * STREAMS_MAX as u32;

/// Streams that are cancelled so soon that they were not even begun.
const CANCELLED_AT_ONCE_MAX: usize = 20;

/// Streams that are reset because of what the client sent on them, in a burst, and after that each second
/// (CVE-2025-8671). Behind a front that multiplexes, a connection is that of many users.
pub const FAULTS_MAX: u32 = 200;
pub const FAULTS_PER_SECOND: u32 = 20;

/// Those that the implementation resets by itself: bodies of another length than announced.
const ERRORS_MAX: usize = 10_000;

/// Streams that were reset and are remembered for a while, because the client may still be sending on them.
const REMEMBERED_MAX: usize = STREAMS_MAX;
const REMEMBERED: Duration = Duration::from_secs(5);

/// A server's side of the protocol within these limits.
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
