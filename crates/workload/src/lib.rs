//! Workloads without input or output: access logs in, documents, sessions and arrival times out.
//!
//! Read `trace` first: it is what everything here is about. Randomness is always an argument, so that a
//! seed says it all.

pub mod arrivals;
mod draw;
pub mod trace;
