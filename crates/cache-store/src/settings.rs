//! How much the store keeps by which rules, and what it counts.

use super::admission::{ADMISSIONS, AdmissionKind};
use crate::replacement;

/// How much is kept, and by which rules.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The budget of the memory tier: all that objects take, see [`OBJECT_BYTES`], and bodies on their way.
    pub memory_bytes: usize,
    /// Bytes of the largest body kept in memory.
    pub memory_object_bytes_max: u64,
    /// The memory tier's parts, each with its lock. One, and the policy sees everything; many, and threads seldom
    /// meet.
    pub shards: usize,
    /// Who goes.
    pub policy: replacement::Kind,
    /// Who gets in.
    pub admission: AdmissionKind,
    /// Bodies that are sent often are moved to files in memory; there are so many files at most, a descriptor each.
    pub files_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes: 256 << 20,
            memory_object_bytes_max: 8 << 20,
            shards: 16,
            policy: replacement::DEFAULT,
            admission: ADMISSIONS[0],
            files_max: 0,
        }
    }
}

/// The counters of the memory tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Bytes used of the budget now.
    pub bytes: u64,
    /// Objects held now.
    pub objects: u64,
    /// Objects evicted to make room.
    pub evictions: u64,
    /// Objects not let in: too large, or not admitted.
    pub refused: u64,
}
