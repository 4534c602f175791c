//! Stores the objects of a cache: in memory, on disk, and in transit from an upstream.
//!
//! A [`Key`] finds an [`Object`], which has a body and metadata that only the caller understands. After a miss one
//! [`Insertion`] writes the body. Until it is complete it is a [`BusyObject`], which any number of [`Reader`]s follow
//! (request coalescing). Nothing here blocks: where a result is not available yet, you leave a
//! [`Waker`](std::task::Waker), which may be called from any thread. Operations that may wait for the disk are
//! [`DiskJob`]s, which you perform on a thread of your own.

mod admission;
mod body;
mod busy_object;
mod charge;
mod disk;
mod key;
mod memory;
mod memory_file;
mod object;
mod ranges;
mod reader;
pub mod replacement;
pub mod simulation;
mod store;
mod variants;

pub use admission::{ADMISSIONS, Admission, AdmissionKind, admission_by_name};
pub use body::Slice;
pub use busy_object::{BUFFER_BYTES_MAX, BusyObject, ObjectHead, Sharing, Stage};
pub use charge::Charge;
pub use disk::{DISK_JOBS_MAX, DiskCounts, DiskJob, DiskLookup, DiskSettings};
pub use key::{KEY_TEXT_BYTES_MAX, Key};
pub use object::{Extent, OBJECT_OVERHEAD_BYTES, Object, ObjectKind, SMALL_BODY_BYTES_MAX};
pub use ranges::{RANGES_MAX, StoredRanges};
pub use reader::{Next, Reader};
pub use store::{
    InsertOutcome, Insertion, Lookup, MemoryCounts, ObjectInfo, PartHead, PartInsertion, Settings, Store,
    Truncated,
};
pub use variants::{VARIANTS_MAX, Variants, Vary};
