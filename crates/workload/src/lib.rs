//! Workloads without input or output: access logs in, documents, sessions and arrival times out.

pub mod arrivals;
pub mod trace;
