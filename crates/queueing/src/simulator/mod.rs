//! Discrete-event simulation: one station driven by a trace or by Poisson arrivals, or a whole system.
//!
//! A run decides its own length: it stops when the 95 % half-width of every figure asked for, the mean response time or
//! percentiles, is small enough, and reports for each figure whether it has converged, or why not. It checks itself by
//! identities that hold for any distribution: Little's law, the utilisation law and the exact workload. The same seed
//! gives the same result; a different seed gives another.

mod convergence;
mod encoding;
mod estimate;
mod histogram;
mod interval;
mod network;
mod poisson;
mod processor_speed;
mod recorder;
mod replications;
mod result;
mod sequential;
mod sessions;
mod timeline;
mod trace;
mod unreliable;
mod warm_up;

use thiserror::Error;

use crate::distribution::DistributionError;

pub(crate) use network::refuse_unstable;
pub use network::{ReplicationGroup, Trace, group_count, simulate_in_groups, simulate_system};
pub use poisson::{PoissonStation, simulate_poisson};
pub use processor_speed::{Interruption, Quota, SpeedChange};
pub use replications::REPLICATIONS_MAX;
pub use result::{
    ClassResult, Figure, Loss, ResponseTime, RouteResult, StationResult, StationRun, Stop, SystemResult,
    Target,
};
pub use sessions::{Answered, ChainedJob, Surroundings, simulate_sessions};
pub use trace::simulate_station;

/// The default limit of jobs: enough for ±1 % of a mean at ρ = 0.9.
pub const JOBS_MAX_DEFAULT: u64 = 50_000_000;
/// The default number of jobs before the half-width is first examined; checking earlier stops too early too often. A
/// loaded station is first checked later, when it has had time to reach steady state.
pub const JOBS_MIN_DEFAULT: u64 = 65_536;

/// How long to simulate, and with which seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Stop once the half-width of the 95 % interval of every target is at most this fraction of its estimate.
    pub relative_half_width: f64,
    /// The figures that must converge: the mean response time or percentiles, each with its own half-width.
    pub targets: Vec<Target>,
    /// Do not stop before this many jobs.
    pub jobs_min: u64,
    /// Stop after this many jobs in any case.
    pub jobs_max: u64,
    /// Two runs with equal seeds are equal, and two systems with equal seeds see the same jobs.
    pub seed: u64,
    /// Independent replications, run side by side on the machine's cores, all of the same length; 1 to 10,000.
    pub replications: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            relative_half_width: 0.02,
            targets: vec![Target::Mean],
            jobs_min: JOBS_MIN_DEFAULT,
            jobs_max: JOBS_MAX_DEFAULT,
            seed: 1,
            replications: 1,
        }
    }
}

impl Plan {
    fn validate(&self) -> Result<(), SimulationError> {
        if !(self.relative_half_width.is_finite() && self.relative_half_width > 0.0) {
            let (name, requirement) = ("half_width", "positive and finite");
            return Err(SimulationError::Parameter { name, requirement, value: self.relative_half_width });
        }
        if self.jobs_max == 0 {
            let (name, requirement) = ("jobs_max", "at least 1");
            return Err(SimulationError::Parameter { name, requirement, value: 0.0 });
        }
        if self.targets.is_empty() {
            let (name, requirement) = ("the number of targets", "at least 1");
            return Err(SimulationError::Parameter { name, requirement, value: 0.0 });
        }
        if !(1..=REPLICATIONS_MAX).contains(&self.replications) {
            let (name, requirement) = ("replications", "from 1 to 10000");
            let value = f64::from(self.replications);
            return Err(SimulationError::Parameter { name, requirement, value });
        }
        Ok(())
    }
}

/// The progress that a long simulation reports to its callback. A callback that returns `false` ends the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    pub jobs: u64,
    /// The limit of jobs; the run may stop earlier.
    pub jobs_max: u64,
    /// The estimate furthest from its goal at the last check; `None` before the first.
    pub estimate_seconds: Option<f64>,
    /// The half-width as a fraction of the estimate; infinite while no interval can be trusted.
    pub relative_half_width: Option<f64>,
}

/// The reason why a simulation cannot run.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SimulationError {
    /// A parameter is out of its domain.
    #[error("{name} must be {requirement}, not {value}")]
    Parameter {
        name: &'static str,
        /// Completes the sentence "NAME must be …".
        requirement: &'static str,
        value: f64,
    },
    /// The speed of a station falls to 0 as jobs accumulate.
    #[error(
        "{station} is unstable at any rate: its speed falls to 0 as jobs accumulate; limit them with `lps` and r near \
         the peak{}",
        at_line(*line)
    )]
    Collapses {
        station: String,
        /// Line of the system file that defines it.
        line: Option<usize>,
    },
    /// An open station would grow for ever.
    #[error(
        "{station} is unstable: its utilisation would be {utilisation:.4}; lower the rate or the demand{}",
        at_line(*line)
    )]
    Unstable {
        station: String,
        /// λ `E[S]` / v(r).
        utilisation: f64,
        /// Line of the system file that defines it.
        line: Option<usize>,
    },
    /// Arrival times and demands (or sizes) differ in number.
    #[error("{times} arrival times but {values} {what}: give one per arrival")]
    TraceLength {
        times: usize,
        /// Name of the other column: demands or sizes.
        what: &'static str,
        values: usize,
    },
    /// A trace goes back in time.
    #[error(
        "arrival times must not decrease, but number {index} comes before its predecessor: sort the trace"
    )]
    TraceOrder {
        /// Index of the offending arrival, from 0.
        index: usize,
    },
    /// A trace value is negative or not finite.
    #[error("{what} must be non-negative and finite, but number {index} is {value}")]
    TraceValue {
        what: &'static str,
        /// Counted from 0.
        index: usize,
        value: f64,
    },
    /// A trace was given for a class that does not exist or is closed.
    #[error("no open class is named {0}: a trace can only drive an open class")]
    TraceClass(String),
    /// A group of replications came back from another process as something else.
    #[error("the state of group {0} is not that of this simulation: is another version of Sojourn there?")]
    State(usize),
    /// A distribution has impossible parameters.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

/// `work` is λ `E[S]`; `saturation` is the work per second of a full station.
fn refuse_overload(
    station: &str,
    line: Option<usize>,
    work: f64,
    saturation: f64,
) -> Result<(), SimulationError> {
    let station = station.to_owned();
    match work / saturation {
        _ if saturation == 0.0 => Err(SimulationError::Collapses { station, line }),
        utilisation if utilisation >= 1.0 => Err(SimulationError::Unstable { station, utilisation, line }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod interval_tests;
#[cfg(test)]
mod tests;
