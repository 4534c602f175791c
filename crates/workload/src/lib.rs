//! Workloads without I/O: access logs in; documents, sessions and arrival times out.
//!
//! Read `trace` first (the central type), then `import` (where traces come from) and `arrivals` (how they are
//! replayed). Randomness is always an argument, so a seed determines everything.

#![forbid(unsafe_code)]

pub mod arrivals;
pub mod characterise;
pub mod import;
mod limits;
pub mod request_times;
pub mod sessions;
pub mod sorting;
pub mod synthesis;
pub mod trace;
pub mod trace_file;
mod variates;
pub mod web99;
