//! Chooses how to send a body by its size: copied behind its head, gathered from memory, or sent from its file.
//!
//! For the smallest bodies a copy and a single piece are cheapest. Memory has to be copied into the kernel, the page
//! cache does not, but sending from it needs another call. The thresholds are measured (`docs/server-benchmark.md`) and
//! can be changed for experiments.

use sojourn_content::CHUNK_BYTES;

/// Flash's alignment: the copy of what follows a head starts at a multiple of this.
pub const HEAD_ALIGNMENT_BYTES: usize = 32;

/// The thresholds between the methods, and the alignment of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendPath {
    /// Bodies up to this size are copied behind their head: one buffer, one send.
    pub copied_bytes_max: u64,
    /// Bodies up to this size are kept in memory; those not copied are gathered with the head in chunks. Larger ones
    /// are sent from the page cache.
    pub memory_bytes_max: u64,
    /// True to pad heads to a multiple of [`HEAD_ALIGNMENT_BYTES`].
    pub aligns_heads: bool,
}

impl Default for SendPath {
    fn default() -> Self {
        SendPath { copied_bytes_max: 8 * 1024, memory_bytes_max: 16 * 1024, aligns_heads: false }
    }
}

impl SendPath {
    /// The largest body kept in memory, however it is sent. If it `is_framed`, by TLS or HTTP/2, the kernel cannot send it
    /// from the page cache: to read it each time would cost more.
    pub fn in_memory_bytes_max(&self, is_framed: bool) -> u64 {
        let least = if is_framed { CHUNK_BYTES } else { 0 };
        self.memory_bytes_max.max(self.copied_bytes_max).max(least)
    }
}
