//! The content of a site: the origin, three caches in front of it, the residency test, and the helpers that wait for
//! the disk in place of the event loop.
//!
//! The caches are those of Flash (USENIX ATC 1999, 5.2 to 5.4): path to open document, document to response
//! fields, document to body. They never block and never touch a disk: a miss becomes a [`Job`], and the
//! architecture chooses whether the caller or a helper performs it.

mod caches;
mod document;
mod helpers;
mod job;
mod lru;
mod memory_budget;
mod memory_file;
mod origin;
mod readahead;
pub mod residency;
mod resource;
mod rules;

pub use caches::{Budgets, CacheCounts, Caches, Lookup};
pub use document::{Body, CHUNK_BYTES, Choice, Document, Extract, Identity, RemoteObject, Source};
pub use helpers::{HelperCounts, HelperKind, Helpers, Refused};
pub use job::{Done, FileRange, Job, LoadError, Opened, Opening, Urgency};
pub use lru::{Lru, Weight};
pub use memory_budget::{MemoryBudget, MemoryShare};
pub use memory_file::MemoryFile;
pub use origin::{Directories, Directory, Found, OpenError, Origin, OriginCounts, Origins, remote};
pub use readahead::Readahead;
pub use residency::{Absent, Residency, ResidencyCounts, Tester};
pub use resource::{HostId, Resource};
pub use rules::{CacheControl, Links, Precompressed, Rules};
