//! How a body travels, by its size: copied behind its head, gathered from memory, or sent from its file.
//!
//! One send of a copied body is cheapest for the smallest, where a second piece costs the kernel more than the
//! copy. From memory every byte is copied into the kernel; from the page cache none is, but that takes another
//! call. Where each begins to win is measured (`docs/server-benchmark.md`), and can be moved for experiments.

/// Flash's alignment: the copy of what follows a head begins at a multiple of this.
pub const HEAD_ALIGNMENT_BYTES: usize = 32;

/// The sizes at which one way gives place to the next, and what heads look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendPath {
    /// Bodies up to this are copied behind their head: one buffer, one send.
    pub copied_bytes_max: u64,
    /// Bodies up to this are kept in memory, those that are not copied in chunks that are gathered with the head;
    /// larger ones are sent from the page cache.
    pub memory_bytes_max: u64,
    /// True if heads are padded to a multiple of [`HEAD_ALIGNMENT_BYTES`].
    pub aligns_heads: bool,
}

impl Default for SendPath {
    fn default() -> Self {
        SendPath { copied_bytes_max: 8 * 1024, memory_bytes_max: 16 * 1024, aligns_heads: false }
    }
}

impl SendPath {
    /// The largest body that is kept in memory, whichever way it is sent.
    pub fn in_memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max.max(self.copied_bytes_max)
    }
}
