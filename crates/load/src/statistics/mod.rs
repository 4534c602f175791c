//! Results: the recorder, snapshots of all counters, checks of the run, and the report.

pub(crate) mod batch_means;
pub(crate) mod checks;
pub(crate) mod core_loss;
pub(crate) mod each_request;
pub(crate) mod generator_limit;
pub(crate) mod interval_totals;
pub(crate) mod intervals;
pub(crate) mod measured_interval;
pub(crate) mod observer;
pub(crate) mod outcome;
pub(crate) mod recorder;
pub mod report;
pub(crate) mod snapshot;
pub(crate) mod step;
mod step_windows;
pub(crate) mod timeline;
pub mod webstone;
pub(crate) mod windows;

pub use each_request::EachRequest;
pub use outcome::Outcome;
pub use report::{Figures, Report, StepLimit};
pub use timeline::{TICK, Timeline};
