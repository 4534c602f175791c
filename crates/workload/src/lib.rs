//! Workloads without input or output: access logs in, documents, sessions and arrival times out.
//!
//! Read `trace` first (what everything here is about), then `import` (where traces come from) and
//! `arrivals` (how they are replayed). Randomness is always an argument, so that a seed says it all.

pub mod arrivals;
pub mod characterise;
mod draw;
pub mod import;
pub mod sessions;
pub mod sorting;
pub mod synthesis;
pub mod trace;
pub mod trace_file;
pub mod web99;
