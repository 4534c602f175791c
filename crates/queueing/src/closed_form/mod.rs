//! Closed forms of one open station: M/G/1 FIFO and PS, and limited processor sharing between them.
//!
//! All take the arrival rate and the first two moments of the service demand, nothing else, and refuse a
//! load of 1 or more: the mean is infinite there. Times are seconds (any unit works if used throughout).

mod lps;
mod mg1;
mod validity;

use thiserror::Error;

pub use lps::Lps;
pub use mg1::Mg1;
pub use validity::Validity;

/// Why a closed form does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum ClosedFormError {
    /// Work arrives as fast as it is served, or faster.
    #[error(
        "the station is unstable: utilisation would be {utilisation:.4}; the arrival rate must stay below \
         {saturation_per_second:.6}/s"
    )]
    Unstable {
        /// λ `E[S]`.
        utilisation: f64,
        /// 1 / `E[S]`.
        saturation_per_second: f64,
    },
    /// A parameter is out of its domain.
    #[error("{name} must be {requirement}, not {value}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What it must satisfy.
        requirement: &'static str,
        /// What it was.
        value: f64,
    },
}

#[cfg(test)]
mod tests;
