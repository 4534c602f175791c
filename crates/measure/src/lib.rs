//! Measurement: clocks, latency histograms, counters of processes and cores.
//!
//! The crate only reads; others interpret. A value that the machine does not offer is [`Reading::Unavailable`] with the
//! reason, never zero, because an unmeasured zero looks like a good result.

pub mod affinity;
pub mod caches;
pub mod clock;
pub mod confinement;
pub mod core_time;
pub mod core_use;
pub mod counters;
mod descriptors;
pub mod histogram;
pub mod interval_log;
pub mod limits;
pub mod machine;
pub mod memory;
pub mod priority;
pub mod probe;
mod proc_file;
pub mod process;
mod process_tree;
mod reading;
pub mod site_pages;
pub mod tcp;
pub mod virtual_time;
mod window_histogram;

pub use clock::Nanos;
pub use histogram::{Histogram, Summary};
pub use process_tree::{ProcessTree, ProcessUse, TreeSample};
pub use reading::Reading;
pub use window_histogram::{WindowCounts, WindowHistogram};
